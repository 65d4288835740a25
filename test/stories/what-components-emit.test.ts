import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** Runs what a request asks for; `lines` is the body of `run`. */
function onRequest(lines: string, extra = ''): string {
  return `
export default {
  name: 'On request',
  props: { http: { type: '$.interface.http', customResponse: true }, db: '$.service.db' },
  ${extra}
  async run(event) {
    const body = event.body;
    this.http.respond({ status: 200, body: 'ok' });
    ${lines}
  },
};`;
}

type Source = { id: string; configured_props: { http: { endpoint_url: string } } };

async function send(source: Source, body: unknown): Promise<void> {
  const response = await fetch(source.configured_props.http.endpoint_url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200);
  await response.text();
}

/** Events of a channel, oldest first, when there are `count`. */
async function eventsOf(service: ServiceClient, source: Source, count: number, channel = '') {
  const query = channel === '' ? '' : `&event_name=${encodeURIComponent(channel)}`;
  return waitFor(
    async () => {
      const events = await service.events(source.id, query);
      return events.length >= count && events.reverse();
    },
    { what: `${count} events on ${JSON.stringify(channel)}` },
  );
}

const values = (events: { event: unknown }[]) => events.map(({ event }) => event);

/** Emits the list in the request with the metadata in it. */
const emitsList = 'for (const [value, meta] of body) this.$emit(value, meta);';

async function summaries(service: ServiceClient, source: Source, query: string) {
  return service.api('GET', `/v1/sources/${source.id}/event_summaries${query}`);
}

forEachSharedService((fixture) => {
  test('an event goes to the channel it is emitted with, and the default channel shows only its own', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: onRequest(emitsList) });
    await send(source, [
      ['plain', {}],
      ['named', { name: 'orders', id: 7, summary: 'Order 7', ts: 1_700_000_000_000 }],
      ['odd', { name: 'ümlaut & more/…' }],
    ]);
    assert.deepEqual(values(await eventsOf(service, source, 1)), ['plain']);
    const [named] = await eventsOf(service, source, 1, 'orders');
    assert.equal(named.event, 'named');
    const { emit_id, ...metadata } = named.metadata;
    assert.ok(emit_id.length > 0);
    assert.deepEqual(metadata, {
      name: 'orders',
      emitter_id: source.id,
      id: '7',
      summary: 'Order 7',
      ts: 1_700_000_000_000,
    });
    assert.deepEqual(values(await eventsOf(service, source, 1, 'ümlaut & more/…')), ['odd']);
    const { body } = await service.api('GET', `/v1/sources/${source.id}/events?n=5`);
    assert.deepEqual(
      body.data.map((row: { k: string; e: unknown }) => [row.k, row.e]),
      [['emit', 'plain']],
    );
  });

  test('every kind of JSON value can be an event, as it was at the moment of $emit', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: onRequest(`
        const changed = { n: 1 };
        this.$emit(changed);
        changed.n = 2;
        for (const value of [null, 0, false, '', [], {}, 'a\\u0000b', 'line\\u2028sep', { deep: { list: [1, 'ü', '😀'] } }, new Date(0), [undefined, NaN]]) this.$emit(value);
      `),
    });
    await send(source, {});
    assert.deepEqual(values(await eventsOf(service, source, 12)), [
      { n: 1 },
      null,
      0,
      false,
      '',
      [],
      {},
      'a\u0000b',
      'line\u2028sep',
      { deep: { list: [1, 'ü', '😀'] } },
      '1970-01-01T00:00:00.000Z',
      [null, null],
    ]);
  });

  test('metadata of every form is taken for what it means and never stops an event', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: onRequest(`
      this.$emit(1, { ts: '1700000000000.25', id: 12345678901234567890n });
      this.$emit(2, { ts: new Date(1_800_000_000_000), id: new Date(0) });
      this.$emit(3, { ts: NaN, id: NaN, summary: { a: 1 } });
      this.$emit(4, { ts: 'yesterday', id: '', name: 5 });
      this.$emit(5, 'no object');
      this.$emit(6, null);
      this.$emit(7, { ts: 1.9e12 + 0.5, summary: 'x\\u0000y', id: 'a\\u0000b' });
    `),
    });
    await send(source, {});
    const events = await eventsOf(service, source, 7);
    assert.deepEqual(values(events), [1, 2, 3, 4, 5, 6, 7]);
    assert.deepEqual(
      [events[0].metadata.ts, events[0].metadata.id],
      [1_700_000_000_000, '12345678901234567890'],
    );
    assert.deepEqual([events[6].metadata.summary, events[6].metadata.ts], ['xy', 1_900_000_000_000]);
  });

  test('events of one run are ordered by their ts, oldest first; those without one keep their place', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: onRequest(emitsList) });
    await send(source, [
      ['c', { ts: 3000 }],
      ['after c', {}],
      ['a', { ts: 1000 }],
      ['b', { ts: 2000 }],
      ['b2', { ts: 2000 }],
    ]);
    assert.deepEqual(values(await eventsOf(service, source, 5)), ['a', 'b', 'b2', 'c', 'after c']);
  });

  test('console lines become $logs: a hundred of a run, then one that counts the rest', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: onRequest(`
        if (body.lines) for (let n = 0; n < body.lines; n += 1) console.log('line', n, { n });
        else { console.warn('careful %s', 'now'); console.error(new Error('boom')); }
        this.$emit('done');
      `),
    });
    await send(source, {});
    const two = await eventsOf(service, source, 2, '$logs');
    assert.deepEqual([two[0].event.level, two[0].event.message], ['warn', 'careful now']);
    assert.equal(two[1].event.level, 'error');
    assert.match(two[1].event.message, /Error: boom/);
    assert.ok(Math.abs(two[0].event.ts - Date.now()) < 60_000);
    await service.api('DELETE', `/v1/sources/${source.id}/events?event_name=$logs`);
    await waitFor(async () => (await service.events(source.id, '&event_name=$logs')).length === 0);
    await send(source, { lines: 150 });
    await eventsOf(service, source, 2);
    const many = await eventsOf(service, source, 100, '$logs');
    assert.match(many.at(-1).event.message, /^50 more line/);
    assert.match(many.at(-2).event.message, /^line 99 /);
    const { body } = await service.api('GET', `/v1/sources/${source.id}/logs?limit=2`);
    assert.match(body.data[0].message, /^50 more/);
    const older = await service.api(
      'GET',
      `/v1/sources/${source.id}/logs?limit=1&after=${body.page_info.end_cursor}`,
    );
    assert.match(older.body.data[0].message, /^line 98 /);
  });

  test('what a component emits on $logs and $errors itself is kept there, whatever it is, and the log can be read', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: onRequest(emitsList) });
    await send(source, [
      [null, { name: '$logs' }],
      [{ ts: 'soon', level: {}, message: 'mine' }, { name: '$logs' }],
      [null, { name: '$errors' }],
      [{ error: 'none' }, { name: '$errors' }],
    ]);
    await eventsOf(service, source, 2, '$errors');
    assert.deepEqual(values(await eventsOf(service, source, 1, '$logs'))[0], null);
    const { status, body } = await service.api('GET', `/v1/sources/${source.id}/logs`);
    assert.equal(status, 200);
    assert.deepEqual(
      body.data.map(({ level, message }: { level: string; message: string }) => [level, message]),
      [
        ['error', '{"error":"none"}'],
        ['error', 'null'],
        ['log', 'mine'],
        ['log', 'null'],
      ],
    );
  });

  test('a run that throws leaves an event on $errors, and keeps what it emitted and set before', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: onRequest(`
        const count = (this.db.get('count') ?? 0) + 1;
        this.db.set('count', count);
        this.$emit({ count });
        if (body.fail === 'string') throw 'just text';
        if (body.fail) throw Object.assign(new RangeError('out of range'), { code: 'E_RANGE' });
      `),
    });
    await send(source, { fail: true });
    await send(source, { fail: 'string' });
    await send(source, {});
    assert.deepEqual(values(await eventsOf(service, source, 3)), [{ count: 1 }, { count: 2 }, { count: 3 }]);
    const errors = await eventsOf(service, source, 2, '$errors');
    const { error, original_event } = errors[0].event;
    assert.deepEqual([error.name, error.message, error.code], ['RangeError', 'out of range', 'E_RANGE']);
    assert.match(error.stack, /RangeError: out of range/);
    assert.ok(!Number.isNaN(Date.parse(error.ts)));
    assert.deepEqual(original_event.body, { fail: true });
    assert.equal(errors[0].metadata.name, '$errors');
    const { emitter_id, emit_id, name } = errors[0].metadata;
    assert.deepEqual(errors[0].event.metadata, { emitter_id, emit_id, name });
    assert.match(errors[1].event.error.message, /just text/);
    const { body } = await service.api('GET', `/v1/sources/${source.id}/logs`);
    assert.match(body.data.at(-1).message, /RangeError: out of range/);
  });

  test('dedupe unique: an id passes once per channel, across runs; without an id there is a warning', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: onRequest(emitsList, "dedupe: 'unique',") });
    const long = 'x'.repeat(200);
    await send(source, [
      [1, { id: 'a' }],
      [2, { id: 'b' }],
      [3, { id: 'a' }],
      [4, { id: 'a', name: 'other' }],
      [5, { id: `${long}1` }],
      [6, { id: `${long}2` }],
    ]);
    await send(source, [
      [7, { id: 'b' }],
      [8, { id: `${long}1` }],
      [9, { id: 'c' }],
      [10, {}],
    ]);
    assert.deepEqual(values(await eventsOf(service, source, 6)), [1, 2, 5, 6, 9, 10]);
    assert.deepEqual(values(await eventsOf(service, source, 1, 'other')), [4]);
    const [warning] = await eventsOf(service, source, 1, '$logs');
    assert.match(warning.event.message, /without an id/);
    await service.api('DELETE', `/v1/sources/${source.id}/events`);
    await waitFor(async () => (await service.events(source.id)).length === 0);
    await send(source, [
      [11, { id: 'a' }],
      [12, { id: 'd' }],
    ]);
    assert.deepEqual(values(await eventsOf(service, source, 1)), [12], 'deleting events does not reset it');
  });

  test('dedupe greatest: only larger ids pass, as numbers where they are numbers', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: onRequest(emitsList, "dedupe: 'greatest',"),
    });
    await send(source, [
      [9, { id: 9 }],
      [10, { id: 10 }],
      [2, { id: 2 }],
      ['11', { id: '11' }],
    ]);
    await send(source, [
      [10, { id: 10 }],
      [100, { id: 100 }],
    ]);
    assert.deepEqual(values(await eventsOf(service, source, 4)), [9, 10, '11', 100]);
  });

  test('dedupe last: everything after the last known id passes', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: onRequest(emitsList, "dedupe: 'last',") });
    const list = (...ids: number[]) => ids.map((id) => [id, { id, ts: id * 1000 }]);
    await send(source, list(3, 2, 1));
    await send(source, list(5, 4, 3, 2));
    await send(source, list(9, 8));
    assert.deepEqual(values(await eventsOf(service, source, 7)), [1, 2, 3, 4, 5, 8, 9]);
  });

  test('an event with a delivery_ts waits in $in, is listed, can be deleted, and is delivered when its time comes', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: onRequest(emitsList, "dedupe: 'unique',") });
    const stream = await service.stream(source.id);
    const tomorrow = Date.now() + 86_400_000;
    await send(source, [
      ['never', { id: 'never', delivery_ts: tomorrow }],
      ['next year', { id: 'later', delivery_ts: Date.now() + 300 * 86_400_000 }],
      ['past', { id: 'past', delivery_ts: Date.now() - 1000 }],
    ]);
    assert.equal((await stream.message(1)).data.event, 'past');
    const waiting = await eventsOf(service, source, 2, '$in');
    assert.deepEqual(values(waiting), ['never', 'next year']);
    const never = waiting.find(({ metadata }) => metadata.id === 'never');
    assert.equal(never.metadata.delivery_ts, tomorrow);
    const doomed = never.id;
    const deleted = await service.api(
      'DELETE',
      `/v1/sources/${source.id}/events?event_name=$in&start_id=${doomed}&end_id=${doomed}`,
    );
    assert.equal(deleted.status, 202);
    const soon = Date.now() + 500;
    await send(source, [['soon', { id: 'soon', delivery_ts: soon, summary: 'Soon' }]]);
    const delivered = await stream.message(2);
    assert.ok(Date.now() >= soon);
    assert.deepEqual(
      [delivered.data.event, delivered.data.metadata.summary, delivered.data.metadata.name],
      ['soon', 'Soon', ''],
    );
    // What was requested to be deleted goes by a job.
    await waitFor(
      async () =>
        JSON.stringify(values(await eventsOf(service, source, 1, '$in'))) === JSON.stringify(['next year']),
      { what: 'the deleted one to leave $in' },
    );
    assert.deepEqual(values(await eventsOf(service, source, 2)), ['past', 'soon']);
    stream.close();
  });

  test('summaries cut events over 1 KB unless they are expanded, and never through a character', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: onRequest(emitsList) });
    const exactly = 'x'.repeat(1022);
    await send(source, [
      [exactly, {}],
      [{ text: 'ü'.repeat(800) }, {}],
    ]);
    await eventsOf(service, source, 2);
    const { body } = await summaries(service, source, '');
    const [cut, whole] = body.data;
    assert.equal(whole.event, exactly);
    assert.equal('truncated' in whole, false);
    assert.equal(cut.truncated, true);
    assert.equal(typeof cut.event, 'string');
    assert.ok(
      cut.event.startsWith('{"text":"ü') &&
        Buffer.byteLength(cut.event) <= 1000 &&
        !cut.event.includes('\uFFFD'),
    );
    const full = await summaries(service, source, '?expand=event&limit=1');
    assert.deepEqual(full.body.data[0].event, { text: 'ü'.repeat(800) });
    assert.equal('truncated' in full.body.data[0], false);
  });

  test('a page of large events is answered whole, in order, with its cursors', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: onRequest(
        'for (let n = 0; n < 5; n += 1) this.$emit({ n: ++body.n, fill: "x".repeat(1e6) });',
      ),
    });
    for (const n of [0, 5]) await send(source, { n });
    const events = await eventsOf(service, source, 10);
    const numbers = (rows: { event: { n: number } }[]) => rows.map(({ event }) => event.n);
    assert.deepEqual(numbers(events), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    const { status, body } = await summaries(
      service,
      source,
      `?expand=event&limit=7&before=${events[1].id}&include=id,event`,
    );
    assert.equal(status, 200);
    assert.deepEqual(numbers(body.data), [9, 8, 7, 6, 5, 4, 3]);
    assert.deepEqual(Object.keys(body.data[0]), ['id', 'event']);
    assert.deepEqual(body.page_info, { count: 7, start_cursor: events[8].id, end_cursor: events[2].id });
    const emits = await service.api('GET', `/v1/sources/${source.id}/events?n=3`);
    assert.deepEqual(
      emits.body.data.map(({ e }: { e: { n: number; fill: string } }) => [e.n, e.fill.length]),
      [
        [10, 1e6],
        [9, 1e6],
        [8, 1e6],
      ],
    );
  });

  test('pages of events go both ways, and only the fields asked for are answered', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: onRequest(emitsList) });
    await send(
      source,
      Array.from({ length: 12 }, (_, n) => [n, {}]),
    );
    const all = (await eventsOf(service, source, 12)).reverse();
    const page = async (query: string) => {
      const { status, body } = await summaries(service, source, query);
      assert.equal(status, 200, JSON.stringify(body));
      return { values: values(body.data), ...body.page_info };
    };
    const first = await page('');
    assert.deepEqual([first.values, first.count], [[11, 10, 9, 8, 7, 6, 5, 4, 3, 2], 10]);
    assert.deepEqual([first.start_cursor, first.end_cursor], [all[0].id, all[9].id]);
    assert.deepEqual((await page(`?after=${first.end_cursor}`)).values, [1, 0]);
    assert.deepEqual((await page(`?limit=3&after=${all[3].id}`)).values, [7, 6, 5]);
    assert.deepEqual((await page(`?limit=3&before=${all[5].id}`)).values, [9, 8, 7]);
    assert.deepEqual(await page(`?before=${all[0].id}`), { values: [], count: 0 });
    assert.equal((await page('?limit=1000')).count, 12);
    const included = await summaries(service, source, '?limit=1&include=id,event&exclude=event');
    assert.deepEqual(included.body.data, [{ id: all[0].id }]);
    const emits = await service.api('GET', `/v1/sources/${source.id}/events?n=2&include=e,k&exclude=k`);
    assert.deepEqual(emits.body.data, [{ e: 11 }, { e: 10 }]);
    for (const query of [
      'limit=0',
      'limit=-1',
      'limit=abc',
      'limit=1.5',
      'after=abc',
      'before=1-',
      `after=${all[0].id}&before=${all[1].id}`,
    ]) {
      const { status, body } = await summaries(service, source, `?${query}`);
      assert.equal(status, 400, query);
      assert.equal(typeof body.details.parameter, 'string', query);
    }
  });

  test('the last 100 events of a channel can be read, and ids keep rising after older ones are gone', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: onRequest(emitsList) });
    await send(
      source,
      Array.from({ length: 130 }, (_, n) => [n, {}]),
    );
    const events = await eventsOf(service, source, 100);
    assert.deepEqual([events.length, events[0].event, events.at(-1).event], [100, 30, 129]);
    await service.api('DELETE', `/v1/sources/${source.id}/events`);
    await waitFor(async () => (await service.events(source.id)).length === 0);
    await send(source, [['new', {}]]);
    const [fresh] = await eventsOf(service, source, 1);
    const [newest] = [events.at(-1).id.split('-').map(Number)];
    const [ms, seq] = fresh.id.split('-').map(Number);
    assert.ok(ms > newest[0] || (ms === newest[0] && seq > newest[1]));
  });

  test('DELETE events takes all, from one on, up to one, a range, or exactly one', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: onRequest(emitsList) });
    await send(source, [...Array.from({ length: 9 }, (_, n) => [n, {}]), ['stays', { name: 'other' }]]);
    const ids = (await eventsOf(service, source, 9)).map(({ id }) => id);
    const remove = async (query: string, left: unknown[]) => {
      const { status, body } = await service.api('DELETE', `/v1/sources/${source.id}/events${query}`);
      assert.deepEqual([status, body], [202, { data: {} }]);
      await waitFor(
        async () =>
          JSON.stringify(values((await service.events(source.id)).reverse())) === JSON.stringify(left),
        {
          what: `${query} to leave ${left}`,
        },
      );
    };
    await remove(`?start_id=${ids[4]}&end_id=${ids[4]}`, [0, 1, 2, 3, 5, 6, 7, 8]);
    await remove(`?start_id=${ids[7]}`, [0, 1, 2, 3, 5, 6]);
    await remove(`?end_id=${ids[1]}`, [2, 3, 5, 6]);
    await remove(`?start_id=${ids[3]}&end_id=${ids[5]}`, [2, 6]);
    for (const [query, parameter] of [
      ['start_id=abc', 'start_id'],
      ['end_id=1-2-3', 'end_id'],
      ['start_id=', 'start_id'],
      [`start_id=${ids[6]}&end_id=${ids[2]}`, 'start_id'],
    ]) {
      const { status, body } = await service.api('DELETE', `/v1/sources/${source.id}/events?${query}`);
      assert.deepEqual([query, status, body.details.parameter], [query, 400, parameter]);
    }
    await remove('', []);
    assert.deepEqual(
      values(await eventsOf(service, source, 1, 'other')),
      ['stays'],
      'other channels keep theirs',
    );
    await remove('', []);
  });
});
