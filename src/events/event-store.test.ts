import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { claimJobs } from '#jobs/claim-store.ts';
import { LaneLeases } from '#jobs/lane-leases.ts';
import { recoverExpired, registerNode } from '#jobs/node-store.ts';
import { silentLogger } from '#lib/logger.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import { RemovalTurns } from '#storage/removal-turns.ts';
import type { Store } from '#storage/store.ts';
import { placesForAny } from '../../test/support/claim-places.ts';
import { emitUnheard, noSubscribers } from '../../test/support/no-subscribers.ts';
import { readEvents } from '../../test/support/stored-events.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { deleteEventsHandler, requestEventDeletion } from './delete-events.ts';
import { deliverScheduledHandler } from './deliver-scheduled.ts';
import type { Emission, EmissionResult, NewEvent } from './emit-event.ts';
import { channels, type StoredEvent } from './event.ts';
import { EventBus } from './event-bus.ts';
import { compareEventIds, formatEventId, parseEventId } from './event-id.ts';
import { placesAfter } from './event-page-store.ts';
import {
  deleteEmitter,
  deleteEventRange,
  hasEvent,
  insertEmitter,
  pruneChannel,
  readScheduledEvent,
} from './event-store.ts';
import { EventPruner } from './prune-events.ts';

const start = 1_800_000_000_000;

/** Events as short text: what is emitted is the JSON of it. */
function events(...texts: (string | (Partial<NewEvent> & { text: string }))[]): NewEvent[] {
  return texts.map((given) => {
    const { text, ...rest } = typeof given === 'string' ? { text: given } : given;
    return { channel: '', event: JSON.stringify(text), ...rest };
  });
}

const textsOf = (stored: readonly { event: string }[]) =>
  stored.map(({ event }) => JSON.parse(event) as string);
const idsOf = (stored: readonly StoredEvent[]) => stored.map(formatEventId);

describe('the event log', () => {
  forEachStore((fixture) => {
    const clock = new TestClock(start);

    const addEmitter = async (id = 'dc_1') => {
      clock.set(start);
      await fixture.store.transaction((tx) => insertEmitter(tx, { id, ownerId: 'o_1' }));
    };
    const emitAll = (...emissions: Partial<Emission>[]): Promise<EmissionResult[]> =>
      fixture.store.transaction((tx) =>
        emitUnheard(
          fixture.store,
          tx,
          emissions.map((emission) => ({ emitterId: 'dc_1', hops: 0, events: [], ...emission })),
          clock.now(),
        ),
      );
    const emit = async (list: NewEvent[], options: Partial<Emission> = {}): Promise<StoredEvent[]> => {
      const [result] = await emitAll({ events: list, ...options });
      assert.ok(result?.accepted);
      return result.stored;
    };
    const read = (options: Partial<Parameters<typeof readEvents>[1]> = {}) =>
      readEvents(fixture.store.read, { emitterId: 'dc_1', channel: '', limit: 100, ...options });
    const readTexts = async (...args: Parameters<typeof read>) => textsOf(await read(...args));
    /** `count` events e0, e1, …, one millisecond apart. */
    const fill = async (count: number, channel = '') => {
      const rows = Array.from(
        { length: count },
        (_, index): StoredEvent => ({
          emitter_id: 'dc_1',
          channel,
          ms: start + index,
          seq: 0,
          owner_id: 'o_1',
          emit_id: `em${index}`,
          given_id: null,
          summary: null,
          ts_ms: null,
          event: JSON.stringify(`e${index}`),
          deliver_channel: null,
          deliver_at_ms: null,
          hops: 0,
        }),
      );
      await fixture.store.transaction(async (tx) => {
        for (let at = 0; at < rows.length; at += 500)
          await tx
            .insertInto('events')
            .values(rows.slice(at, at + 500))
            .execute();
        await tx
          .updateTable('emitters')
          .set({ last_ms: start + count, last_seq: 0 })
          .where('id', '=', 'dc_1')
          .execute();
      });
      clock.set(start + count + 1);
    };
    const count = async (channel = '') =>
      (
        await fixture.store.read
          .selectFrom('events')
          .select('seq')
          .where('emitter_id', '=', 'dc_1')
          .where('channel', '=', channel)
          .execute()
      ).length;
    /** Claims every due job of a kind as node n1 and runs it. */
    const runJobs = async (handler: { run: ReturnType<typeof deleteEventsHandler>['run'] }) => {
      const jobs = await claimJobs(fixture.store, {
        node: 'n1',
        lanes: new LaneLeases({ node: 'n1', store: fixture.store }),
        kinds: ['delete_events', 'deliver_scheduled_event'],
        limit: 100,
        ...placesForAny(32),
        runningByLane: new Map(),
        nowMs: clock.now(),
      });
      for (const job of jobs) await handler.run(job, new AbortController().signal);
      return jobs.length;
    };

    describe('emitting', () => {
      test('an event is kept with everything that was given', async () => {
        await addEmitter();
        const stored = await emit(events({ text: 'a', channel: 'c', id: 'given', summary: 'sum', ts: 5 }), {
          hops: 3,
        });
        const [kept] = await read({ channel: 'c' });
        const { previous: _previous, ...written } = stored[0] ?? {};
        assert.deepEqual({ ...kept }, written);
        const { emit_id, ...rest } = kept ?? { emit_id: '' };
        assert.match(emit_id, /^[0-9A-Za-z]{27}$/);
        assert.deepEqual(rest, {
          emitter_id: 'dc_1',
          channel: 'c',
          ms: start,
          seq: 0,
          owner_id: 'o_1',
          given_id: 'given',
          summary: 'sum',
          ts_ms: 5,
          event: '"a"',
          deliver_channel: null,
          deliver_at_ms: null,
          hops: 3,
        });
      });

      test('ids strictly increase with a clock that stands still, steps back, and after everything was deleted', async () => {
        await addEmitter();
        const ids = idsOf(await emit(events('a', 'b')));
        ids.push(...idsOf(await emit(events('c'))));
        clock.step(-3_600_000);
        ids.push(...idsOf(await emit(events('d'))));
        await fixture.store.transaction((tx) =>
          deleteEventRange(tx, { emitterId: 'dc_1', channel: '', limit: 100 }),
        );
        assert.equal(await count(), 0);
        ids.push(...idsOf(await emit(events('e'))));
        clock.set(start + 1);
        ids.push(...idsOf(await emit(events('f'))));
        assert.deepEqual(ids, [0, 1, 2, 3, 4].map((seq) => `${start}-${seq}`).concat(`${start + 1}-0`));
      });

      test('ids increase across channels and emissions, whatever the clock does', async () => {
        const step = fc.record({
          clockMs: fc.integer({ min: -1_000, max: 1_000 }),
          perEmission: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 3 }),
          channel: fc.constantFrom('', 'x', '$logs'),
        });
        let emitter = 0;
        await fc.assert(
          fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
            emitter += 1;
            const emitterId = `dc_p${emitter}`;
            await addEmitter(emitterId);
            let last = { ms: 0, seq: 0 };
            for (const { clockMs, perEmission, channel } of steps) {
              clock.step(clockMs);
              const results = await emitAll(
                ...perEmission.map((n) => ({
                  emitterId,
                  events: events(...Array.from({ length: n }, () => ({ text: 'x', channel }))),
                })),
              );
              for (const result of results) {
                assert.ok(result.accepted);
                for (const id of result.stored) {
                  assert.ok(compareEventIds(id, last) > 0);
                  last = { ms: id.ms, seq: id.seq };
                }
              }
            }
          }),
          { numRuns: 15 },
        );
      });

      test('several emissions of one emitter in one batch keep their order, beside those of others', async () => {
        await addEmitter('dc_1');
        await addEmitter('dc_2');
        const results = await emitAll(
          { events: events('a', 'b') },
          { emitterId: 'dc_2', events: events('x') },
          { events: [] },
          { events: events('c') },
        );
        assert.deepEqual(
          results.map((result) => (result.accepted ? textsOf(result.stored) : 'refused')),
          [['a', 'b'], ['x'], [], ['c']],
        );
        assert.deepEqual(await readTexts(), ['c', 'b', 'a']);
        assert.deepEqual(await readTexts({ emitterId: 'dc_2' }), ['x']);
      });

      test('many emissions at once through the group commit all arrive, each with an id of its own', async () => {
        await addEmitter('dc_1');
        const write: BatchWrite<Emission, EmissionResult> = {
          name: 'emit',
          run: (tx, emissions) => emitUnheard(fixture.store, tx, emissions, clock.now()),
        };
        await Promise.all(
          Array.from({ length: 90 }, (_, index) =>
            fixture.store.writes.submit(write, { emitterId: 'dc_1', hops: 0, events: events(`e${index}`) }),
          ),
        );
        assert.deepEqual(
          (await readTexts()).sort(),
          Array.from({ length: 90 }, (_, index) => `e${index}`).sort(),
        );
      });

      test('the events of an emission are sorted by ts, oldest first; equal ones and those without keep their place', async () => {
        await addEmitter();
        const stored = await emit(
          events(
            'first',
            { text: 'c', ts: 3 },
            'after c',
            { text: 'a', ts: 1 },
            { text: 'b1', ts: 2 },
            { text: 'b2', ts: 2 },
            'after b2',
          ),
        );
        assert.deepEqual(textsOf(stored), ['first', 'a', 'b1', 'b2', 'after b2', 'c', 'after c']);
      });

      test('dedupe sees the events in the order of their ts', async () => {
        await addEmitter();
        const list = events({ text: 'new', id: '2', ts: 20 }, { text: 'old', id: '1', ts: 10 });
        assert.deepEqual(textsOf(await emit(list, { dedupe: 'greatest' })), ['old', 'new']);
        assert.deepEqual(await emit(list, { dedupe: 'greatest' }), []);
      });

      test('duplicates are dropped within a batch and across restarts, and counted; deleting events forgets nothing', async () => {
        await addEmitter();
        const list = () => events({ text: 'a', id: 'a' }, { text: 'b', id: 'b' });
        const results = await emitAll(
          { events: list(), dedupe: 'unique' },
          { events: [...list(), ...events({ text: 'c', id: 'c' })], dedupe: 'unique' },
        );
        assert.deepEqual(
          results.map((result) => result.accepted && [textsOf(result.stored), result.duplicates]),
          [
            [['a', 'b'], 0],
            [['c'], 2],
          ],
        );
        await fixture.store.transaction((tx) =>
          deleteEventRange(tx, { emitterId: 'dc_1', channel: '', limit: 100 }),
        );
        await fixture.reopen();
        assert.deepEqual(await emit(list(), { dedupe: 'unique' }), []);
      });

      test('a dropped transaction remembers nothing of its ids', async () => {
        await addEmitter();
        const list = events({ text: 'a', id: 'a' });
        await assert.rejects(
          fixture.store.transaction(async (tx) => {
            await emitUnheard(
              fixture.store,
              tx,
              [{ emitterId: 'dc_1', hops: 0, dedupe: 'unique', events: list }],
              start,
            );
            throw new Error('the invocation could not be stored');
          }),
        );
        assert.equal((await emit(list, { dedupe: 'unique' })).length, 1);
      });

      test('unique without an id emits, and says so once on $logs', async () => {
        await addEmitter();
        await emit(events('a', 'b', { text: 'c', id: 'c' }), { dedupe: 'unique' });
        assert.deepEqual(await readTexts(), ['c', 'b', 'a']);
        const [warning, ...others] = await read({ channel: channels.logs });
        assert.deepEqual(others, []);
        assert.deepEqual(JSON.parse(warning?.event ?? ''), {
          ts: start,
          level: 'warn',
          message: 'dedupe "unique": 2 event(s) were emitted without an id and cannot be deduplicated',
        });
      });

      test('logs and errors are never duplicates', async () => {
        await addEmitter();
        const list = [channels.logs, channels.errors].map((channel) => ({ channel, event: '1', id: 'same' }));
        assert.equal((await emit([...list, ...list], { dedupe: 'unique' })).length, 4);
        assert.deepEqual(await read(), []);
      });

      test('an emission to an emitter that was removed is refused, and the others of the batch are not', async () => {
        await addEmitter();
        const results = await emitAll(
          { emitterId: 'dc_gone', events: events('a') },
          { emitterId: 'dc_gone' },
          { events: events('b') },
        );
        assert.deepEqual(
          results.map(({ accepted }) => accepted),
          [false, false, true],
        );
      });

      test('text with NUL, which PostgreSQL cannot keep, is stored without it', async () => {
        await addEmitter();
        const given = { text: 'a\0b', id: 'i\0d', summary: 's\0', channel: 'c\0' };
        await emit(events(given), { dedupe: 'unique' });
        const [kept] = await read({ channel: 'c' });
        assert.deepEqual([kept?.given_id, kept?.summary, JSON.parse(kept?.event ?? '')], ['id', 's', 'a\0b']);
      });
    });

    describe('scheduled emits', () => {
      const handler = (bus = new EventBus(silentLogger)) =>
        deliverScheduledHandler({ store: fixture.store, node: 'n1', bus, router: noSubscribers, clock });

      test('one that waited for less than a timer must continues with the hops it had', async () => {
        await addEmitter();
        await emit(events({ text: 'soon', channel: 'self', deliverAtMs: start + 14_999 }), { hops: 2 });
        clock.step(14_999);
        assert.equal(await runJobs(handler()), 1);
        assert.deepEqual(
          (await read({ channel: 'self' })).map(({ hops }) => hops),
          [2],
        );
      });

      test('of one owner that are due together are moved two at a time, and all of them', async () => {
        await addEmitter();
        for (let n = 0; n < 10; n += 1)
          await emit(events({ text: `${n}`, channel: 'self', deliverAtMs: start + 1_000 }));
        clock.step(1_000);
        let active = 0;
        let most = 0;
        const store: Store = {
          ...fixture.store,
          transaction: async (work) => {
            active += 1;
            most = Math.max(most, active);
            return fixture.store.transaction(work).finally(() => {
              active -= 1;
            });
          },
        };
        const bus = new EventBus(silentLogger);
        const together = deliverScheduledHandler({ store, node: 'n1', bus, router: noSubscribers, clock });
        const running: Promise<void>[] = [];
        const run: typeof together.run = async (job, signal) => {
          running.push(together.run(job, signal));
        };
        assert.equal(await runJobs({ run }), 10);
        await Promise.all(running);
        assert.equal(most, 2);
        assert.equal((await read({ channel: 'self' })).length, 10);
      });

      test('wait in $in with their job, and are delivered at their time with a new id', async () => {
        await addEmitter();
        const given = {
          text: 'later',
          channel: 'self',
          id: 'g',
          summary: 's',
          ts: 7,
          deliverAtMs: start + 60_000,
        };
        const [waiting] = await emit(events(given), { hops: 2 });
        assert.ok(waiting);
        assert.deepEqual(
          [waiting.channel, waiting.deliver_channel, waiting.deliver_at_ms],
          [channels.scheduled, 'self', start + 60_000],
        );
        assert.deepEqual(await read({ channel: 'self' }), []);
        assert.deepEqual(textsOf(await read({ channel: '$in' })), ['later']);
        assert.equal(await runJobs(handler()), 0);
        clock.step(60_000);
        const bus = new EventBus(silentLogger);
        const published: StoredEvent[] = [];
        bus.observe((list) => published.push(...list));
        assert.equal(await runJobs(handler(bus)), 1);
        const delivered = await read({ channel: 'self' });
        assert.deepEqual(published.map(formatEventId), idsOf(delivered));
        const { given_id, summary, ts_ms, event, hops, ms, deliver_at_ms } = delivered[0] ?? waiting;
        assert.deepEqual(
          { given_id, summary, ts_ms, event, hops, ms, deliver_at_ms },
          {
            given_id: 'g',
            summary: 's',
            ts_ms: 7,
            event: '"later"',
            // It rested: what it causes is a new chain.
            hops: 0,
            ms: start + 60_000,
            deliver_at_ms: null,
          },
        );
        assert.deepEqual(await read({ channel: '$in' }), []);
        assert.equal(await runJobs(handler()), 0);
      });

      test('of the past or of now are emitted at once', async () => {
        await addEmitter();
        await emit(events({ text: 'a', deliverAtMs: start }, { text: 'b', deliverAtMs: start - 1 }));
        assert.deepEqual(await readTexts(), ['b', 'a']);
      });

      test('are deduplicated on the channel they will be delivered on, once', async () => {
        await addEmitter();
        const later = { text: 'a', id: 'a', deliverAtMs: start + 1_000 };
        await emit(events(later, { ...later, channel: 'self' }), { dedupe: 'unique' });
        assert.deepEqual(await emit(events({ text: 'a', id: 'a' }), { dedupe: 'unique' }), []);
        clock.step(1_000);
        assert.equal(await runJobs(handler()), 2);
        assert.deepEqual([await readTexts(), await readTexts({ channel: 'self' })], [['a'], ['a']]);
      });

      test('that were deleted while they waited are not delivered', async () => {
        await addEmitter();
        const [waiting] = await emit(events({ text: 'a', deliverAtMs: start + 1_000 }));
        const id = formatEventId(waiting ?? { ms: 0, seq: 0 });
        await requestEventDeletion(
          fixture.store,
          { emitterId: 'dc_1', ownerId: 'o_1', channel: '$in', startId: id, endId: id },
          clock.now(),
        );
        assert.equal(
          await runJobs(
            deleteEventsHandler({
              store: fixture.store,
              removals: new RemovalTurns(fixture.store),
              node: 'n1',
            }),
          ),
          1,
        );
        clock.step(1_000);
        assert.equal(await runJobs(handler()), 0);
        assert.deepEqual(await readTexts(), []);
        assert.equal(await readScheduledEvent(fixture.store.read, 'dc_1', parseEventId(id, 'id')), undefined);
      });

      test('an emitter cannot put events into $in itself: they would never leave it', async () => {
        await addEmitter();
        const future = { channel: '$in', deliverAtMs: start + 1_000 };
        await emit(events({ text: 'now', channel: '$in' }, { text: 'later', ...future }));
        assert.deepEqual(await readTexts(), ['now']);
        clock.step(1_000);
        assert.equal(await runJobs(handler()), 1);
        assert.deepEqual(await readTexts(), ['later', 'now']);
      });
    });

    describe('reading', () => {
      test('gives the newest first, and pages by ids in both directions, the cursor left out', async () => {
        await addEmitter();
        await fill(10);
        const at = (index: number) => ({ ms: start + index, seq: 0 });
        assert.deepEqual(await readTexts({ limit: 3 }), ['e9', 'e8', 'e7']);
        assert.deepEqual(await readTexts({ limit: 3, olderThan: at(7) }), ['e6', 'e5', 'e4']);
        assert.deepEqual(await readTexts({ limit: 3, olderThan: at(1) }), ['e0']);
        assert.deepEqual(await readTexts({ limit: 3, newerThan: at(4) }), ['e7', 'e6', 'e5']);
        assert.deepEqual(await readTexts({ limit: 3, newerThan: at(8) }), ['e9']);
        assert.deepEqual(await readTexts({ limit: 3, newerThan: at(9) }), []);
        assert.deepEqual(await readTexts({ limit: 9, newerThan: at(4), olderThan: at(7) }), ['e6', 'e5']);
        assert.deepEqual(await readTexts({ limit: 2, olderThan: { ms: start + 5, seq: 1 } }), ['e5', 'e4']);
        assert.deepEqual(await readTexts({ channel: 'other' }), []);
        assert.deepEqual(await readTexts({ emitterId: 'dc_2' }), []);
      });

      test('orders by number, not by text', async () => {
        await addEmitter();
        const ids = idsOf(await emit(events(...Array.from({ length: 12 }, (_, index) => `${index}`))));
        assert.deepEqual(idsOf(await read()), ids.reverse());
        assert.deepEqual(await readTexts({ limit: 2, newerThan: { ms: start, seq: 9 } }), ['11', '10']);
      });

      test('shows the newest 100 of a channel, also before older ones were pruned; what waits in $in is all there', async () => {
        await addEmitter();
        await fill(130);
        assert.equal((await read({ limit: 1_000 })).length, 100);
        assert.deepEqual(await readTexts({ olderThan: { ms: start + 32, seq: 0 } }), ['e31', 'e30']);
        assert.deepEqual(await readTexts({ limit: 1, newerThan: { ms: 0, seq: 0 } }), ['e30']);
        await fill(130, '$in');
        assert.equal((await read({ channel: '$in', limit: 1_000 })).length, 130);
      });

      test('a reader that saw an event can ask for what followed, oldest first, and whether it is still there', async () => {
        await addEmitter();
        await fill(5);
        const after = { ms: start + 1, seq: 0 };
        const place = { emitterId: 'dc_1', channel: '' };
        const missed = await placesAfter(fixture.store.read, { ...place, after, limit: 2 });
        assert.deepEqual(
          missed.map(({ ms, bytes }) => [ms, bytes]),
          [
            [start + 2, 4],
            [start + 3, 4],
          ],
        );
        assert.equal(await hasEvent(fixture.store.read, { ...place, id: after }), true);
        assert.equal(await hasEvent(fixture.store.read, { ...place, id: { ms: start, seq: 1 } }), false);
        assert.equal(await hasEvent(fixture.store.read, { ...place, channel: 'x', id: after }), false);
      });
    });

    describe('deleting a range', () => {
      const remove = async (range: { startId?: string; endId?: string; channel?: string }) => {
        await requestEventDeletion(
          fixture.store,
          { emitterId: 'dc_1', ownerId: 'o_1', channel: '', ...range },
          clock.now(),
        );
        return runJobs(
          deleteEventsHandler({
            store: fixture.store,
            removals: new RemovalTurns(fixture.store),
            node: 'n1',
          }),
        );
      };

      for (const [rule, range, left] of [
        ['without ends, all events go', {}, []],
        ['from an id on, it and all later ones go', { startId: `${start + 3}-0` }, ['e2', 'e1', 'e0']],
        ['up to an id, it and all earlier ones go', { endId: `${start + 3}-0` }, ['e5', 'e4']],
        [
          'between two ids, both go and all between',
          { startId: `${start + 1}-0`, endId: `${start + 3}-0` },
          ['e5', 'e4', 'e0'],
        ],
        [
          'with the same id twice, exactly that event goes',
          { startId: `${start + 2}-0`, endId: `${start + 2}-0` },
          ['e5', 'e4', 'e3', 'e1', 'e0'],
        ],
        [
          'ids that are no event bound the range all the same',
          { startId: `${start + 2}-7`, endId: `${start + 4}-9` },
          ['e5', 'e2', 'e1', 'e0'],
        ],
      ] as const) {
        test(rule, async () => {
          await addEmitter();
          await fill(6);
          await fill(6, 'other');
          assert.equal(await remove(range), 1);
          assert.deepEqual(await readTexts(), left);
          assert.equal(await count('other'), 6);
          assert.deepEqual(await fixture.store.read.selectFrom('jobs').select('id').execute(), []);
        });
      }

      test('what is emitted after the request stays, also with a clock that stepped back', async () => {
        await addEmitter();
        await fill(6);
        clock.set(start - 1_000_000);
        await requestEventDeletion(
          fixture.store,
          { emitterId: 'dc_1', ownerId: 'o_1', channel: '' },
          clock.now(),
        );
        await emit(events('after'));
        await runJobs(
          deleteEventsHandler({
            store: fixture.store,
            removals: new RemovalTurns(fixture.store),
            node: 'n1',
          }),
        );
        assert.deepEqual(await readTexts(), ['after']);
      });

      test('a range of bad ids, or the wrong way round, is refused by name and nothing happens', async () => {
        await addEmitter();
        await fill(2);
        await assert.rejects(remove({ startId: 'abc' }), {
          code: 'invalid_event_id',
          details: { parameter: 'start_id' },
        });
        await assert.rejects(remove({ endId: '1' }), {
          code: 'invalid_event_id',
          details: { parameter: 'end_id' },
        });
        await assert.rejects(remove({ startId: '5-1', endId: '5-0' }), { code: 'invalid_range' });
        assert.equal(await count(), 2);
      });

      test('goes in bounded batches, oldest first', async () => {
        await addEmitter();
        await fill(25);
        const batch = () =>
          fixture.store.transaction((tx) =>
            deleteEventRange(tx, {
              emitterId: 'dc_1',
              channel: '',
              start: { ms: start + 2, seq: 0 },
              limit: 10,
            }),
          );
        assert.equal(await batch(), 10);
        assert.equal((await readTexts()).at(-3), 'e12');
        assert.deepEqual([await batch(), await batch(), await batch()], [10, 3, 0]);
        assert.deepEqual(await readTexts(), ['e1', 'e0']);
      });

      test('an accepted deletion that a crash interrupted is finished by the node that takes the job over', async () => {
        await addEmitter();
        await fill(500);
        await fixture.store.transaction((tx) =>
          registerNode(tx, 'n0', { nowMs: clock.now(), leaseMs: 1_000 }),
        );
        const place = { emitterId: 'dc_1', channel: '' };
        const endId = `${start + 450}-0`;
        await requestEventDeletion(fixture.store, { ...place, ownerId: 'o_1', endId }, clock.now());
        await claimJobs(fixture.store, {
          node: 'n0',
          lanes: new LaneLeases({ node: 'n0', store: fixture.store }),
          kinds: ['delete_events'],
          limit: 1,
          ...placesForAny(1),
          runningByLane: new Map(),
          nowMs: clock.now(),
        });
        await fixture.store.transaction((tx) => deleteEventRange(tx, { ...place, limit: 200 }));
        // Here n0 dies.
        clock.step(1_000);
        await recoverExpired(fixture.store, {
          node: 'n1',
          nowMs: clock.now(),
          retryDelayMs: () => 1_000,
        });
        assert.equal(
          await runJobs(
            deleteEventsHandler({
              store: fixture.store,
              removals: new RemovalTurns(fixture.store),
              node: 'n1',
            }),
          ),
          1,
        );
        assert.equal(await count(), 49);
        assert.equal((await readTexts()).at(-1), 'e451');
      });
    });

    describe('removing an emitter', () => {
      test('takes its events of all channels with it, a bounded number at a time, and accepts nothing meanwhile', async () => {
        await addEmitter();
        await fill(25);
        await fill(10, '$in');
        const step = () => fixture.store.transaction((tx) => deleteEmitter(tx, 'dc_1', 20));
        assert.equal(await step(), false);
        const left = (await count()) + (await count('$in'));
        assert.equal(left, 15);
        assert.deepEqual(await emitAll({ events: events('late') }), [{ accepted: false }]);
        assert.equal(await step(), true);
        assert.equal((await count()) + (await count('$in')), 0);
        assert.equal(await step(), true);
      });

      if (fixture.dialect === 'postgres') {
        test('leaves no event behind of an emission that was under way', async () => {
          await addEmitter();
          const emitted = Promise.withResolvers<void>();
          const goOn = Promise.withResolvers<void>();
          const emission = fixture.store.transaction(async (tx) => {
            await emitUnheard(
              fixture.store,
              tx,
              [{ emitterId: 'dc_1', hops: 0, events: events('a') }],
              start,
            );
            emitted.resolve();
            await goOn.promise;
          });
          await emitted.promise;
          const removal = fixture.store.transaction((tx) => deleteEmitter(tx, 'dc_1', 100));
          // A round trip on another connection: the removal has had its chance to run ahead.
          await read();
          goOn.resolve();
          await emission;
          assert.equal(await removal, true);
          assert.equal(await count(), 0);
        });
      }
    });

    describe('pruning', () => {
      test('leaves the newest 100 of each channel, in bounded batches', async () => {
        await addEmitter();
        await fill(330);
        await fill(90, 'few');
        const prune = (channel: string) =>
          fixture.store.transaction((tx) => pruneChannel(tx, { emitterId: 'dc_1', channel, limit: 200 }));
        assert.deepEqual([await prune(''), await prune(''), await prune('')], [200, 30, 0]);
        assert.deepEqual([await count(), (await readTexts()).at(-1)], [100, 'e230']);
        assert.equal(await prune('few'), 0);
        assert.equal(await count('few'), 90);
      });

      test('the pruner looks only where enough was stored, and leaves $in alone', async () => {
        await addEmitter();
        const pruner = new EventPruner({ store: fixture.store, logger: silentLogger });
        const seen = (channel: string, events: number) =>
          pruner.observe(
            Array.from({ length: events }, () => ({ emitter_id: 'dc_1', channel }) as StoredEvent),
          );
        await fill(130);
        await fill(130, 'x');
        await fill(130, '$in');
        seen('', 49);
        seen('x', 50);
        seen('$in', 500);
        await pruner.pruneGrown();
        assert.deepEqual([await count(), await count('x'), await count('$in')], [130, 100, 130]);
        seen('', 1);
        await pruner.pruneGrown();
        assert.equal(await count(), 100);
      });

      test('the pruner finds after a start what gathered before, and stops on request', async () => {
        await addEmitter();
        await fill(1_200, 'y');
        await fill(101);
        await fill(130, '$in');
        const pruner = new EventPruner({ store: fixture.store, logger: silentLogger });
        pruner.start();
        await pruner.swept();
        await pruner.pruneGrown();
        assert.deepEqual([await count('y'), await count(), await count('$in')], [100, 100, 130]);
        await pruner.stop();
        await pruner.stop();
      });
    });
  });
});
