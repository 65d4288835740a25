import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { type EventStream, forEachSharedService, type ServiceClient } from '../support/millrace.ts';
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

async function emit(
  source: Source,
  what: { count?: number; size?: number; channel?: string },
): Promise<void> {
  const response = await fetch(source.configured_props.http.endpoint_url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(what),
  });
  assert.equal(response.status, 200);
  await response.text();
}

const numbers = (stream: EventStream): unknown[] =>
  stream.messages.map(({ event, data }) => (event === 'message' ? data.event.n : event));

/** The raw text of a stream, for what a parser hides. */
async function rawStream(
  service: ServiceClient,
  path: string,
  until: (text: string) => boolean,
): Promise<{ text: string; headers: Headers }> {
  const abort = new AbortController();
  const response = await fetch(service.url + path, {
    headers: { authorization: `Bearer ${service.key}` },
    signal: abort.signal,
  });
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (until(text)) break;
  }
  abort.abort();
  return { text, headers: response.headers };
}

async function settled(
  service: ServiceClient,
  source: Source,
  newest: number,
): Promise<{ id: string; event: { n: number } }[]> {
  return waitFor(async () => {
    const events = await service.events(source.id);
    return events[0]?.event.n === newest && events;
  });
}

forEachSharedService((fixture) => {
  test('a stream opens with a comment, and each event is one message of an id and one data line', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: counting });
    for (const path of [`/sources/${source.id}/sse`, `/v1/sources/${source.id}/sse`]) {
      const reading = rawStream(service, path, (text) => {
        if (text === ':sse-handshake\n\n') void emit(source, {});
        return text.includes('data: ') && text.endsWith('\n\n');
      });
      const { text, headers } = await within(reading, patienceMs, 'the message');
      assert.match(headers.get('content-type') ?? '', /^text\/event-stream/);
      assert.match(headers.get('cache-control') ?? '', /no-cache/);
      const [stored] = await service.events(source.id);
      // The same comment keeps the connection alive, every 15 seconds: on a busy machine also before the event.
      const lines = text.replace(/^(:sse-handshake\n\n)+/, '$1').split('\n');
      assert.deepEqual(lines.slice(0, 3), [':sse-handshake', '', `id: ${stored.id}`]);
      assert.ok(lines[3]?.startsWith('data: {"event":{"n":'), lines[3] ?? 'no line');
      assert.deepEqual(lines.slice(4), ['', '']);
      assert.deepEqual(JSON.parse(lines[3]?.slice(6) ?? ''), stored);
    }
  });

  test('a reader that comes back with the last id it saw gets what it missed, then what is new', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: counting });
    const first = await service.stream(source.id);
    await emit(source, { count: 2 });
    const { id } = await first.message(2);
    first.close();
    await emit(source, { count: 3 });
    await settled(service, source, 5);
    const again = await service.stream(source.id, { lastEventId: id ?? '' });
    await again.message(3);
    await emit(source, {});
    await again.message(4);
    assert.deepEqual(numbers(again), [3, 4, 5, 6]);
    const fresh = await service.stream(source.id);
    await emit(source, {});
    await fresh.message(1);
    assert.deepEqual(numbers(fresh), [7], 'without an id only new events come');
    const ahead = await service.stream(source.id, { lastEventId: '9999999999999-0' });
    await emit(source, {});
    await ahead.message(1);
    assert.deepEqual(numbers(ahead), [8], 'an id that was never given holds nothing back');
    for (const stream of [again, fresh, ahead]) stream.close();
  });

  test('after events were pruned or deleted, a reader that resumes gets the gap first', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: counting });
    await emit(source, {});
    const [first] = await settled(service, source, 1);
    await emit(source, { count: 150 });
    await settled(service, source, 151);
    const seen = first?.id ?? '';
    // Pruning is not at once; until then nothing is missing.
    const stream = await waitFor(async () => {
      const opened = await service.stream(source.id, { lastEventId: seen });
      await opened.until(() => numbers(opened).at(-1) === 151, 'the newest event');
      if (numbers(opened)[0] === 'gap') return opened;
      opened.close();
      assert.equal(opened.messages.length, 150);
      return undefined;
    });
    assert.deepEqual(stream.messages[0]?.data.after, seen);
    assert.equal(stream.messages[0]?.id, undefined, 'only events carry an id');
    const rest = numbers(stream).slice(1) as number[];
    assert.deepEqual(
      rest,
      Array.from({ length: rest.length }, (_, at) => 152 - rest.length + at),
    );
    stream.close();

    const events = await service.events(source.id);
    const [kept, doomed] = [events[0].id, events[1].id];
    await service.api('DELETE', `/v1/sources/${source.id}/events?end_id=${doomed}`);
    await waitFor(async () => (await service.events(source.id)).length === 1);
    const resumed = await service.stream(source.id, { lastEventId: doomed });
    await resumed.message(2);
    assert.deepEqual(numbers(resumed), ['gap', 151]);
    assert.equal(resumed.messages[1]?.id, kept);
    resumed.close();
    const upToDate = await service.stream(source.id, { lastEventId: kept });
    await emit(source, {});
    await upToDate.message(1);
    assert.deepEqual(numbers(upToDate), [152], 'no gap for one that missed nothing');
    upToDate.close();
    const { status, body } = await service.api('GET', `/sources/${source.id}/sse`, undefined, {
      headers: { 'last-event-id': 'yesterday' },
    });
    assert.deepEqual([status, body.code], [400, 'invalid_event_id']);
  });

  test('an event whose JSON came with line breaks is one message, not one cut off at the first of them', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: `export default { name: 'Failing', props: { http: '$.interface.http' }, run() { throw new Error('no'); } };`,
    });
    const stream = await service.stream(source.id, { query: '?event_name=$errors' });
    const body = '{\r\n  "a": "one\\ntwo",\n\n  "b": [\r1 ]\n}';
    const response = await fetch(source.configured_props.http.endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    await response.text();
    const { data } = await stream.message(1);
    assert.deepEqual(data.event.original_event.body, { a: 'one\ntwo', b: [1] });
    assert.equal(data.event.original_event.bodyRaw, body);
    stream.close();
  });

  test('a stream of a channel has the events of that channel only', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: counting });
    const orders = await service.stream(source.id, { query: '?event_name=orders' });
    const plain = await service.stream(source.id);
    await emit(source, {});
    await emit(source, { channel: 'orders' });
    await emit(source, {});
    await orders.message(1);
    await plain.message(2);
    assert.deepEqual([numbers(orders), numbers(plain)], [[2], [1, 3]]);
    orders.close();
    plain.close();
  });

  test('a stream ends when its source is deleted, and says so', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: counting });
    const stream = await service.stream(source.id);
    assert.equal((await service.api('DELETE', `/v1/sources/${source.id}`)).status, 204);
    await within(stream.ended, patienceMs, 'the end of the stream');
    const end = { event: 'end', id: undefined, data: { reason: 'the emitter was removed' } };
    assert.deepEqual(stream.messages, [end]);
  });

  test('a stream ends soon after its key was revoked, or its reader left the workspace', async () => {
    const { service } = fixture;
    const workspace = await service.api('POST', '/v1/workspaces', { name: 'Readers' });
    assert.equal(workspace.status, 200, JSON.stringify(workspace.body));
    const members = `/v1/workspaces/${workspace.body.data.id}/members`;
    const source = await service.createSource({ component_code: counting, org_id: workspace.body.data.id });
    const person = async (name: string) => {
      const user = await service.createUser(name);
      await service.api('POST', members, { user_id: user.id, role: 'viewer' });
      return user;
    };
    const reader = async (key: string) => {
      const response = await fetch(`${service.url}/sources/${source.id}/sse`, {
        headers: { authorization: `Bearer ${key}` },
      });
      assert.equal(response.status, 200);
      return response;
    };
    const [leaver, stayer] = [await person('leaver'), await person('stayer')];
    const second = await service.api('POST', '/v1/users/me/api_keys', { name: 'b' }, { key: stayer.key });
    const staying = await service.stream(source.id);
    const open = await Promise.all([reader(leaver.key), reader(second.body.data.api_key)]);
    const ends = Promise.all(open.map((response) => response.text()));
    const removed = await service.api('DELETE', `${members}/${leaver.id}`);
    const revoked = await service.api('DELETE', `/v1/users/me/api_keys/${second.body.data.id}`, undefined, {
      key: stayer.key,
    });
    assert.deepEqual([removed.status, revoked.status], [204, 204]);
    for (const text of await within(ends, 60_000, 'the end of both streams'))
      assert.ok(text.endsWith('event: end\ndata: {"reason":"access ended"}\n\n'), text);
    await emit(source, {});
    await staying.message(1);
    staying.close();
  });

  test('streams of others do not exist, and no stream opens without a key', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: counting });
    const { key } = await service.createUser('other');
    for (const prefix of ['', '/v1']) {
      const { status, body } = await service.api('GET', `${prefix}/sources/${source.id}/sse`, undefined, {
        key,
      });
      assert.deepEqual([status, body.code], [404, 'not_found']);
      const keyless = await service.api('GET', `${prefix}/sources/${source.id}/sse`, undefined, {
        key: 'wrong',
      });
      assert.equal(keyless.status, 401);
    }
    for (const [method, path] of [
      ['GET', ''],
      ['PUT', ''],
      ['DELETE', ''],
      ['GET', '/event_summaries'],
      ['GET', '/events'],
      ['DELETE', '/events'],
      ['GET', '/logs'],
      ['GET', '/ticks'],
      ['GET', '/timers'],
    ] as const) {
      const answer = await service.api(
        method,
        `/v1/sources/${source.id}${path}`,
        method === 'PUT' ? {} : undefined,
        { key },
      );
      assert.deepEqual([method, path, answer.status], [method, path, 404]);
    }
  });

  test('a burst of 3,000 events reaches a reader complete and in order', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: counting });
    const stream = await service.stream(source.id);
    await Promise.all(Array.from({ length: 30 }, () => emit(source, { count: 100 })));
    await stream.until(() => stream.messages.length >= 3000, '3,000 events');
    assert.deepEqual(
      numbers(stream),
      Array.from({ length: 3000 }, (_, at) => at + 1),
    );
    const ids = stream.messages.map(({ id }) => id?.split('-').map(Number) ?? []);
    for (const [at, id] of ids.entries()) {
      const [ms = 0, seq = 0] = ids[at - 1] ?? [];
      assert.ok((id[0] ?? 0) > ms || (id[0] === ms && (id[1] ?? 0) > seq));
    }
    stream.close();
  });

  test('events larger than what is buffered for a reader reach it, live and when it resumes', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: counting });
    const live = await service.stream(source.id);
    for (let n = 0; n < 3; n += 1) await emit(source, { size: 2_000_000 });
    await live.message(3);
    assert.deepEqual(numbers(live), [1, 2, 3]);
    assert.equal(live.messages[2]?.data.event.fill.length, 2_000_000);
    const again = await service.stream(source.id, { lastEventId: live.messages[0]?.id ?? '' });
    await again.message(2);
    assert.deepEqual(numbers(again), [2, 3]);
    live.close();
    again.close();
  });

  test('a reader that does not read is cut off with a reason in the log, while others get everything', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: counting });
    const { hostname, port } = new URL(service.url);
    const stuck = connect(Number(port), hostname);
    await once(stuck, 'connect');
    stuck.on('error', () => {});
    stuck.write(
      `GET /sources/${source.id}/sse HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${service.key}\r\n\r\n`,
    );
    await once(stuck, 'data');
    stuck.pause();
    const reading = await service.stream(source.id);
    for (let n = 0; n < 12; n += 1) await emit(source, { size: 1_000_000 });
    await reading.message(12);
    const isLogged = (line: string) => line.includes(source.id) && line.includes('too slow');
    await waitFor(async () => (await fixture.log()).split('\n').some(isLogged), {
      what: 'the log to tell that the stuck reader was cut off',
    });
    // What was on its way to it still comes, and then the end of the connection.
    let bytes = 0;
    stuck.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    const closed = once(stuck, 'close');
    stuck.resume();
    await within(closed, patienceMs, 'the connection of the stuck reader to end');
    assert.ok(bytes < 12_000_000, `${bytes} bytes`);
    await emit(source, {});
    await reading.message(13);
    assert.deepEqual(
      numbers(reading),
      Array.from({ length: 13 }, (_, at) => at + 1),
    );
    reading.close();
    stuck.destroy();
  });
});
