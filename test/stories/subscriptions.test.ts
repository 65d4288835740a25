import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** Emits what it is sent: `{ emits: [{ event, channel }], throws }`. */
const emitterCode = `export default {
  name: 'Emitter', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) {
    const { emits = [], throws, says } = event.body ?? {};
    for (const { event: emitted, channel } of emits) this.$emit(emitted, channel === undefined ? {} : { name: channel });
    if (says !== undefined) console.log(says);
    this.http.respond({ status: 200, body: {} });
    if (throws !== undefined) throw new Error(throws);
  },
};`;

/** Emits what it hears. */
const listenerCode = `export default {
  name: 'Listener', props: { http: '$.interface.http' },
  run(event) { this.$emit({ heard: event }); },
};`;

interface Emits {
  emits?: { event: unknown; channel?: string }[];
  throws?: string;
  says?: string;
}

async function emitter(service: ServiceClient) {
  const source = await service.createSource({ component_code: emitterCode });
  return {
    id: source.id as string,
    async emit(body: Emits) {
      const answer = await fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      assert.equal(answer.status, 200);
    },
  };
}

async function listener(service: ServiceClient): Promise<string> {
  return (await service.createSource({ component_code: listenerCode })).id;
}

async function subscribe(service: ServiceClient, body: Record<string, string>) {
  const answer = await service.api('POST', '/v1/subscriptions', body);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.data;
}

/** What a listener has heard, oldest first. */
async function heard(service: ServiceClient, id: string): Promise<unknown[]> {
  return (await service.events(id)).map(({ event }) => event.heard).reverse();
}

async function untilHeard(service: ServiceClient, id: string, count: number): Promise<unknown[]> {
  return waitFor(
    async () => {
      const list = await heard(service, id);
      return list.length >= count && list;
    },
    { what: `${id} to hear ${count} event(s)` },
  );
}

forEachSharedService((fixture) => {
  test('a source that listens gets the emitted object itself as run(event), in the order of the emits', async () => {
    const { service } = fixture;
    const from = await emitter(service);
    const to = await listener(service);
    await subscribe(service, { emitter_id: from.id, listener_id: to });
    await from.emit({
      emits: [{ event: { n: 1, deep: { list: [1, 'two', null] } } }, { event: 'text' }, { event: 3 }],
    });
    assert.deepEqual(await untilHeard(service, to, 3), [
      { n: 1, deep: { list: [1, 'two', null] } },
      'text',
      3,
    ]);
  });

  test('only events of the channel are heard, and only from when the subscription was made until it ended', async () => {
    const { service } = fixture;
    const from = await emitter(service);
    const onDefault = await listener(service);
    const onCustom = await listener(service);
    await from.emit({ emits: [{ event: 'before' }] });
    // The reply goes out before the events of the run are stored.
    await waitFor(async () => (await service.events(from.id)).length === 1);
    await subscribe(service, { emitter_id: from.id, listener_id: onDefault });
    await subscribe(service, { emitter_id: from.id, listener_id: onCustom, event_name: 'orders' });
    await from.emit({
      emits: [{ event: 'a' }, { event: 'b', channel: 'orders' }, { event: 'c', channel: 'other' }],
    });
    assert.deepEqual(await untilHeard(service, onDefault, 1), ['a']);
    assert.deepEqual(await untilHeard(service, onCustom, 1), ['b']);
    const query = `emitter_id=${from.id}&listener_id=${onDefault}&event_name=`;
    assert.equal((await service.api('DELETE', `/v1/subscriptions?${query}`)).status, 204);
    assert.equal((await service.api('DELETE', `/v1/subscriptions?${query}`)).status, 404);
    await from.emit({ emits: [{ event: 'd' }, { event: 'e', channel: 'orders' }] });
    assert.deepEqual(await untilHeard(service, onCustom, 2), ['b', 'e']);
    assert.deepEqual(await heard(service, onDefault), ['a']);
  });

  test('$errors and $logs are channels like others', async () => {
    const { service } = fixture;
    const from = await emitter(service);
    const errors = await listener(service);
    const logs = await listener(service);
    await subscribe(service, { emitter_id: from.id, listener_id: errors, event_name: '$errors' });
    await subscribe(service, { emitter_id: from.id, listener_id: logs, event_name: '$logs' });
    await from.emit({ throws: 'went wrong', says: 'a line' });
    const [error] = (await untilHeard(service, errors, 1)) as { error: { message: string } }[];
    const [line] = (await untilHeard(service, logs, 1)) as { message: string }[];
    assert.equal(error?.error.message, 'went wrong');
    assert.equal(line?.message, 'a line');
  });

  test('dc_* is every source of the owner, later ones too; o_… and u_… are everything of that owner', async () => {
    const { service } = fixture;
    const me = (await service.api('GET', '/v1/users/me')).body.data.id;
    const toGlob = await listener(service);
    const toOwner = await listener(service);
    await subscribe(service, { emitter_id: 'dc_*', listener_id: toGlob, event_name: 'glob' });
    await subscribe(service, { emitter_id: me, listener_id: toOwner, event_name: 'glob' });
    const later = await emitter(service);
    await later.emit({ emits: [{ event: 'x', channel: 'glob' }] });
    assert.deepEqual(await untilHeard(service, toGlob, 1), ['x']);
    assert.deepEqual(await untilHeard(service, toOwner, 1), ['x']);
    const globs = { emitter_id: 'dc_*', listener_id: toGlob, event_name: 'glob' };
    assert.equal((await service.api('DELETE', '/v1/subscriptions', globs)).status, 204);
    await later.emit({ emits: [{ event: 'y', channel: 'glob' }] });
    assert.deepEqual(await untilHeard(service, toOwner, 2), ['x', 'y']);
    assert.deepEqual(await heard(service, toGlob), ['x']);
  });

  test('the same subscription again answers the existing one, also by the older form of the request', async () => {
    const { service } = fixture;
    const from = await emitter(service);
    const to = await listener(service);
    const first = await subscribe(service, { emitter_id: from.id, listener_id: to });
    assert.match(first.id, /^sub_/);
    assert.deepEqual([first.emitter_id, first.listener_id, first.event_name], [from.id, to, '']);
    assert.deepEqual(
      await subscribe(service, { emitter_id: from.id, listener_id: to, event_name: '' }),
      first,
    );
    const inQuery = `/v1/subscriptions?emitter_id=${from.id}&listener_id=${to}`;
    assert.deepEqual((await service.api('POST', inQuery)).body.data, first);
    const older = await service.api('PUT', `/v1/sources/${to}/listen/${from.id}`);
    assert.deepEqual(older.body.data, first);
    const other = await subscribe(service, { emitter_id: from.id, listener_id: to, event_name: 'orders' });
    const { data } = (await service.api('GET', '/v1/users/me/subscriptions')).body;
    const ours = data.filter(({ listener_id }: { listener_id: string }) => listener_id === to);
    assert.deepEqual(ours, [other, first]);
    await from.emit({ emits: [{ event: 'once' }] });
    await from.emit({ emits: [{ event: 'again' }] });
    assert.deepEqual(await untilHeard(service, to, 2), ['once', 'again']);
  });

  test('a source may listen to itself, and a loop ends after ten hops with a record', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: `export default {
        name: 'Loop', props: { http: '$.interface.http' },
        run(event) { this.$emit({ n: (event.n ?? 0) + 1 }); },
      };`,
    });
    await subscribe(service, { emitter_id: source.id, listener_id: source.id });
    await fetch(source.configured_props.http.endpoint_url, { method: 'POST' });
    await waitFor(async () => (await service.events(source.id)).length === 11, { what: 'eleven events' });
    const letters = await waitFor(async () => {
      const { data } = (await service.api('GET', '/v1/users/me/dead_letters?state=dropped')).body;
      const ours = data.filter(({ listener_id }: { listener_id: string }) => listener_id === source.id);
      return ours.length > 0 && ours;
    });
    assert.deepEqual(
      letters.map(({ state, reason }: { state: string; reason: string }) => [state, reason]),
      [['dropped', 'too_many_hops']],
    );
    assert.equal((await service.events(source.id)).length, 11);
  });

  test('automatic subscriptions hold for what is created after them, from its first event on', async () => {
    const { service } = fixture;
    const to = await listener(service);
    const before = await emitter(service);
    const asked = { event_name: '$logs', listener_id: to };
    const made = await service.api('POST', '/v1/auto_subscriptions', asked);
    assert.equal(made.status, 200);
    assert.deepEqual([made.body.data.event_name, made.body.data.listener_id], ['$logs', to]);
    assert.deepEqual((await service.api('POST', '/v1/auto_subscriptions', asked)).body.data, made.body.data);
    const after = await service.createSource({
      component_code: `export default {
        name: 'Says', props: { http: '$.interface.http' },
        hooks: { async deploy() { console.log('from the deploy hook'); } },
        run() {},
      };`,
    });
    await before.emit({ says: 'not heard' });
    const lines = (await untilHeard(service, to, 1)) as { message: string }[];
    assert.deepEqual(
      lines.map(({ message }) => message),
      ['from the deploy hook'],
    );
    const { data } = (await service.api('GET', '/v1/users/me/subscriptions')).body;
    assert.ok(
      data.some(
        (row: { emitter_id: string; listener_id: string }) =>
          row.emitter_id === after.id && row.listener_id === to,
      ),
    );
    assert.equal((await service.api('DELETE', `/v1/auto_subscriptions/${made.body.data.id}`)).status, 204);
    const wrong = await service.api('POST', '/v1/auto_subscriptions', {
      event_name: 'orders',
      listener_id: to,
    });
    assert.deepEqual([wrong.status, wrong.body.details.parameter], [400, 'event_name']);
  });

  test('a source that is deleted no longer has subscriptions, on either side', async () => {
    const { service } = fixture;
    const from = await emitter(service);
    const to = await listener(service);
    const other = await listener(service);
    await subscribe(service, { emitter_id: from.id, listener_id: to });
    await subscribe(service, { emitter_id: to, listener_id: other });
    assert.equal((await service.api('DELETE', `/v1/sources/${to}`)).status, 204);
    const { data } = (await service.api('GET', '/v1/users/me/subscriptions')).body;
    const ends = data.flatMap((row: { emitter_id: string; listener_id: string }) => [
      row.emitter_id,
      row.listener_id,
    ]);
    assert.equal(ends.includes(to), false);
    await from.emit({ emits: [{ event: 'nobody hears this' }] });
  });

  test('events for a source that is not active are skipped, with a record', async () => {
    const { service } = fixture;
    const from = await emitter(service);
    const to = await listener(service);
    await subscribe(service, { emitter_id: from.id, listener_id: to });
    await service.api('PUT', `/v1/sources/${to}`, { active: false });
    await from.emit({ emits: [{ event: 'while off' }] });
    const letter = await waitFor(async () => {
      const { data } = (await service.api('GET', '/v1/users/me/dead_letters?state=skipped')).body;
      return data.find(({ listener_id }: { listener_id: string }) => listener_id === to);
    });
    assert.equal(letter.reason, 'listener_inactive');
    await service.api('PUT', `/v1/sources/${to}`, { active: true });
    assert.equal((await service.api('POST', `/v1/deliveries/${letter.id}/redeliver`)).status, 200);
    assert.deepEqual(await untilHeard(service, to, 1), ['while off']);
  });

  test('what is wrong with a request is said, by parameter', async () => {
    const { service } = fixture;
    const from = await emitter(service);
    const to = await listener(service);
    const cases: [Record<string, string>, number, string][] = [
      [{ listener_id: to }, 400, 'emitter_id'],
      [{ emitter_id: from.id }, 400, 'listener_id'],
      [{ emitter_id: 'dc_doesnotexist', listener_id: to }, 404, 'emitter_id'],
      [{ emitter_id: 'p_doesnotexist', listener_id: to }, 404, 'emitter_id'],
      [{ emitter_id: 'sc_*', listener_id: to }, 400, 'emitter_id'],
      [{ emitter_id: 'o_doesnotexist', listener_id: to }, 404, 'emitter_id'],
      [{ emitter_id: from.id, listener_id: 'wh_doesnotexist' }, 404, 'listener_id'],
      [{ emitter_id: from.id, listener_id: 'o_x' }, 400, 'listener_id'],
      [{ emitter_id: from.id, listener_id: to, event_name: '$in' }, 400, 'event_name'],
      [{ emitter_id: 'dc_*', listener_id: to, org_id: 'o_doesnotexist' }, 404, 'org_id'],
      [{ emitter_id: from.id, listener_id: to, org_id: 'o_doesnotexist' }, 404, 'org_id'],
    ];
    for (const [body, status, parameter] of cases) {
      const answer = await service.api('POST', '/v1/subscriptions', body);
      assert.deepEqual(
        [answer.status, answer.body.details.parameter],
        [status, parameter],
        JSON.stringify(body),
      );
    }
    const older = await service.api('PUT', `/v1/sources/${to}/listen/${from.id}?org_id=o_doesnotexist`);
    assert.deepEqual([older.status, older.body.details.parameter], [404, 'org_id']);
    assert.deepEqual(
      (await service.api('GET', '/v1/users/me/subscriptions')).body.data.filter(
        ({ listener_id }: { listener_id: string }) => listener_id === to,
      ),
      [],
    );
  });

  test('both ends must be the caller’s to change, and events stop to flow to a member who leaves', async () => {
    const { service } = fixture;
    const person = await service.createUser('sam');
    const { key } = person;
    const org = (await service.api('POST', '/v1/workspaces', { name: 'Team of two' })).body.data.id;
    const shared = await service.api('POST', `/v1/sources?org_id=${org}`, { component_code: emitterCode });
    const own = await service.api('POST', '/v1/sources', { component_code: listenerCode }, { key });
    const ends = { emitter_id: shared.body.data.id, listener_id: own.body.data.id };
    const asSam = (method: string, path: string, body?: unknown) => service.api(method, path, body, { key });
    assert.equal((await asSam('POST', '/v1/subscriptions', ends)).status, 404);
    await service.api('POST', `/v1/workspaces/${org}/members`, { user_id: person.id, role: 'viewer' });
    assert.equal((await asSam('POST', '/v1/subscriptions', ends)).status, 403);
    await service.api('POST', `/v1/workspaces/${org}/members`, { user_id: person.id, role: 'member' });
    const made = await asSam('POST', '/v1/subscriptions', ends);
    assert.equal(made.status, 200);
    assert.deepEqual((await service.api('GET', `/v1/workspaces/${org}/subscriptions`)).body.data, [
      made.body.data,
    ]);
    assert.equal((await service.api('DELETE', `/v1/workspaces/${org}/members/${person.id}`)).status, 204);
    assert.deepEqual((await service.api('GET', `/v1/workspaces/${org}/subscriptions`)).body.data, []);
    assert.deepEqual((await asSam('GET', '/v1/users/me/subscriptions')).body.data, []);
  });
});
