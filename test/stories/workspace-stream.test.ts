import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { createTestDatabase, postgresSkip } from '../support/databases.ts';
import { EventStream, forEachSharedService, Millrace, type ServiceClient } from '../support/millrace.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { patienceMs, waitFor, within } from '../support/wait-for.ts';

/** Emits `count` events `{ n }` a request, `size` bytes each. */
const counting = `
export default {
  name: 'Counting', props: { http: '$.interface.http', db: '$.service.db' },
  run({ body: { count = 1, size = 0, channel = '' } }) {
    let n = this.db.get('n') ?? 0;
    for (let i = 0; i < count; i += 1) this.$emit({ n: ++n, ...(size && { fill: 'x'.repeat(size) }) }, { name: channel });
    this.db.set('n', n);
  },
};`;

type Source = { id: string; configured_props: { http: { endpoint_url: string } } };

async function createWorkspace(service: ServiceClient): Promise<string> {
  const { status, body } = await service.api('POST', '/v1/workspaces', { name: 'Stream' });
  assert.equal(status, 200, JSON.stringify(body));
  return body.data.id;
}

const createSource = (service: ServiceClient, workspace?: string): Promise<Source> =>
  service.createSource({
    component_code: counting,
    ...(workspace === undefined ? {} : { org_id: workspace }),
  });

async function emit(
  source: Source,
  what: { count?: number; size?: number; channel?: string },
  service?: ServiceClient,
): Promise<void> {
  const endpoint = new URL(source.configured_props.http.endpoint_url);
  const response = await fetch(service === undefined ? endpoint : new URL(endpoint.pathname, service.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(what),
  });
  assert.equal(response.status, 200);
  await response.text();
}

const open = (
  service: ServiceClient,
  workspace: string,
  options: { query?: string; lastEventId?: string } = {},
) =>
  EventStream.open(
    `${service.url}/workspaces/${workspace}/sse${options.query ?? ''}`,
    options.lastEventId,
    service.key,
  );

/** The numbers of a source's events, in the order of their arrival; other messages by their type. */
const numbers = (stream: EventStream, source: Source): unknown[] =>
  stream.messages
    .filter(
      ({ event, data }) => (event === 'message' ? data.metadata.emitter_id : data.emitter_id) === source.id,
    )
    .map(({ event, data }) => (event === 'message' ? data.event.n : event));

const upTo = (last: number, first = 1): number[] =>
  Array.from({ length: last - first + 1 }, (_, at) => first + at);

/** Where a reader would resume that leaves now. */
const markOf = (stream: EventStream): string =>
  stream.messages.findLast(({ id }) => id !== undefined)?.id ?? '';

forEachSharedService((fixture) => {
  test('a stream has the events of all sources of its workspace, of later ones too, and of no other owner', async () => {
    const { service } = fixture;
    const workspace = await createWorkspace(service);
    const other = await createSource(service, await createWorkspace(service));
    const mine = await createSource(service);
    const first = await createSource(service, workspace);
    await emit(first, {});
    await waitFor(async () => (await service.events(first.id)).length === 1);
    for (const prefix of ['', '/v1']) {
      const stream = await EventStream.open(
        `${service.url}${prefix}/workspaces/${workspace}/sse`,
        undefined,
        service.key,
      );
      const later = await createSource(service, workspace);
      for (const source of [other, mine, first, later, first]) await emit(source, {});
      await stream.message(3);
      assert.equal(numbers(stream, first).length, 2, 'what was there before is not sent');
      assert.deepEqual(numbers(stream, later), [1]);
      const [stored] = await service.events(later.id);
      const message = stream.messages.find(({ data }) => data.metadata.emitter_id === later.id);
      assert.deepEqual(message?.data, stored, 'the form is that of the source stream');
      assert.ok(stream.messages[0]?.id, 'the first event says where to resume');
      assert.ok(stream.comments >= 1);
      stream.close();
    }
  });

  test('a stream has one channel, and the events of one emitter when asked for', async () => {
    const { service } = fixture;
    const workspace = await createWorkspace(service);
    const [a, b] = [await createSource(service, workspace), await createSource(service, workspace)];
    const orders = await open(service, workspace, { query: '?event_name=orders' });
    const onlyB = await open(service, workspace, { query: `?emitter_id=${b.id}` });
    const all = await open(service, workspace);
    await emit(a, {});
    await emit(a, { channel: 'orders' });
    await emit(b, { channel: 'orders' });
    await emit(b, {});
    await Promise.all([orders.message(2), onlyB.message(1), all.message(2)]);
    assert.deepEqual([numbers(orders, a), numbers(orders, b)], [[2], [1]]);
    assert.deepEqual([numbers(all, a), numbers(all, b)], [[1], [2]]);
    assert.deepEqual([numbers(onlyB, a), numbers(onlyB, b)], [[], [2]]);
    assert.equal(onlyB.messages[0]?.id, onlyB.messages[0]?.data.id, 'its ids are those of the events');
    assert.equal((await service.api('DELETE', `/v1/sources/${b.id}`)).status, 204);
    await within(onlyB.ended, patienceMs, 'the end of the stream of an emitter');
    assert.deepEqual(onlyB.messages.at(-1)?.data, { reason: 'the emitter was removed' });
    await emit(a, {});
    await all.message(3);
    for (const stream of [orders, all]) stream.close();
  });

  test('workspaces and emitters of others do not exist, and no stream opens without a key', async () => {
    const { service } = fixture;
    const workspace = await createWorkspace(service);
    const elsewhere = await createSource(service, await createWorkspace(service));
    const mine = await createSource(service);
    const { key: stranger } = await service.createUser('stranger');
    for (const prefix of ['', '/v1']) {
      const path = `${prefix}/workspaces/${workspace}/sse`;
      const refused = async (query: string, key = service.key) => {
        const { status, body } = await service.api('GET', path + query, undefined, { key });
        return [status, body.code, body.details?.parameter];
      };
      assert.deepEqual(await refused('', stranger), [404, 'not_found', 'id']);
      assert.equal((await refused('', 'wrong'))[0], 401);
      for (const emitter of [elsewhere.id, mine.id, 'dc_nothing', ''])
        assert.deepEqual(await refused(`?emitter_id=${emitter}`), [404, 'not_found', 'emitter_id']);
      const { body } = await service.api('GET', path, undefined, { headers: { 'last-event-id': '1-1' } });
      assert.deepEqual([body.code, body.details.parameter], ['invalid_event_id', 'Last-Event-ID']);
    }
    const own = await service.api(
      'GET',
      `/workspaces/${(await service.api('GET', '/v1/users/me')).body.data.id}/sse`,
    );
    assert.equal(own.status, 404, 'a user is no workspace');
  });

  test('a reader that comes back gets what it missed of every emitter, and is told where something is gone', async () => {
    const { service } = fixture;
    const workspace = await createWorkspace(service);
    const [a, b] = [await createSource(service, workspace), await createSource(service, workspace)];
    await emit(b, { count: 5 });
    await waitFor(async () => (await service.events(b.id)).length === 5);
    const stream = await open(service, workspace);
    await emit(a, {});
    await stream.message(1);
    const mark = markOf(stream);
    stream.close();
    const c = await createSource(service, workspace);
    await emit(a, { count: 2 });
    await emit(b, { count: 1, channel: 'orders' });
    await emit(c, { count: 3 });
    const again = await open(service, workspace, { lastEventId: mark });
    await again.message(5);
    await emit(b, {});
    await again.message(6);
    assert.deepEqual([numbers(again, a), numbers(again, b), numbers(again, c)], [[2, 3], [7], [1, 2, 3]]);
    const newMark = markOf(again);
    again.close();
    await emit(a, { count: 151 });
    await waitFor(async () => (await service.events(a.id))[0]?.event.n === 154);
    await emit(c, {});
    // Pruning is not at once; until then nothing is missing.
    const third = await waitFor(async () => {
      const opened = await open(service, workspace, { lastEventId: newMark });
      await opened.until(
        () => numbers(opened, a).at(-1) === 154 && numbers(opened, c).at(-1) === 4,
        'the newest',
      );
      if (numbers(opened, a)[0] === 'gap') return opened;
      opened.close();
      assert.deepEqual(numbers(opened, a), upTo(154, numbers(opened, a)[0] as number));
      return undefined;
    });
    const [, ...rest] = numbers(third, a) as number[];
    assert.deepEqual(rest, upTo(154, 155 - rest.length));
    assert.equal(
      third.messages.find(({ event }) => event === 'gap')?.id,
      undefined,
      'only events carry an id',
    );
    const [firstOfC] = numbers(third, c) as number[];
    assert.deepEqual(numbers(third, c), upTo(4, firstOfC), 'no other reader has a gap');
    third.close();
  });

  test('a burst of three sources reaches each reader complete and in order', async () => {
    const { service } = fixture;
    const workspace = await createWorkspace(service);
    const sources = await Promise.all([1, 2, 3].map(() => createSource(service, workspace)));
    const readers = await Promise.all([1, 2, 3].map(() => open(service, workspace)));
    await Promise.all(
      sources.flatMap((source) => Array.from({ length: 10 }, () => emit(source, { count: 100, size: 1000 }))),
    );
    for (const reader of readers) {
      await reader.until(() => reader.messages.length >= 3000, '3,000 events');
      for (const source of sources) assert.deepEqual(numbers(reader, source), upTo(1000));
      reader.close();
    }
  });

  test('a reader that does not read is cut off with a reason in the log, while others get everything', async () => {
    const { service } = fixture;
    const workspace = await createWorkspace(service);
    const source = await createSource(service, workspace);
    const { hostname, port } = new URL(service.url);
    const stuck = connect(Number(port), hostname);
    await once(stuck, 'connect');
    stuck.on('error', () => {});
    stuck.write(
      `GET /workspaces/${workspace}/sse HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${service.key}\r\n\r\n`,
    );
    await once(stuck, 'data');
    stuck.pause();
    const reading = await open(service, workspace);
    const tooSlow = async () =>
      (await fixture.log()).split('\n').some((line) => line.includes('too slow') && line.includes(workspace));
    for (let n = 0; n < 12; n += 1) await emit(source, { size: 1_000_000 });
    await reading.message(12);
    await waitFor(tooSlow, { what: 'the stuck reader to be cut off' });
    await emit(source, {});
    await reading.message(13);
    assert.deepEqual(numbers(reading, source), upTo(13));
    reading.close();
    stuck.destroy();
  });

  test('a stream ends soon after its reader has left the workspace, and says no more than that', async () => {
    const { service } = fixture;
    const workspace = await createWorkspace(service);
    const source = await createSource(service, workspace);
    const user = await service.createUser('leaver');
    const members = `/v1/workspaces/${workspace}/members`;
    await service.api('POST', members, { user_id: user.id, role: 'viewer' });
    const leaver = await fetch(`${service.url}/workspaces/${workspace}/sse`, {
      headers: { authorization: `Bearer ${user.key}` },
    });
    const staying = await open(service, workspace);
    assert.equal((await service.api('DELETE', `${members}/${user.id}`)).status, 204);
    const text = await within(leaver.text(), 60_000, 'the end of the stream');
    assert.ok(text.endsWith('event: end\ndata: {"reason":"access ended"}\n\n'), text);
    await emit(source, {});
    await staying.message(1);
    staying.close();
  });
});

describe('several nodes on one PostgreSQL', { skip: postgresSkip() }, () => {
  test('readers of each node get what both store, complete and in order per emitter', async () => {
    const database = await createTestDatabase();
    const folders = await Promise.all(['a', 'b'].map((name) => createTempFolder(name)));
    const nodes: Millrace[] = [];
    try {
      for (const { path } of folders) {
        const environment = { MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64') };
        nodes.push(await Millrace.start({ dataFolder: path, databaseUrl: database.url, environment }));
      }
      const [one, two] = nodes;
      assert.ok(one !== undefined && two !== undefined);
      const workspace = await createWorkspace(one);
      const early = await createSource(one, workspace);
      const readers = await Promise.all(nodes.map((node) => open(node, workspace)));
      const late = await createSource(two, workspace);
      for (let round = 0; round < 20; round += 1) {
        const [first, second] = round % 2 === 0 ? [one, two] : [two, one];
        await Promise.all([emit(early, { count: 5 }, first), emit(late, { count: 5 }, second)]);
      }
      for (const reader of readers) {
        await reader.until(() => reader.messages.length >= 200, '200 events');
        for (const source of [early, late]) {
          const ids = reader.messages
            .filter(({ data }) => data.metadata.emitter_id === source.id)
            .map(({ data }) => data.id);
          const kept = (await one.events(source.id)).map(({ id }) => id).reverse();
          assert.deepEqual(ids, kept, 'each event once, in the order of its id');
        }
        reader.close();
      }
    } finally {
      for (const node of nodes) await node.stop();
      for (const folder of folders) await folder.remove();
      await database.drop();
    }
  });
});
