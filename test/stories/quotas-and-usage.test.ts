import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCommand } from '../support/command-line.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
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
      if (answer.status === 429) return answer;
      if (answer.status === 200) accepted += 1;
      // A run counts when its end is stored: those that are under way for longer may go beyond the quota.
      await waitFor(async () => (await service.events(source.id)).length === accepted);
      return undefined;
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

  test('the command sets limits, gives them back, and shows what is used', async () => {
    const { service } = fixture;
    const person = await service.createUser('commanded');
    const place = {
      folder: '/nonexistent',
      environment: { MILLRACE_URL: service.url, MILLRACE_API_KEY: service.admin.key },
    };
    const limits = (...words: string[]) => runCommand(place, ['limits', person.id, ...words]);
    const set = await limits('--sources', '5', '--stored-mb', '100', '--credits', '7', '--enforced', 'on');
    assert.match(set.stdout, /^sources +5 +0 +this owner$/m);
    assert.match(set.stdout, /^stored MB +100 +0 +this owner$/m);
    assert.match(set.stdout, /^credits a day +7 +0 +this owner$/m);
    assert.match(set.stdout, /^open streams on each node +none +0 +the settings$/m);
    assert.equal(set.stderr, '');
    const given = await limits('--sources', 'instance', '--enforced', 'instance');
    assert.match(given.stdout, /^sources +none +0 +the settings$/m);
    assert.match(given.stderr, /are only reported/);
    const path = `/v1/quotas/${person.id}`;
    const { body } = await service.api('GET', path, undefined, { key: service.admin.key });
    assert.deepEqual(
      [body.data.own.sources, body.data.own.stored_mb, body.data.own.enforced],
      [null, 100, null],
    );
    assert.match(
      (await limits('--events', 'many')).stderr,
      /--events: found "many", expected a number or `instance`/,
    );
    assert.match(
      (await limits('--enforced', 'yes')).stderr,
      /--enforced: found "yes", expected `on`, `off` or/,
    );
    const own = { ...place, environment: { ...place.environment, MILLRACE_API_KEY: person.key } };
    assert.match((await runCommand(own, ['limits', '--sources', '9'])).stderr, /forbidden|admin/);
  });

  test('a user creates as many workspaces as were set for the user, also with requests at the same moment', async () => {
    const { service } = fixture;
    const person = await service.createUser('founder');
    const create = (name: string) => service.api('POST', '/v1/workspaces', { name }, { key: person.key });
    const first = (await create('First')).body.data;
    const shown = await setQuotas(person.id, { workspaces: 3 });
    assert.deepEqual([shown.workspaces, shown.own.workspaces, shown.used.workspaces], [3, 3, 1]);
    const made = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => create(name)));
    assert.deepEqual(made.map(({ status }) => status).sort(), [200, 200, 429, 429, 429, 429]);
    const refused = made.find(({ status }) => status === 429)?.body;
    assert.deepEqual(
      [refused.code, refused.details, refused.error],
      [
        'quota_exceeded',
        { quota: 'workspaces', limit: 3 },
        'quota used up: 3 workspaces; delete one, or ask the admin of the instance for more',
      ],
    );
    // Workspaces of others in which the user is an admin are not counted, and a workspace has no such limit.
    const theirs = (await service.admin.api('POST', '/v1/workspaces', { name: 'Theirs' })).body.data;
    const member = { user_id: person.id, role: 'admin' };
    assert.equal(
      (await service.admin.api('POST', `/v1/workspaces/${theirs.id}/members`, member)).status,
      200,
    );
    assert.equal((await setQuotas(person.id, {})).used.workspaces, 3);
    const wrong = await service.admin.api('PUT', `/v1/quotas/${theirs.id}`, { workspaces: 1 });
    assert.deepEqual([wrong.status, wrong.body.details.parameter], [400, 'workspaces']);
    const gone = { orgname: first.orgname };
    const deleted = await service.api('DELETE', `/v1/workspaces/${first.id}`, gone, { key: person.key });
    assert.equal(deleted.status, 202, JSON.stringify(deleted.body));
    await waitFor(async () => (await create('Instead')).status === 200);
  });

  test('an owner has as many builds under way as were set for it', async () => {
    const { service } = fixture;
    const { id, key } = await service.createUser('building');
    const shown = await setQuotas(id, { builds: 1 });
    assert.deepEqual([shown.builds, shown.own.builds, shown.used.builds], [1, 1, 0]);
    const held = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const answer = async (request: { url: string }) => {
      if (request.url === '/main.mjs') return { body: `export { default } from './other.mjs';` };
      asked.resolve();
      await held.promise;
      return { body: component };
    };
    const files = await HttpReceiver.start({ answer });
    try {
      const create = (body: object) => service.api('POST', '/v1/sources', body, { key });
      const first = create({ component_url: `http://127.0.0.1:${files.port}/main.mjs` });
      await asked.promise;
      const second = await create({ component_code: component });
      assert.deepEqual(
        [second.status, second.body.code, second.body.details, second.body.error],
        [
          ...[429, 'quota_exceeded', { parameter: 'component_code', quota: 'builds', limit: 1 }],
          'component_code: quota used up: 1 builds at the same time on each node; wait until one has ended, or ask the admin of the instance for more',
        ],
      );
      const other = await service.createUser('building-too');
      assert.equal(
        (await service.api('POST', '/v1/sources', { component_code: component }, { key: other.key })).status,
        200,
      );
      assert.equal((await data('GET', `/v1/quotas/${id}`, undefined, service.admin.key)).used.builds, 1);
      held.resolve();
      assert.equal((await first).status, 200);
      assert.equal((await create({ component_code: component })).status, 200);
    } finally {
      held.resolve();
      await files.close();
    }
  });

  test('sources, active workflows, events and deliveries of a day end at the limits that were set for their owner', async () => {
    const { service } = fixture;
    const { id, key } = await service.createUser('limited');
    const call = (method: string, path: string, body?: unknown) => service.api(method, path, body, { key });
    const limit = { sources: 1, workflows: 1, events: 2, deliveries: 1 };
    const shown = await setQuotas(id, { ...limit, stored_mb: 100, streams: 3 });
    assert.deepEqual(
      [shown.own.sources, shown.events, shown.stored_mb, shown.streams, shown.used.sources, shown.enforced],
      [1, 2, 100, 3, 0, false],
    );
    const source = await data('POST', '/v1/sources', { component_code: component }, key);
    const second = await call('POST', '/v1/sources', { component_code: component });
    assert.deepEqual(
      [second.status, second.body.code, second.body.details, second.body.error],
      [
        ...[429, 'quota_exceeded', { quota: 'sources', limit: 1 }],
        'quota used up: 1 sources; delete one, or ask the admin of the instance for more',
      ],
    );
    const workflow = { settings: { auto_deploy: true } };
    await data('POST', '/v1/workflows', workflow, key);
    const third = await call('POST', '/v1/workflows', workflow);
    assert.deepEqual([third.status, third.body.details.quota], [429, 'workflows']);
    const inactive = await data('POST', '/v1/workflows', {}, key);
    const activation = await call('PUT', `/v1/workflows/${inactive.id}`, { active: true });
    assert.deepEqual([activation.status, activation.body.details.quota], [429, 'workflows']);

    const webhook = await data('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9', name: 'w' }, key);
    await data('POST', `/v1/subscriptions?emitter_id=${source.id}&listener_id=${webhook.id}`, undefined, key);
    const url = source.configured_props.http.endpoint_url;
    const emit = () => fetch(url, { method: 'POST', body: '{}' });
    let answered = 0;
    const refusal = await waitFor(async () => {
      const answer = await emit();
      if (answer.status === 200) answered += 1;
      return answer.status === 429 && answer;
    });
    const { details } = (await refusal.json()) as { details: { quota: string; limit: number } };
    assert.deepEqual([details.quota, details.limit], ['events', 2]);
    assert.ok(Number(refusal.headers.get('retry-after')) > 0);
    assert.ok(answered >= 2, `${answered} were answered`);
    // What was under way when the limit was reached may emit no more.
    // The limit counts events that are about to be stored.
    const stored = await waitFor(async () => {
      const all = await data('GET', `/v1/sources/${source.id}/event_summaries`, undefined, key);
      return all.length >= 2 && all;
    });
    assert.ok(stored.length <= answered, `${stored.length} of ${answered}`);
    const waiting = await waitFor(async () => {
      const all = await data('GET', `/v1/webhooks/${webhook.id}/deliveries`, undefined, key);
      return all.find(({ reason }: { reason: string | null }) => reason === 'quota_exceeded');
    });
    assert.equal(waiting.state, 'queued');
    assert.ok(waiting.next_attempt_at * 1000 - Date.now() <= 15 * 60_000);

    // The attempt that was made is counted when it has ended.
    const today = await waitFor(async () => {
      const day = (await data('GET', '/v1/users/me/usage', undefined, key)).at(-1);
      return day.deliveries >= 1 && day;
    });
    assert.equal(today.events, stored.length);
    const csv = async (path: string, headers = {}) => {
      const answer = await fetch(`${service.url}${path}`, {
        headers: { authorization: `Bearer ${key}`, ...headers },
      });
      const lines = (await answer.text()).split('\r\n');
      return [answer.headers.get('content-type'), lines.length, lines[0], lines.at(-2)];
    };
    const asked = await csv('/v1/users/me/usage?format=csv');
    assert.deepEqual(asked.slice(0, 3), [
      ...['text/csv; charset=utf-8; header=present', 32],
      'day,credits,compute_ms,invocations,events,deliveries',
    ]);
    assert.match(String(asked[3]), new RegExp(`^${today.day},\\d+,\\d+,\\d+,${today.events},\\d+$`));
    const accepted = await csv('/v1/users/me/usage', { accept: 'text/csv' });
    assert.deepEqual(accepted.slice(0, 3), asked.slice(0, 3));

    await setQuotas(id, { ...limit, sources: 0, events: null, workflows: 2 });
    await data('POST', '/v1/sources', { component_code: component }, key);
    await data('PUT', `/v1/workflows/${inactive.id}`, { active: true }, key);
    assert.equal((await emit()).status, 200);
  });

  test('admins of a workspace choose for how many days it keeps what happened; more, and a legal hold, are for the admin of the instance', async () => {
    const { service } = fixture;
    const person = await service.createUser('keeper');
    const workspace = await data('POST', '/v1/workspaces', { name: 'Kept' }, person.key);
    const path = `/v1/workspaces/${workspace.id}/retention`;
    const first = await data('GET', path, undefined, person.key);
    assert.deepEqual(first, {
      workspace_id: workspace.id,
      ...{ events_days: null, runs_days: null, deliveries_days: null, audit_days: null },
      ...{ files_days: null, legal_hold: false },
      instance: {
        events_days: null,
        runs_days: null,
        deliveries_days: 30,
        audit_days: 365,
        files_days: null,
      },
      updated_at: null,
    });
    const own = await data('PUT', path, { events_days: 7, deliveries_days: 30 }, person.key);
    assert.deepEqual([own.events_days, own.deliveries_days, own.runs_days], [7, 30, null]);
    for (const [body, pattern] of [
      [{ audit_days: 366 }, /audit_days: found 366, expected at most 365/],
      [{ deliveries_days: 31 }, /deliveries_days: found 31, expected at most 30/],
      [{ runs_days: 0 }, /runs_days/],
    ] as const) {
      const refused = await service.api('PUT', path, body, { key: person.key });
      assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_parameter']);
      assert.match(refused.body.error, pattern);
    }
    // A body may carry the parameters that every operation takes; they choose nothing here, and another workspace is refused.
    const other = await data(
      'POST',
      '/v1/workspaces',
      { name: 'Other' },
      (await service.createUser('other')).key,
    );
    const foreign = { events_days: 5, workspace_id: other.id, org_id: other.id };
    const elsewhere = await service.api('PUT', path, foreign, { key: person.key });
    assert.deepEqual([elsewhere.status, elsewhere.body.code], [400, 'invalid_parameter']);
    const common = { workspace_id: workspace.id, include: 'events_days', exclude: 'runs_days' };
    const shown = await data('PUT', path, { events_days: 6, ...common }, person.key);
    assert.deepEqual(shown, { events_days: 6 });
    const theirs = await data('GET', `/v1/retention/${other.id}`, undefined, service.admin.key);
    assert.deepEqual([theirs.events_days, theirs.updated_at], [null, null]);
    const forInstance = `/v1/retention/${workspace.id}`;
    await data('PUT', forInstance, { events_days: 7, workspace_id: other.id }, service.admin.key);
    assert.equal(
      (await data('GET', `/v1/retention/${other.id}`, undefined, service.admin.key)).updated_at,
      null,
    );
    const refused = await service.api('PUT', forInstance, { legal_hold: true }, { key: person.key });
    assert.equal(refused.status, 403);
    const held = await data('PUT', forInstance, { legal_hold: true, audit_days: 1000 }, service.admin.key);
    assert.deepEqual([held.legal_hold, held.audit_days, held.events_days], [true, 1000, 7]);
    assert.equal((await data('GET', path, undefined, person.key)).legal_hold, true);
    const unknown = await service.api('PUT', `/v1/retention/${person.id}`, {}, { key: service.admin.key });
    assert.deepEqual([unknown.status, unknown.body.code], [404, 'not_found']);
    const place = {
      folder: '/nonexistent',
      environment: { MILLRACE_URL: service.url, MILLRACE_API_KEY: person.key },
    };
    const words = ['retention', '--workspace', workspace.id, '--events', 'instance'];
    const command = await runCommand(place, words);
    assert.match(command.stdout, /events +as the instance +by number only/);
    assert.match(command.stderr, /A legal hold is in effect/);
    const bad = await runCommand(place, [...words.slice(0, -1), 'ever']);
    assert.match(bad.stderr, /--events: found "ever", expected a number of days or `instance`/);
    const csv = await runCommand(place, ['usage', '--csv', '--workspace', workspace.id]);
    const [head, ...lines] = csv.stdout.trim().split('\n');
    assert.deepEqual([head, lines.length], ['day,credits,compute_ms,invocations,events,deliveries', 30]);
  });

  test('everything of a workspace is exported as JSON lines, for its admins, without secrets and without what is of others', async () => {
    const { service } = fixture;
    const person = await service.createUser('exporter');
    const workspace = await data('POST', '/v1/workspaces', { name: 'Moving' }, person.key);
    const owned = { org_id: workspace.id };
    await data('POST', '/v1/sources', { component_code: component }, person.key);
    const source = await data('POST', '/v1/sources', { component_code: component, ...owned }, person.key);
    const step = { namespace: 'one', code: 'export default defineComponent({ run() { return 42; } });' };
    const flow = { steps: [step], triggers: [{ type: 'http' }], settings: { auto_deploy: true }, ...owned };
    const workflow = await data('POST', '/v1/workflows', flow, person.key);
    await data(
      'PUT',
      '/v1/variables/API_TOKEN',
      { value: 'hush-hush-1', secret: true, ...owned },
      person.key,
    );
    const webhook = await data('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9', ...owned }, person.key);
    await data(
      'POST',
      `/v1/subscriptions?emitter_id=${source.id}&listener_id=${webhook.id}`,
      undefined,
      person.key,
    );
    const emitted = 12;
    for (let n = 0; n < emitted; n += 1)
      await fetch(source.configured_props.http.endpoint_url, { method: 'POST', body: JSON.stringify({ n }) });
    await fetch(workflow.triggers[0].endpoint_url, {
      ...{ method: 'POST', body: 'set aside' },
      headers: { 'x-pd-upload-body': '1', 'content-type': 'text/plain' },
    });
    await data(
      'POST',
      '/v1/accounts',
      { app: 'gitlab', credentials: { token: 'hush-hush-2' }, ...owned },
      person.key,
    );
    await data('POST', '/v1/apps', { slug: 'acme', name: 'Acme', auth_type: 'none', ...owned }, person.key);
    const read = async (path = `/v1/workspaces/${workspace.id}/export`) => {
      const headers = { authorization: `Bearer ${person.key}` };
      const text = await (await fetch(`${service.url}${path}`, { headers })).text();
      return {
        text,
        lines: text
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line)),
      };
    };
    const { text, lines } = await waitFor(async () => {
      const all = await read();
      const count = (kind: string) => all.lines.filter((line) => line.kind === kind).length;
      return count('event') >= emitted && count('delivery') >= emitted && count('run_step') === 1 && all;
    });
    const kinds = Map.groupBy(lines, ({ kind }) => kind);
    for (const kind of [
      'workspace',
      'member',
      'workflow',
      'trigger',
      'deployment',
      'webhook',
      'subscription',
      'run',
    ])
      assert.equal(kinds.get(kind)?.length, 1, kind);
    assert.deepEqual(
      kinds.get('source')?.map((line) => line.data.id),
      [source.id],
    );
    assert.equal(kinds.get('variable')?.[0].data.name, 'API_TOKEN');
    assert.ok((kinds.get('audit_record')?.length ?? 0) >= 5);
    assert.equal(lines.at(-1).kind, 'end');
    for (const kind of ['file', 'app', 'account', 'account_audit_record', 'variable_audit_record'])
      assert.equal(kinds.get(kind)?.length, 1, kind);
    const stored = kinds.get('file')?.[0].data;
    assert.deepEqual([stored.content_type, stored.size], ['text/plain', 9]);
    assert.equal(await (await fetch(stored.url)).text(), 'set aside');
    for (const secret of [
      'hush-hush-1',
      'hush-hush-2',
      webhook.signing_secret ?? webhook.secret ?? 'whsec_',
      '"sealed"',
      '"token"',
    ])
      assert.ok(!text.includes(secret), secret);
    const viewer = await service.createUser('onlooker');
    await data(
      'POST',
      `/v1/workspaces/${workspace.id}/members`,
      { user_id: viewer.id, role: 'member' },
      person.key,
    );
    const path = `/v1/workspaces/${workspace.id}/export`;
    assert.equal((await service.api('GET', path, undefined, { key: viewer.key })).status, 403);
    // What is theirs personally, and nothing of the workspace.
    const own = await read('/v1/users/me/export');
    const ownKinds = Map.groupBy(own.lines, ({ kind }) => kind);
    for (const kind of ['user', 'api_key', 'source', 'end'])
      assert.equal(ownKinds.get(kind)?.length, 1, kind);
    assert.ok(ownKinds.get('membership')?.some((line) => line.data.workspace_id === workspace.id));
    assert.ok(!own.text.includes(source.id) && !own.text.includes(person.key));
    assert.equal(own.lines.at(-1).kind, 'end');
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
