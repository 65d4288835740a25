import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LeasedJob } from '#jobs/job-store.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { databaseTime, processTime, readTimeMs, storeTime } from '#storage/store-time.ts';
import type { TimerTable } from '#storage/tables/source-tables.ts';
import { noPlaces } from '../../test/support/no-places.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { fireDueTimers, type TimerOptions } from './fire-due-timers.ts';
import { restartTimers } from './restart-timers.ts';
import { Scheduler } from './scheduler.ts';
import { SourceTicks, type TickPool } from './source-ticks.ts';
import type { TickTarget } from './tick-target.ts';
import { timerEvent } from './timer-event.ts';
import { cronTimersOfFuture, insertTimers, lockDueTimers, readTicks, type TickPlace } from './timer-store.ts';

const start = Date.parse('2026-11-21T10:00:00Z');
const minute = 60_000;

/** No timer of these tests belongs to a workflow. */
const noWorkflows: TickTarget = {
  fire: () => Promise.reject(new Error('a timer of a source came to the workflows')),
};

function partsOf(store: Store, options: Partial<TimerOptions> & { onJobs?: () => void } = {}): TimerOptions {
  const { onJobs = () => {}, ...others } = options;
  return {
    store,
    targets: {
      dc: new SourceTicks({
        store,
        pool: noPlaces(onJobs),
        hold: async (_, jobs) => [...jobs],
        onHeld: () => {},
      }),
      p: noWorkflows,
    },
    mayRun: () => true,
    ...others,
  };
}

/** Sources with one timer each; a name is the id of its source. */
async function addTimers(
  store: Store,
  names: readonly string[],
  timer: Partial<Pick<TimerTable, 'interval_seconds' | 'cron' | 'timezone' | 'next_at_ms'>> = {},
): Promise<void> {
  const common = { owner_id: 'u_1', created_at_ms: start, updated_at_ms: start };
  await store.transaction(async (tx) => {
    for (let at = 0; at < names.length; at += 200) {
      const batch = names.slice(at, at + 200);
      await tx
        .insertInto('sources')
        .values(
          batch.map((id) => ({
            ...common,
            id,
            user_id: 'u_1',
            component_id: 'sc_1',
            name: id,
            name_slug: id,
            configured_props: '{}',
            dynamic_props: null,
            state: 'active',
            endpoint_key: null,
            concurrency: 1,
            isolated: 0,
            revision: 1,
          })),
        )
        .execute();
      await insertTimers(
        tx,
        batch.map((id) => ({
          ...common,
          id: `${id}:timer`,
          subject_id: id,
          prop: 'timer',
          interval_seconds: 60,
          cron: null,
          timezone: 'UTC',
          next_at_ms: start,
          schedule_changed_at_ms: start,
          ...timer,
        })),
      );
    }
  });
}

async function nextAt(store: Store, sourceId: string): Promise<number | undefined> {
  const row = await store.read
    .selectFrom('timers')
    .select('next_at_ms')
    .where('subject_id', '=', sourceId)
    .executeTakeFirst();
  return row?.next_at_ms;
}

/** Ledger rows as `outcome x ticks`, oldest first. */
async function ledger(store: Store, sourceId: string): Promise<string[]> {
  const rows = await readTicks(store.read, sourceId, { limit: 100 });
  return rows.map((row) => `${row.outcome} x ${row.ticks}`).reverse();
}

async function queued(store: Store): Promise<{ lane: string | null; payload: string }[]> {
  return store.read.selectFrom('jobs').select(['lane', 'payload']).execute();
}

/** What workers leave of queued runs. */
async function runAll(store: Store): Promise<void> {
  await store.transaction((tx) => tx.deleteFrom('jobs').execute());
}

describe('timers', () => {
  forEachStore((fixture) => {
    const fire = (nowMs: number, store = fixture.store) => fireDueTimers(partsOf(store), nowMs);

    test('a due timer becomes one run, and its next time follows from its plan, not from when it fired', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_1']);
      assert.deepEqual(await fire(start - 1), { timers: 0, fired: 0 });
      assert.deepEqual(await fire(start + 900), { timers: 1, fired: 1 });
      assert.equal(await nextAt(store, 'dc_1'), start + minute);
      const [job] = await queued(store);
      assert.deepEqual(JSON.parse(JSON.parse(job?.payload ?? '').event), {
        timestamp: start / 1000,
        interval_seconds: 60,
      });
      for (let n = 1; n <= 50; n += 1) {
        await runAll(store);
        await fire(start + n * minute + ((n * 37) % 1900));
      }
      assert.equal(await nextAt(store, 'dc_1'), start + 51 * minute, 'no drift');
      assert.deepEqual(new Set(await ledger(store, 'dc_1')), new Set(['fired x 1']));
    });

    test('a tick that comes while the run before it is not finished is skipped, with a record', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_1']);
      await fire(start);
      assert.deepEqual(await fire(start + minute), { timers: 1, fired: 0 });
      assert.equal((await queued(store)).length, 1);
      await runAll(store);
      assert.deepEqual(await fire(start + 2 * minute), { timers: 1, fired: 1 });
      assert.deepEqual(await ledger(store, 'dc_1'), ['fired x 1', 'skipped x 1', 'fired x 1']);
    });

    test('ticks missed while nothing ran become one late run, and the ledger counts all of them', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_interval']);
      await addTimers(store, ['dc_cron'], { interval_seconds: null, cron: '*/5 * * * *' });
      const back = start + 10 * minute + 3_000;
      assert.deepEqual(await fire(back), { timers: 2, fired: 2 });
      assert.deepEqual(await ledger(store, 'dc_interval'), ['late x 1', 'missed x 10']);
      assert.deepEqual(await ledger(store, 'dc_cron'), ['late x 1', 'missed x 2']);
      assert.equal(await nextAt(store, 'dc_interval'), start + 11 * minute);
      assert.equal(await nextAt(store, 'dc_cron'), start + 15 * minute);
      assert.deepEqual(await fire(back), { timers: 0, fired: 0 });
    });

    test('a cron expression that has no next occurrence ends its timer after the last one', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_1'], { interval_seconds: null, cron: '0 0 10 21 11 * 2026' });
      assert.deepEqual(await fire(start), { timers: 1, fired: 1 });
      assert.equal(await nextAt(store, 'dc_1'), undefined);
    });

    test('a thousand timers that are due together all fire in one pass', async () => {
      const { store } = fixture;
      await addTimers(
        store,
        Array.from({ length: 1000 }, (_, n) => `dc_${n}`),
      );
      const onJobs = Promise.withResolvers<void>();
      let calls = 0;
      const count = () => {
        calls += 1;
        if (calls === 2) onJobs.resolve();
      };
      const scheduler = new Scheduler({
        ...partsOf(store, { onJobs: count }),
        time: processTime(new TestClock(start)),
        logger: silentLogger,
      });
      const begun = performance.now();
      scheduler.start();
      await onJobs.promise;
      await scheduler.stop();
      assert.ok(performance.now() - begun < 30_000);
      assert.equal((await queued(store)).length, 1000);
      assert.equal(new Set((await queued(store)).map(({ lane }) => lane)).size, 1000);
    });

    test('ticks begin here without a claim, once they are on disk, as far as there are places', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_1', 'dc_2', 'dc_3', 'dc_4']);
      const begun: LeasedJob[] = [];
      let pokes = 0;
      const pool: TickPool = {
        node: 'n_here',
        lanes: { hasOthers: false },
        placesLeft: 2,
        failedHere: new Set(),
        // Older work of this lane waits in the store.
        hasRoom: (lane) => lane !== 'dc_2',
        run: (job) => begun.push(job),
        poke: () => {
          pokes += 1;
        },
      };
      const states = async () =>
        (await store.read.selectFrom('jobs').select(['lane', 'state', 'lease_node', 'attempts']).execute())
          .map(({ lane, state, lease_node, attempts }) => `${lane} ${state} ${lease_node} ${attempts}`)
          .sort();
      const ofSources = (through: TickPool) => ({
        ...partsOf(store),
        targets: {
          dc: new SourceTicks({ store, pool: through, hold: async (_, jobs) => [...jobs], onHeld: () => {} }),
          p: noWorkflows,
        },
      });
      // What comes after the sources makes the transaction fail.
      await addTimers(store, ['p_1']);
      await assert.rejects(fireDueTimers(ofSources(pool), start), /came to the workflows/);
      assert.equal(begun.length, 0);
      assert.deepEqual(await states(), []);
      await store.transaction((tx) => tx.deleteFrom('timers').where('subject_id', '=', 'p_1').execute());
      assert.deepEqual(await fireDueTimers(ofSources(pool), start), { timers: 4, fired: 4 });
      const here = begun.map(({ lane }) => lane);
      assert.equal(here.length, 2);
      assert.ok(!here.includes('dc_2'));
      assert.equal(pokes, 1);
      assert.deepEqual(
        await states(),
        ['dc_1', 'dc_2', 'dc_3', 'dc_4'].map((lane) =>
          here.includes(lane) ? `${lane} running n_here 1` : `${lane} queued null 0`,
        ),
      );
      const [first] = begun;
      assert.equal(first?.id, `tick_${first?.lane}:timer`);
      assert.equal(first?.attempts, 1);
      assert.match(JSON.stringify(first?.payload), /"trigger":"timer"/);
      // The tick before has not ended: this one begins nowhere.
      assert.deepEqual(await fireDueTimers(ofSources({ ...pool, placesLeft: 9 }), start + minute), {
        timers: 4,
        fired: 0,
      });
      assert.equal(begun.length, 2);
      // The tick before failed here, and that is not stored yet.
      await runAll(store);
      const failedHere = new Set(['tick_dc_1:timer', 'tick_dc_3:timer', 'tick_dc_4:timer']);
      await fireDueTimers(ofSources({ ...pool, placesLeft: 9, failedHere }), start + 2 * minute);
      assert.equal(begun.length, 2);
      // Where there are other nodes, the node that has the turn of the lane takes it from the store.
      await runAll(store);
      await fireDueTimers(ofSources({ ...pool, lanes: { hasOthers: true } }), start + 3 * minute);
      assert.equal(begun.length, 2);
      assert.equal((await states()).filter((line) => line.includes('queued')).length, 4);
    });

    test('a scheduler that is paused fires nothing, and what is late when it continues', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_1']);
      let isPaused = true;
      const asked = Promise.withResolvers<void>();
      const scheduler = new Scheduler({
        ...partsOf(store),
        time: processTime(new TestClock(start + 10 * minute + 1)),
        isPaused: () => {
          asked.resolve();
          return isPaused;
        },
        logger: silentLogger,
      });
      scheduler.start();
      await asked.promise;
      assert.equal(await nextAt(store, 'dc_1'), start);
      isPaused = false;
      await waitFor(async () => (await nextAt(store, 'dc_1')) === start + 11 * minute);
      await scheduler.stop();
      assert.deepEqual(await ledger(store, 'dc_1'), ['late x 1', 'missed x 10']);
    });

    test('when the clock steps back, intervals restart from now instead of standing still', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_1']);
      const clock = new TestClock(start);
      const scheduler = new Scheduler({ ...partsOf(store), time: processTime(clock), logger: silentLogger });
      scheduler.start();
      await waitFor(async () => (await nextAt(store, 'dc_1')) === start + minute);
      clock.step(-3_600_000);
      scheduler.poke();
      await waitFor(async () => (await nextAt(store, 'dc_1')) === start - 3_600_000 + minute);
      await scheduler.stop();
      // The same when the clock was set back while the service was down.
      clock.step(-3_600_000);
      const next = new Scheduler({ ...partsOf(store), time: processTime(clock), logger: silentLogger });
      next.start();
      await waitFor(async () => (await nextAt(store, 'dc_1')) === start - 7_200_000 + minute);
      await next.stop();
    });

    test('when the clock steps far back, cron schedules restart too; a small step fires nothing again', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_1'], { interval_seconds: null, cron: '*/5 * * * *' });
      await fire(start);
      assert.equal(await nextAt(store, 'dc_1'), start + 5 * minute);
      const restartAt = (nowMs: number) => restartTimers(store, processTime(new TestClock(nowMs)));
      await restartAt(start - 5_000);
      assert.equal(await nextAt(store, 'dc_1'), start + 5 * minute, 'what fired at its time fires once');
      await restartAt(start - 60 * minute - 1);
      assert.equal(await nextAt(store, 'dc_1'), start - 60 * minute);
      await restartAt(start - 60 * minute);
      assert.equal(await nextAt(store, 'dc_1'), start - 60 * minute, 'what was planned rightly stays');
    });

    test('a clock that steps a day ahead and back again leaves no timer standing still', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_interval']);
      await addTimers(store, ['dc_cron'], { interval_seconds: null, cron: '*/5 * * * *' });
      const clock = new TestClock(start + 86_400_000);
      const scheduler = new Scheduler({ ...partsOf(store), time: processTime(clock), logger: silentLogger });
      scheduler.start();
      await waitFor(async () => (await nextAt(store, 'dc_cron')) === start + 86_400_000 + 5 * minute);
      assert.deepEqual(await ledger(store, 'dc_cron'), ['late x 1', 'missed x 288']);
      clock.set(start + minute);
      scheduler.poke();
      await waitFor(async () => (await nextAt(store, 'dc_cron')) === start + 5 * minute);
      assert.equal(await nextAt(store, 'dc_interval'), start + 2 * minute);
      await scheduler.stop();
    });

    test('a scheduler that starts moves no timer, however late its look at the clock is', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_interval', 'dc_later']);
      await addTimers(store, ['dc_cron'], { interval_seconds: null, cron: '*/15 * * * * *' });
      await fire(start + 900);
      // Planned beyond one interval, but not by a clock that has stepped.
      await store.transaction((tx) =>
        tx
          .updateTable('timers')
          .set({ next_at_ms: start + 10 * minute })
          .where('subject_id', '=', 'dc_later')
          .execute(),
      );
      const planned = () =>
        Promise.all(['dc_interval', 'dc_later', 'dc_cron'].map((id) => nextAt(store, id)));
      const before = [start + minute, start + 10 * minute, start + 15_000];
      assert.deepEqual(await planned(), before);
      const warnings: string[] = [];
      const logger = { ...silentLogger, warn: (_: object, text: string) => warnings.push(text) };
      // Another node fired these timers after this one had read its clock.
      for (const lagMs of [1, 900, 1_900]) {
        const looked = Promise.withResolvers<void>();
        const time = processTime({
          now: () => {
            looked.resolve();
            return start + 900 - lagMs;
          },
        });
        const scheduler = new Scheduler({ ...partsOf(store), time, logger: logger as never });
        scheduler.start();
        await looked.promise;
        await scheduler.stop();
      }
      assert.deepEqual(await planned(), before);
      assert.deepEqual(warnings, []);
    });

    test('an owner over quota: a tick is skipped with a record, and the timer continues', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_1', 'dc_2']);
      let left = 1;
      const mayRun = () => {
        left -= 1;
        return left >= 0;
      };
      assert.deepEqual(await fireDueTimers(partsOf(store, { mayRun }), start), { timers: 2, fired: 1 });
      const [{ lane: fired } = { lane: '' }] = await queued(store);
      await runAll(store);
      const [tick] = await readTicks(store.read, fired === 'dc_1' ? 'dc_2' : 'dc_1', { limit: 10 });
      assert.deepEqual([tick?.outcome, tick?.reason], ['skipped', 'quota_exceeded']);
      assert.deepEqual(await fire(start + minute), { timers: 2, fired: 2 });
    });

    test('two schedulers never fire one tick twice', async () => {
      const { store } = fixture;
      const other = fixture.dialect === 'postgres' ? await fixture.open() : store;
      const names = Array.from({ length: 600 }, (_, n) => `dc_${n}`);
      await addTimers(store, names);
      const passes = await Promise.all(
        [store, other, store, other].map(async (each) => {
          let timers = 0;
          for (let round = 0; round < 3; round += 1) timers += (await fire(start, each)).timers;
          return timers;
        }),
      );
      assert.equal(
        passes.reduce((sum, n) => sum + n, 0),
        600,
      );
      const { rows } = {
        rows: await store.read.selectFrom('ticks').select(['subject_id', 'outcome']).execute(),
      };
      assert.equal(rows.length, 600);
      assert.ok(rows.every(({ outcome }) => outcome === 'fired'));
      assert.equal((await queued(store)).length, 600);
    });

    if (fixture.dialect === 'postgres')
      test('timers that fire, or are restarted, are left alone by the other schedulers until that is written', async () => {
        const { store } = fixture;
        const other = await fixture.open();
        const cron = { interval_seconds: null, cron: '*/5 * * * *' };
        await addTimers(store, ['dc_firing'], cron);
        await addTimers(store, ['dc_restarting'], cron);
        const dueElsewhere = async () =>
          (await other.transaction((tx) => lockDueTimers(other, tx, start, 10))).map((row) => row.subject_id);
        await store.transaction(async (tx) => {
          const time = processTime(new TestClock(start - 1));
          const restarting = { time, toleranceMs: 0, afterId: 'dc_firing:timer', limit: 10 };
          assert.equal((await cronTimersOfFuture(store, tx, restarting)).length, 1);
          assert.deepEqual(await dueElsewhere(), ['dc_firing']);
          assert.equal((await lockDueTimers(store, tx, start, 10)).length, 2);
          assert.deepEqual(await dueElsewhere(), []);
        });
        assert.deepEqual((await dueElsewhere()).sort(), ['dc_firing', 'dc_restarting']);
      });

    if (fixture.dialect === 'postgres')
      test('nodes whose clocks are an hour wrong fire by the clock of the database', async () => {
        const { store } = fixture;
        const databaseMs = await readTimeMs(store.read, databaseTime);
        const soon = databaseMs + 30 * minute;
        await addTimers(store, ['dc_due'], { next_at_ms: databaseMs });
        await addTimers(store, ['dc_soon'], { next_at_ms: soon });
        for (const [index, wrongMs] of [60 * minute, -60 * minute].entries()) {
          const time = storeTime(store, new TestClock(databaseMs + wrongMs));
          const scheduler = new Scheduler({ ...partsOf(store), time, logger: silentLogger });
          scheduler.start();
          await waitFor(async () => (await ledger(store, 'dc_due')).length === index + 1);
          await scheduler.stop();
          await store.transaction((tx) =>
            tx
              .updateTable('timers')
              .set({ next_at_ms: databaseMs + 1 })
              .where('subject_id', '=', 'dc_due')
              .execute(),
          );
          await runAll(store);
        }
        const [tick] = await readTicks(store.read, 'dc_due', { limit: 1 });
        assert.ok(Math.abs((tick?.recorded_at_ms ?? 0) - databaseMs) < 10 * minute);
        assert.equal(await nextAt(store, 'dc_soon'), soon);
        assert.deepEqual(await ledger(store, 'dc_soon'), []);
      });

    if (fixture.dialect === 'postgres')
      test('after the clock of the database stepped back, timers restart from its time', async () => {
        const { store } = fixture;
        const databaseMs = await readTimeMs(store.read, databaseTime);
        const ahead = databaseMs + 60 * minute;
        await addTimers(store, ['dc_1'], { next_at_ms: ahead });
        await addTimers(store, ['dc_cron'], { interval_seconds: null, cron: '* * * * *', next_at_ms: ahead });
        await fire(ahead);
        assert.equal(await restartTimers(store, databaseTime), 2);
        const latestMs = (await readTimeMs(store.read, databaseTime)) + minute;
        for (const id of ['dc_1', 'dc_cron']) {
          const next = (await nextAt(store, id)) ?? 0;
          assert.ok(next > databaseMs && next <= latestMs, `${id} fires within a minute`);
        }
      });

    test('the ledger keeps the last ticks of a source and pages both ways', async () => {
      const { store } = fixture;
      await addTimers(store, ['dc_1']);
      for (let n = 0; n < 5; n += 1) await fire(start + n * minute);
      const planned = async (page: { before?: TickPlace; after?: TickPlace }) =>
        (await readTicks(store.read, 'dc_1', { limit: 2, ...page })).map(
          (row) => (row.planned_at_ms - start) / minute,
        );
      assert.deepEqual(await planned({}), [4, 3]);
      assert.deepEqual(await planned({ before: { plannedMs: start + 3 * minute } }), [2, 1]);
      assert.deepEqual(await planned({ after: { plannedMs: start } }), [2, 1]);
    });
  });
});

test('the event of a cron tick has the local and the UTC time', () => {
  const event = timerEvent({ cron: '0 11 * * *', timezone: 'Europe/Berlin' }, start) as {
    timestamp: number;
    timezone_configured: { iso8601: { timestamp: string }; metadata: { day_of_week: number } };
    timezone_utc: { iso8601: { timestamp: string } };
  };
  assert.equal(event.timestamp, start / 1000);
  assert.equal(event.timezone_configured.iso8601.timestamp, '2026-11-21T11:00:00.000+01:00');
  assert.equal(event.timezone_utc.iso8601.timestamp, '2026-11-21T10:00:00.000+00:00');
  assert.equal(event.timezone_configured.metadata.day_of_week, 6);
});
