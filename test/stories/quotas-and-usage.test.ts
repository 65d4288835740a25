import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const component = `export default {
  name: 'Counted', props: { http: '$.interface.http' }, run(event) { this.$emit(event.body); },
};`;

forEachSharedService((fixture) => {
  const data = async (method: string, path: string, body?: unknown, key?: string) => {
    const answer = await fixture.service.api(method, path, body, key === undefined ? {} : { key });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };
  /** As the admin of the instance. */
  const setQuotas = (owner: string, body: unknown) =>
    data('PUT', `/v1/quotas/${owner}`, body, fixture.service.admin.key);

  test('over its quota an owner gets 429 until the quota is raised; nothing that was accepted is lost', async () => {
    const { service } = fixture;
    const me = await data('GET', '/v1/users/me');
    const source = await service.createSource({ component_code: component });
    const post = (headers: Record<string, string> = {}) =>
      fetch(source.configured_props.http.endpoint_url, { method: 'POST', headers, body: '{}' });
    assert.equal((await post({ 'idempotency-key': 'first' })).status, 200);
    await waitFor(async () => (await data('GET', '/v1/users/me')).daily_invocations_used >= 1);
    await setQuotas(me.id, { invocations: 3, enforced: true });
    let accepted = 1;
    const refusal = await waitFor(async () => {
      const answer = await post();
      if (answer.status === 200) accepted += 1;
      return answer.status === 429 && answer;
    });
    const body = (await refusal.json()) as { code: string; details: Record<string, unknown> };
    const dayMs = 86_400_000;
    const reset = (Math.floor(Date.now() / dayMs) + 1) * dayMs;
    assert.deepEqual([body.code, body.details.quota], ['quota_exceeded', 'invocations']);
    assert.ok(Math.abs(Number(refusal.headers.get('retry-after')) - (reset - Date.now()) / 1000) < 60);
    assert.equal(refusal.headers.get('x-ratelimit-reset'), String(reset / 1000));
    assert.equal(refusal.headers.get('x-ratelimit-limit'), '3');
    const repeated = await post({ 'idempotency-key': 'first' });
    assert.deepEqual([repeated.status, repeated.headers.get('idempotency-replayed')], [200, 'true']);
    assert.equal((await post({ 'idempotency-key': 'second' })).status, 429);
    assert.ok(accepted >= 3 && accepted <= 5, `${accepted} were accepted`);

    const shown = await setQuotas(me.id, { invocations: null, enforced: null });
    assert.deepEqual([shown.invocations, shown.enforced], [10_000_000, false]);
    assert.equal((await post()).status, 200);
    accepted += 1;
    await waitFor(async () => (await service.events(source.id)).length === accepted);
    const mine = await waitFor(async () => {
      const user = await data('GET', '/v1/users/me');
      return user.daily_invocations_used === accepted && user;
    });
    assert.equal(mine.daily_invocations_quota, 10_000_000);
    const usage = await data('GET', '/v1/users/me/usage');
    assert.equal(usage.length, 30);
    const today = usage.at(-1);
    assert.equal(today.day, new Date().toISOString().slice(0, 10));
    assert.deepEqual([today.invocations, today.credits], [accepted, accepted]);
    assert.equal(usage[0].invocations, 0);
  });

  test('a source is counted for its workspace, not for who made it; quotas of one owner are shown where they count', async () => {
    const { service } = fixture;
    const person = await service.createUser('member');
    const workspace = await data('POST', '/v1/workspaces', { name: 'Counting' }, person.key);
    const made = await service.api(
      'POST',
      '/v1/sources',
      { component_code: component, org_id: workspace.id },
      { key: person.key },
    );
    const url = made.body.data.configured_props.http.endpoint_url;
    assert.equal((await fetch(url, { method: 'POST', body: '{}' })).status, 200);
    await setQuotas(workspace.id, { credits: 77, compute_ms: 88, invocations: 99 });
    const me = await waitFor(async () => {
      const user = await data('GET', '/v1/users/me', undefined, person.key);
      return user.orgs[0].daily_invocations_used === 1 && user;
    });
    assert.deepEqual([me.daily_invocations_used, me.orgs.length], [0, 1]);
    const { daily_compute_time_used: _, ...org } = me.orgs[0];
    assert.deepEqual(org, {
      id: workspace.id,
      orgname: workspace.orgname,
      name: 'Counting',
      email: workspace.email,
      daily_credits_quota: 77,
      daily_credits_used: 1,
      daily_compute_time_quota: 88,
      daily_invocations_quota: 99,
      daily_invocations_used: 1,
    });
    assert.deepEqual(await data('GET', `/v1/workspaces/${workspace.id}`, undefined, person.key), {
      id: workspace.id,
      orgname: workspace.orgname,
      name: 'Counting',
      email: workspace.email,
      daily_credits_quota: 77,
      daily_credits_used: 1,
    });
    const usage = await data('GET', `/v1/workspaces/${workspace.id}/usage`, undefined, person.key);
    assert.equal(usage.at(-1).invocations, 1);
    const stranger = await service.createUser('stranger');
    const refused = await service.api('GET', `/v1/workspaces/${workspace.id}/usage`, undefined, {
      key: stranger.key,
    });
    assert.equal(refused.status, 404);
  });

  test('processes and memory of an owner are set beside its quotas, and null gives them back', async () => {
    const person = await fixture.service.createUser('bounded');
    const set = await setQuotas(person.id, { processes_max: 4, memory_mb_max: 512 });
    assert.deepEqual([set.own.processes_max, set.own.memory_mb_max, set.own.credits], [4, 512, null]);
    const given = await setQuotas(person.id, { processes_max: null });
    assert.deepEqual([given.own.processes_max, given.own.memory_mb_max], [null, 512]);
    const path = `/v1/quotas/${person.id}`;
    for (const body of [{ processes_max: 0 }, { memory_mb_max: 63 }]) {
      const { status, body: answer } = await fixture.service.admin.api('PUT', path, body);
      assert.deepEqual([status, answer.details.parameter], [400, Object.keys(body)[0]]);
    }
  });

  test('a user on the paid plan sees the billing period, one on the free plan the day', async () => {
    const person = await fixture.service.createUser('payer');
    const free = await data('GET', '/v1/users/me', undefined, person.key);
    assert.deepEqual(Object.keys(free), [
      ...['id', 'username', 'email', 'daily_compute_time_quota', 'daily_compute_time_used'],
      ...['daily_invocations_quota', 'daily_invocations_used', 'orgs'],
    ]);
    const shown = await setQuotas(person.id, { plan: 'paid' });
    assert.equal(shown.plan, 'paid');
    const paid = await data('GET', '/v1/users/me', undefined, person.key);
    const start = Math.floor(Date.now() / 86_400_000) * 86_400;
    assert.deepEqual(Object.keys(paid), [
      ...['id', 'username', 'email', 'billing_period_start_ts', 'billing_period_end_ts'],
      'billing_period_credits',
    ]);
    assert.deepEqual([paid.billing_period_start_ts, paid.billing_period_credits], [start, 0]);
    const days = (paid.billing_period_end_ts - start) / 86_400;
    assert.ok(days >= 28 && days <= 31, `${days} days`);
    await setQuotas(person.id, { plan: 'free' });
    assert.deepEqual(await data('GET', '/v1/users/me', undefined, person.key), free);
  });

  test('only the admin of the instance sees and sets quotas, of owners that there are', async () => {
    const { service } = fixture;
    const person = await service.createUser('nosy');
    const ask = async (method: string, path: string, body?: unknown, key?: string) => {
      const answer = await service.api(method, path, body, { key: key ?? service.admin.key });
      return [answer.status, answer.body.code, answer.body.details.parameter];
    };
    assert.deepEqual(await ask('GET', `/v1/quotas/${person.id}`, undefined, person.key), [
      ...[403, 'forbidden', undefined],
    ]);
    assert.deepEqual(await ask('PUT', `/v1/quotas/${person.id}`, { credits: 1 }, person.key), [
      ...[403, 'forbidden', undefined],
    ]);
    assert.deepEqual(await ask('GET', '/v1/quotas/u_nobody'), [404, 'not_found', 'id']);
    assert.deepEqual(await ask('PUT', '/v1/quotas/o_nobody', { credits: 1 }), [404, 'not_found', 'id']);
    for (const [body, parameter] of [
      [{ credits: -1 }, 'credits'],
      [{ plan: 'gold' }, 'plan'],
    ] as const) {
      assert.deepEqual(await ask('PUT', `/v1/quotas/${person.id}`, body), [
        ...[400, 'invalid_parameter', parameter],
      ]);
    }
  });
});
