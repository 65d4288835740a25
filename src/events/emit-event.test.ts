import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { emitUnheard } from '../../test/support/no-subscribers.ts';
import { readEvents } from '../../test/support/stored-events.ts';
import { forEachStore } from '../../test/support/stores.ts';
import type { Emission, NewEvent } from './emit-event.ts';
import { eventSummaryJson, type StoredEvent } from './event.ts';
import { deleteEventRange, insertEmitter, insertEvents } from './event-store.ts';

const start = 1_800_000_000_000;

describe('emitting', () => {
  forEachStore((fixture) => {
    const addEmitter = () =>
      fixture.store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'o_1' }));
    const emit = (
      events: NewEvent[],
      options: Partial<Emission> & { nowMs?: number } = {},
    ): Promise<StoredEvent[]> =>
      fixture.store.transaction(async (tx) => {
        const { nowMs = start, ...rest } = options;
        const emission = { emitterId: 'dc_1', hops: 0, events, ...rest };
        const [result] = await emitUnheard(fixture.store, tx, [emission], nowMs);
        assert.ok(result?.accepted);
        return result.stored;
      });
    const read = (channel = '') => readEvents(fixture.store.read, { emitterId: 'dc_1', channel, limit: 100 });

    test('the JSON of an event is kept on one line, and means the same', async () => {
      await addEmitter();
      await emit([{ channel: '', event: '{\r\n  "a": "one\\ntwo",\n\n  "b": [\r1 ]\n}' }]);
      const [kept] = await read();
      assert.equal(/[\r\n]/.test(kept?.event ?? '\n'), false);
      assert.deepEqual(JSON.parse(kept?.event ?? ''), { a: 'one\ntwo', b: [1] });
    });

    test('an error event has its metadata inside as well as beside it', async () => {
      await addEmitter();
      await emit([{ channel: '$errors', event: '{"error":{}}', holdsMetadata: true }]);
      const [kept] = await read('$errors');
      const summary = JSON.parse(eventSummaryJson(kept as StoredEvent, { expand: true }));
      assert.ok(summary.metadata.emit_id.length > 0);
      assert.deepEqual(summary.event, { error: {}, metadata: summary.metadata });
    });

    /** Inserts rows as if events were stored, one in each channel. */
    const fill = async (channels: string[]) => {
      const rows = channels.map(
        (channel, index): StoredEvent => ({
          emitter_id: 'dc_1',
          channel,
          ms: 1,
          seq: index,
          owner_id: 'o_1',
          emit_id: `em${index}`,
          given_id: null,
          summary: null,
          ts_ms: null,
          event: '0',
          deliver_channel: null,
          deliver_at_ms: null,
          hops: 0,
        }),
      );
      await fixture.store.transaction((tx) => insertEvents(fixture.store, tx, rows));
    };
    const logged = async () =>
      (await read('$logs')).map(({ event }) => (JSON.parse(event) as { message: string }).message);
    const on = (channel: string, id?: string): NewEvent => ({
      channel,
      event: JSON.stringify(channel),
      ...(id === undefined ? {} : { id }),
    });

    test('a thousand channels of an emitter hold events; one more is refused, and the log says so', async () => {
      await addEmitter();
      await fill(['', '$logs', '$errors', '$in', ...Array.from({ length: 998 }, (_, n) => `customer ${n}`)]);
      const list = ['a', 'customer 5', 'b', 'c', '', 'c', 'a', '$errors'].map((name) => on(name));
      const stored = await emit(list);
      assert.deepEqual(
        stored.map(({ channel }) => channel),
        ['a', 'customer 5', 'b', '', 'a', '$errors', '$logs'],
      );
      assert.match((await logged())[0] ?? '', /^2 event\(s\) on new channels were refused: .* 1000 channels/);
      assert.deepEqual(await read('c'), []);
      // When a channel was emptied there is room for another.
      await fixture.store.transaction((tx) =>
        deleteEventRange(tx, { emitterId: 'dc_1', channel: 'customer 7', limit: 10 }),
      );
      await emit([on('c')]);
      assert.equal((await read('c')).length, 1);
    });

    test('a refused event is no duplicate when it is emitted again', async () => {
      await addEmitter();
      await fill(Array.from({ length: 1_000 }, (_, n) => `customer ${n}`));
      const again = () => emit([on('new', 'x'), on('new', 'x'), on('', 'y')], { dedupe: 'unique' });
      assert.deepEqual(
        (await again()).map(({ channel }) => channel),
        ['', '$logs'],
      );
      await fixture.store.transaction((tx) =>
        deleteEventRange(tx, { emitterId: 'dc_1', channel: 'customer 7', limit: 10 }),
      );
      assert.deepEqual(
        (await again()).map(({ channel, given_id }) => [channel, given_id]),
        [['new', 'x']],
      );
    });

    test('ten thousand events of an emitter may wait in $in; one more is refused, and the log says so', async () => {
      await addEmitter();
      await fill(Array.from({ length: 9_999 }, () => '$in'));
      const later = { ...on(''), deliverAtMs: start + 60_000 };
      const stored = await emit([later, later, on('')]);
      assert.deepEqual(
        stored.map(({ channel }) => channel),
        ['$in', '', '$logs'],
      );
      assert.match((await logged())[0] ?? '', /^1 event\(s\) with a delivery_ts were refused: 10000 /);
    });

    test('an event that waited was accepted when it was emitted: it reaches its channel, even one beyond the maximum', async () => {
      await addEmitter();
      await fill(Array.from({ length: 1_000 }, (_, n) => `customer ${n}`));
      const stored = await emit([{ ...on('new'), waited: true }, on('newer')]);
      assert.deepEqual(
        stored.map(({ channel }) => channel),
        ['new', '$logs'],
      );
    });

    test('what is logged is logged now, whatever its delivery_ts', async () => {
      await addEmitter();
      const later = { deliverAtMs: start + 60_000 };
      const stored = await emit([
        { ...on('$logs'), ...later },
        { ...on('$errors'), ...later },
      ]);
      assert.deepEqual(
        stored.map(({ channel }) => channel),
        ['$logs', '$errors'],
      );
    });

    test('refusing is fast too, whatever the order of the ids', async () => {
      await addEmitter();
      await fill(Array.from({ length: 9_998 }, () => '$in'));
      // Each would be accepted if all before it were refused.
      const falling = Array.from({ length: 30_000 }, (_, n) => ({
        ...on('', String(90_000 - n)),
        deliverAtMs: start + 60_000,
      }));
      await emit(
        [1, 2, 3].map((n) => ({ ...on('', String(n)), deliverAtMs: start + 60_000 })),
        {
          dedupe: 'greatest',
        },
      );
      const begun = performance.now();
      const stored = await emit([...falling, on('', '95000')], { dedupe: 'greatest' });
      assert.deepEqual(
        stored.map(({ channel, given_id }) => [channel, given_id]),
        [
          ['', '95000'],
          ['$logs', null],
        ],
      );
      assert.ok(performance.now() - begun < 30_000);
    });

    test('the job of a waiting event is removed with it', async () => {
      await addEmitter();
      await emit([1, 2, 3].map((n) => ({ ...on(''), deliverAtMs: start + n })));
      const [, second] = await read('$in');
      assert.ok(second !== undefined);
      await fixture.store.transaction((tx) =>
        deleteEventRange(tx, { emitterId: 'dc_1', channel: '$in', start: second, end: second, limit: 10 }),
      );
      const left = await fixture.store.read
        .selectFrom('jobs')
        .select('run_at_ms')
        .orderBy('run_at_ms')
        .execute();
      assert.deepEqual(
        left.map((job) => job.run_at_ms - start),
        [1, 3],
      );
    });
  });
});
