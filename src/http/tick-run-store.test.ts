import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { insertEmitter } from '#events/event-store.ts';
import { OutcomeRecorder } from '#health/outcome-store.ts';
import { usageOf } from '#metering/invocation-usage.ts';
import { fireDueTimers } from '#schedule/fire-due-timers.ts';
import { SourceTicks } from '#schedule/source-ticks.ts';
import { insertTimers, readTicks } from '#schedule/timer-store.ts';
import { settleInvocations } from '#sources/settle-invocation.ts';
import { noPlaces } from '../../test/support/no-places.ts';
import { noSubscribers } from '../../test/support/no-subscribers.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { runsOfTicks } from './tick-run-store.ts';

const start = Date.parse('2026-11-21T10:00:00Z');
const minute = 60_000;

describe('the run of a tick', () => {
  forEachStore((fixture) => {
    const addTimer = () =>
      fixture.store.transaction(async (tx) => {
        await insertEmitter(tx, { id: 'dc_1', ownerId: 'o_1' });
        await insertTimers(tx, [
          {
            ...{ id: 'dc_1:timer', subject_id: 'dc_1', owner_id: 'o_1', prop: 'timer', interval_seconds: 60 },
            ...{ cron: null, timezone: 'UTC', next_at_ms: start, schedule_changed_at_ms: start },
            ...{ created_at_ms: start, updated_at_ms: start },
          },
        ]);
      });
    const noWorkflows = {
      fire: () => Promise.reject(new Error('a timer of a source came to the workflows')),
    };
    const fire = (nowMs: number) => {
      const { store } = fixture;
      const targets = {
        dc: new SourceTicks({
          store,
          pool: noPlaces(),
          hold: async (_, jobs) => [...jobs],
          onHeld: () => {},
        }),
        p: noWorkflows,
      };
      return fireDueTimers({ store, targets, mayRun: () => true }, nowMs);
    };
    /** Ends the run that was planned for a time, as the node that runs it does. */
    const end = async (plannedMs: number, failure: string | null) => {
      const { store } = fixture;
      await store.transaction((tx) => tx.deleteFrom('jobs').execute());
      const clock = new TestClock(plannedMs + 1_000);
      await store.writes.submit(
        settleInvocations({
          ...{ store, node: 'n1', router: noSubscribers, clock },
          outcomes: new OutcomeRecorder(store, () => false),
        }),
        {
          sourceId: 'dc_1',
          emission: { emitterId: 'dc_1', hops: 0, events: [] },
          dbSets: {},
          usage: usageOf('o_1', start, { invocations: 1, computeMs: 1, memoryMb: 256 }),
          isStale: () => false,
          run: { failure, revision: '1' },
          tick: { timer_id: 'dc_1:timer', planned_ms: plannedMs },
        },
      );
    };
    const runs = async () => {
      const { read } = fixture.store;
      return runsOfTicks(read, await readTicks(read, 'dc_1', { limit: 100 }));
    };

    test('is queued, then succeeded or failed with its error, and earlier ticks stay as they were', async () => {
      await addTimer();
      await fire(start);
      assert.deepEqual(await runs(), [{ id: null, state: 'queued', error: null, ended_at: null }]);
      await end(start, null);
      const succeeded = { id: null, state: 'succeeded', error: null, ended_at: start / 1000 + 1 };
      assert.deepEqual(await runs(), [succeeded]);
      await fire(start + minute);
      await end(start + minute, 'TypeError: x is\0 not a function');
      assert.deepEqual(await runs(), [
        {
          id: null,
          state: 'failed',
          error: 'TypeError: x is not a function',
          ended_at: (start + minute) / 1000 + 1,
        },
        succeeded,
      ]);
    });

    test('is lost when it is neither queued nor ended, also while a later run of the timer is queued', async () => {
      await addTimer();
      await fire(start);
      await fixture.store.transaction((tx) => tx.deleteFrom('jobs').execute());
      assert.deepEqual(
        (await runs()).map((run) => run?.state),
        ['lost'],
      );
      await fire(start + minute);
      assert.deepEqual(
        (await runs()).map((run) => run?.state),
        ['queued', 'lost'],
      );
    });

    test('is null where the tick was skipped, and where it is older than the column', async () => {
      await addTimer();
      await fire(start);
      await fire(start + minute);
      assert.deepEqual(
        (await runs()).map((run) => run?.state),
        [undefined, 'queued'],
      );
      await fixture.store.transaction((tx) => tx.updateTable('ticks').set({ run_state: null }).execute());
      assert.deepEqual(await runs(), [null, null]);
    });
  });
});
