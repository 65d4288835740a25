import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** Emits each item of the list it is sent, on the channel that the query names. */
const emitterCode = `export default {
  name: 'Emitter', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) {
    for (const item of event.body) this.$emit(item, { name: event.query.channel });
    this.http.respond({ status: 200, body: {} });
  },
};`;

/** Emits what it hears. */
const listenerCode = `export default {
  name: 'Listener', props: { http: '$.interface.http' },
  run(event) { this.$emit({ heard: event }); },
};`;

async function emitter(service: ServiceClient) {
  const source = await service.createSource({ component_code: emitterCode });
  const id: string = source.id;
  const url: string = source.configured_props.http.endpoint_url;
  return {
    id,
    async emit(items: unknown[], channel?: string) {
      const answer = await fetch(channel === undefined ? url : `${url}?channel=${channel}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(items),
      });
      assert.equal(answer.status, 200);
    },
    /** Ids of what is kept, oldest first, when there are so many. */
    async eventIds(count: number, query = ''): Promise<string[]> {
      const events = await waitFor(
        async () => {
          const list = await service.events(id, query);
          return list.length >= count && list;
        },
        { what: `${count} event(s) of ${id}` },
      );
      return events.map((event) => event.id as string).reverse();
    },
  };
}

async function listener(service: ServiceClient): Promise<string> {
  return (await service.createSource({ component_code: listenerCode })).id;
}

async function webhook(service: ServiceClient, receiver: HttpReceiver): Promise<string> {
  const answer = await service.api('POST', '/v1/webhooks', { url: `${receiver.url}/hook` });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.data.id;
}

async function ok(service: ServiceClient, method: string, path: string, body?: unknown) {
  const answer = await service.api(method, path, body);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.data;
}

/** What a listening source has heard, in the order in which it did. */
async function untilHeard(service: ServiceClient, id: string, count: number): Promise<unknown[]> {
  return waitFor(
    async () => {
      const list = (await service.events(id)).map(({ event }) => event.heard).reverse();
      return list.length >= count && list;
    },
    { what: `${id} to hear ${count} event(s)` },
  );
}

async function untilState(service: ServiceClient, id: string, state: string) {
  return waitFor(
    async () => {
      const replay = await ok(service, 'GET', `/v1/replays/${id}`);
      return replay.state === state && replay;
    },
    { what: `${id} to be ${state}` },
  );
}

forEachSharedService((fixture) => {
  test('a range of stored events is sent to a listening source again, and its progress can be read', async () => {
    const { service } = fixture;
    const from = await emitter(service);
    const to = await listener(service);
    await from.emit(['a', 'b', 'c', 'd']);
    await from.emit(['elsewhere'], 'orders');
    const ids = await from.eventIds(4);
    await from.eventIds(1, '&event_name=orders');
    const path = `/v1/sources/${from.id}/replay`;
    const begun = await ok(service, 'POST', path, {
      listener_id: to,
      start_id: ids[1],
      end_id: ids[2],
      rate: 100,
    });
    assert.match(begun.id, /^rpl_/);
    assert.ok(['sending', 'finished'].includes(begun.state), begun.state);
    assert.deepEqual(await untilHeard(service, to, 2), ['b', 'c']);
    const { created_at, updated_at, user_id, ...replay } = await untilState(service, begun.id, 'finished');
    assert.deepEqual(replay, {
      id: begun.id,
      state: 'finished',
      reason: null,
      total: 2,
      sent: 2,
      failed: 0,
      waiting: 0,
      missed: 0,
      emitter_id: from.id,
      listener_id: to,
      subscription_id: null,
      event_name: '',
      start_id: ids[1],
      end_id: ids[2],
      rate: 100,
    });
    assert.ok(created_at > 1.6e9 && updated_at >= created_at);
    assert.match(user_id, /^u_/);
    const query = `?listener_id=${to}&event_name=orders&rate=50`;
    const other = await ok(service, 'POST', `${path}${query}`);
    assert.deepEqual([other.event_name, other.rate, other.total], ['orders', 50, 1]);
    assert.deepEqual(await untilHeard(service, to, 3), ['b', 'c', 'elsewhere']);
    const list = await service.api('GET', `/v1/sources/${from.id}/replays?limit=1`);
    assert.deepEqual([list.body.data[0].id, list.body.page_info.total_count], [other.id, 2]);
    const cursor = list.body.page_info.end_cursor;
    const next = await service.api('GET', `/v1/sources/${from.id}/replays?after=${cursor}`);
    assert.deepEqual(
      next.body.data.map(({ id }: { id: string }) => id),
      [begun.id],
    );
  });

  test('a webhook gets the same event ids again, with new webhook-ids, at the rate that was asked for', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const from = await emitter(service);
    const to = await webhook(service, receiver);
    await ok(service, 'POST', '/v1/subscriptions', { emitter_id: from.id, listener_id: to });
    await from.emit([{ n: 1 }, { n: 2 }, { n: 3 }]);
    await receiver.waitForRequest(3);
    const begunMs = Date.now();
    const { id } = await ok(service, 'POST', `/v1/sources/${from.id}/replay`, { listener_id: to, rate: 5 });
    await receiver.waitForRequest(6);
    // The third is due 400 ms after the first.
    assert.ok(Date.now() - begunMs >= 400);
    const live = receiver.requests.slice(0, 3);
    const again = receiver.requests.slice(3);
    const header = (name: string) => (request: (typeof live)[number]) => request.headers[name];
    // Several are sent to a webhook at a time, so that on a busy machine a later one may arrive first.
    const seen = (requests: typeof live) =>
      requests
        .map((request) => ({ id: header('x-pd-event-id')(request), ...(request.json() as { n: number }) }))
        .sort((a, b) => a.n - b.n);
    assert.deepEqual(seen(again), seen(live));
    assert.deepEqual(
      seen(again).map(({ n }) => n),
      [1, 2, 3],
    );
    assert.equal(new Set(receiver.requests.map(header('webhook-id'))).size, 6);
    assert.equal((await untilState(service, id, 'finished')).sent, 3);
  });

  test('a replay that is cancelled sends nothing more, with a record of each delivery', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const from = await emitter(service);
    const to = await webhook(service, receiver);
    // At one a second they last longer than a busy machine takes to cancel them.
    const count = 60;
    await from.emit(Array.from({ length: count }, (_, n) => n));
    await from.eventIds(count);
    const { id } = await ok(service, 'POST', `/v1/sources/${from.id}/replay`, { listener_id: to, rate: 1 });
    await waitFor(async () => (await ok(service, 'GET', `/v1/replays/${id}`)).sent > 0);
    assert.equal((await service.api('DELETE', `/v1/replays/${id}`)).status, 204);
    const replay = await waitFor(
      async () => {
        const seen = await ok(service, 'GET', `/v1/replays/${id}`);
        return seen.waiting === 0 && seen;
      },
      { what: 'all deliveries of the replay to be cancelled' },
    );
    assert.deepEqual([replay.state, replay.reason], ['cancelled', 'replay_cancelled']);
    assert.equal(replay.sent + replay.failed, count);
    const letters = await service.api('GET', `/v1/webhooks/${to}/deliveries?state=cancelled&limit=100`);
    assert.equal(letters.body.data.length, replay.failed);
    for (const { reason } of letters.body.data) assert.equal(reason, 'replay_cancelled');
    assert.equal((await service.api('DELETE', `/v1/replays/${id}`)).status, 204);
    // What is sent after it shows that nothing of it was still on its way.
    await ok(service, 'POST', '/v1/subscriptions', { emitter_id: from.id, listener_id: to });
    await from.emit(['last']);
    const received = await waitFor(() => {
      const bodies = receiver.requests.map((request) => request.json());
      return bodies.includes('last') && bodies;
    });
    // One may have been on its way when the others were cancelled.
    assert.ok(received.length <= replay.sent + 2 && received.length <= count, JSON.stringify(received));
  });

  test('a late subscription gets what is kept from an event on, and then what is new', async () => {
    const { service } = fixture;
    const from = await emitter(service);
    const to = await listener(service);
    await from.emit(['a', 'b', 'c']);
    const ids = await from.eventIds(3);
    const asked = { emitter_id: from.id, listener_id: to, from_event_id: ids[1] };
    const made = await ok(service, 'POST', '/v1/subscriptions', asked);
    assert.match(made.id, /^sub_/);
    assert.equal(made.replay_id, made.replay.id);
    assert.deepEqual(
      [made.replay.total, made.replay.start_id, made.replay.subscription_id],
      [2, ids[1], made.id],
    );
    await from.emit(['d']);
    const heard = await untilHeard(service, to, 3);
    assert.deepEqual(heard.toSorted(), ['b', 'c', 'd']);
    assert.equal((await untilState(service, made.replay_id, 'finished')).sent, 2);
    const again = await service.api('POST', '/v1/subscriptions', asked);
    assert.deepEqual([again.status, again.body.code], [409, 'conflict']);
    assert.equal(again.body.details.subscription_id, made.id);
    const early = await listener(service);
    const query = `emitter_id=${from.id}&listener_id=${early}&from_event_id=1-0`;
    assert.equal((await ok(service, 'POST', `/v1/subscriptions?${query}`)).replay.total, 4);
    assert.deepEqual(await untilHeard(service, early, 4), ['a', 'b', 'c', 'd']);
  });

  test('what is wrong with a request is said, by parameter', async () => {
    const { service } = fixture;
    const from = await emitter(service);
    const to = await listener(service);
    const replayCases: [Record<string, unknown>, number, string][] = [
      [{}, 400, 'listener_id'],
      [{ listener_id: 'dc_doesnotexist' }, 404, 'listener_id'],
      [{ listener_id: 'o_x' }, 400, 'listener_id'],
      [{ listener_id: to, start_id: 'first' }, 400, 'start_id'],
      [{ listener_id: to, end_id: '1-' }, 400, 'end_id'],
      [{ listener_id: to, start_id: '2-0', end_id: '1-9' }, 400, 'start_id'],
      [{ listener_id: to, event_name: '$in' }, 400, 'event_name'],
      [{ listener_id: to, rate: 0 }, 400, 'rate'],
      [{ listener_id: to, rate: 101 }, 400, 'rate'],
      [{ listener_id: to, org_id: 'o_doesnotexist' }, 404, 'org_id'],
      [{ listener_id: to, rate: 1.5 }, 400, 'rate'],
    ];
    for (const [body, status, parameter] of replayCases) {
      const answer = await service.api('POST', `/v1/sources/${from.id}/replay`, body);
      const seen = [answer.status, answer.body.details.parameter];
      assert.deepEqual(seen, [status, parameter], JSON.stringify(body));
    }
    const missing = await service.api('POST', '/v1/sources/dc_doesnotexist/replay', { listener_id: to });
    assert.deepEqual([missing.status, missing.body.details.parameter], [404, 'id']);
    const subscriptionCases: [Record<string, unknown>, number, string][] = [
      [{ emitter_id: 'dc_*', listener_id: to, from_event_id: '1-0' }, 400, 'from_event_id'],
      [{ emitter_id: from.id, listener_id: to, from_event_id: '' }, 400, 'from_event_id'],
      [{ emitter_id: 'dc_doesnotexist', listener_id: to, from_event_id: '1-0' }, 404, 'emitter_id'],
    ];
    for (const [body, status, parameter] of subscriptionCases) {
      const answer = await service.api('POST', '/v1/subscriptions', body);
      const seen = [answer.status, answer.body.details.parameter];
      assert.deepEqual(seen, [status, parameter], JSON.stringify(body));
    }
    const nothing = await ok(service, 'POST', `/v1/sources/${from.id}/replay`, { listener_id: to });
    assert.deepEqual([nothing.state, nothing.total, nothing.start_id], ['finished', 0, null]);
  });

  test('strangers see no replay and begin none, and those of a member who leaves end', async () => {
    const { service } = fixture;
    const person = await service.createUser('kim');
    const asKim = (method: string, path: string, body?: unknown) =>
      service.api(method, path, body, { key: person.key });
    const org = (await ok(service, 'POST', '/v1/workspaces', { name: 'Replayers' })).id;
    const shared = await service.createSource({ component_code: emitterCode, org_id: org });
    await fetch(shared.configured_props.http.endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      // As many as last, at one a second, until the member has left on a busy machine too.
      body: JSON.stringify(Array.from({ length: 60 }, (_, n) => n)),
    });
    await waitFor(async () => (await service.events(shared.id)).length === 60);
    const own = (await asKim('POST', '/v1/sources', { component_code: listenerCode })).body.data.id;
    const path = `/v1/sources/${shared.id}/replay`;
    assert.equal((await asKim('POST', path, { listener_id: own })).status, 404);
    const ours = await listener(service);
    const { id } = await ok(service, 'POST', path, { listener_id: ours });
    for (const method of ['GET', 'DELETE'])
      assert.equal((await asKim(method, `/v1/replays/${id}`)).status, 404, method);
    assert.equal((await asKim('GET', `/v1/sources/${shared.id}/replays`)).status, 404);
    await service.api('POST', `/v1/workspaces/${org}/members`, { user_id: person.id, role: 'viewer' });
    assert.equal((await asKim('POST', path, { listener_id: own })).status, 403);
    assert.equal((await asKim('GET', `/v1/replays/${id}`)).status, 200);
    assert.equal((await asKim('DELETE', `/v1/replays/${id}`)).status, 403);
    await service.api('POST', `/v1/workspaces/${org}/members`, { user_id: person.id, role: 'member' });
    // A listener of another owner stays theirs.
    assert.equal((await asKim('POST', path, { listener_id: ours })).status, 404);
    const slow = await asKim('POST', path, { listener_id: own, rate: 1 });
    assert.equal(slow.status, 200, JSON.stringify(slow.body));
    const left = await service.api('DELETE', `/v1/workspaces/${org}/members/${person.id}`);
    assert.equal(left.status, 204);
    const ended = await waitFor(async () => {
      const { data } = (await asKim('GET', `/v1/replays/${slow.body.data.id}`)).body;
      return data.waiting === 0 && data;
    });
    assert.deepEqual([ended.state, ended.reason], ['cancelled', 'membership_ended']);
    assert.ok(ended.failed >= 2, JSON.stringify(ended));
  });
});
