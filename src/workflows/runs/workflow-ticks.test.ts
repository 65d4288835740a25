import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { jobRow } from '#jobs/job-store.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import { fireDueTimers, type TimerOptions } from '#schedule/fire-due-timers.ts';
import { SourceTicks } from '#schedule/source-ticks.ts';
import { deleteTimersOf, insertTimers, readTicks } from '#schedule/timer-store.ts';
import type { Store } from '#storage/store.ts';
import type { TriggerTable, WorkflowState } from '#storage/tables/workflow-tables.ts';
import { timerOfTrigger } from '#workflows/definitions/trigger-definition.ts';
import { noPlaces } from '../../../test/support/no-places.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import type { RunPreparer } from './insert-prepared.ts';
import { newRunRow } from './new-run.ts';
import type { RunTrigger } from './run.ts';
import { WorkflowTicks } from './workflow-ticks.ts';

const start = Date.parse('2026-11-21T10:00:00Z');
const minute = 60_000;
const day = 86_400_000;

/** Makes rows as they are stored, and counts those reported to be on disk. */
class RowsOnly implements RunPreparer {
  readonly stored: string[] = [];

  prepare(trigger: RunTrigger) {
    const id = newTimeOrderedId(start);
    const run = newRunRow(trigger, { id, nowMs: start, token: 'token', state: 'queued' });
    const job = jobRow({
      id,
      kind: 'run_workflow',
      ownerId: trigger.ownerId,
      lane: trigger.workflowId,
      payload: { run_id: id, workflow_id: trigger.workflowId },
      runAtMs: start,
      nowMs: start,
    });
    return { run, job, stored: () => void this.stored.push(id) };
  }
}

function timerTrigger(workflowId: string, schedule: Partial<TriggerTable> = {}): TriggerTable {
  return {
    workflow_id: workflowId,
    id: `ti_${workflowId}`,
    owner_id: 'u_1',
    kind: 'timer',
    position: 0,
    key: null,
    custom_response: 0,
    auth: null,
    interval_seconds: 60,
    cron: null,
    timezone: 'UTC',
    owned: 0,
    schedule_changed_at_ms: start,
    created_at_ms: start,
    updated_at_ms: start,
    ...schedule,
  };
}

async function addWorkflows(
  store: Store,
  ids: readonly string[],
  schedule: Partial<TriggerTable> = {},
  { state = 'active', nowMs = start }: { state?: WorkflowState; nowMs?: number } = {},
): Promise<void> {
  const workflows = ids.map((id) => ({
    id,
    owner_id: 'u_1',
    user_id: 'u_1',
    project_id: null,
    name: id,
    state,
    deployment_id: 'd_1',
    created_at_ms: start,
    updated_at_ms: start,
  }));
  const timers = ids.flatMap((id) => timerOfTrigger(timerTrigger(id, schedule), nowMs));
  await store.transaction(async (tx) => {
    await tx.insertInto('workflows').values(workflows).execute();
    await insertTimers(tx, timers);
  });
}

describe('timer triggers', () => {
  forEachStore((fixture) => {
    const timerOptions = (runs: RunPreparer, options: Partial<TimerOptions> = {}): TimerOptions => ({
      store: fixture.store,
      targets: {
        dc: new SourceTicks({
          store: fixture.store,
          pool: noPlaces(),
          hold: async (_, jobs) => [...jobs],
          onHeld: () => {},
        }),
        p: new WorkflowTicks({ store: fixture.store, runs }),
      },
      mayRun: () => true,
      ...options,
    });
    const runsOf = async (workflowId: string) =>
      fixture.store.read
        .selectFrom('runs')
        .select(['id', 'emitter_id', 'source_type', 'deployment_id', 'event'])
        .where('workflow_id', '=', workflowId)
        .orderBy('id')
        .execute();
    /** Fires whatever is due, moment by moment, up to `untilMs`; answers the times of the ticks of a workflow. */
    const liveThrough = async (workflowId: string, fromMs: number, untilMs: number, stepMs: number) => {
      const runs = new RowsOnly();
      for (let ms = fromMs; ms <= untilMs; ms += stepMs) await fireDueTimers(timerOptions(runs), ms);
      return (await runsOf(workflowId)).map(({ event }) =>
        new Date(JSON.parse(event).timestamp * 1000).toISOString(),
      );
    };

    test('a tick becomes a run of the deployment that is current, and its job, and both are reported when on disk', async () => {
      await addWorkflows(fixture.store, ['p_1']);
      const runs = new RowsOnly();
      assert.deepEqual(await fireDueTimers(timerOptions(runs), start + 5), { timers: 1, fired: 1 });
      const [run] = await runsOf('p_1');
      assert.deepEqual([run?.emitter_id, run?.source_type, run?.deployment_id], ['ti_p_1', 'TIMER', 'd_1']);
      assert.deepEqual(runs.stored, [run?.id]);
      const jobs = await fixture.store.read.selectFrom('jobs').select(['id', 'kind', 'lane']).execute();
      assert.deepEqual(jobs, [{ id: run?.id, kind: 'run_workflow', lane: 'p_1' }]);
      const event = JSON.parse(run?.event ?? '');
      assert.equal(event.timestamp, start / 1000, 'the time it was planned for');
      assert.equal(event.interval_seconds, 60);
      assert.equal(event.timezone_configured.timezone, 'UTC');
      const [tick] = await readTicks(fixture.store.read, 'p_1', { limit: 5 });
      assert.deepEqual([tick?.timer_id, tick?.outcome, tick?.planned_at_ms], ['ti_p_1', 'fired', start]);
    });

    test('a tick fires while earlier runs are still under way: timers bypass the queue', async () => {
      await addWorkflows(fixture.store, ['p_1']);
      for (let n = 0; n < 5; n += 1) await fireDueTimers(timerOptions(new RowsOnly()), start + n * minute);
      assert.equal((await runsOf('p_1')).length, 5);
    });

    test('when the transaction fails nothing was fired or reported, and the tick fires at the next pass', async () => {
      await addWorkflows(fixture.store, ['p_1']);
      const runs = new RowsOnly();
      const failing = timerOptions(runs, {
        targets: {
          dc: new SourceTicks({
            store: fixture.store,
            pool: noPlaces(),
            hold: async (_, jobs) => [...jobs],
            onHeld: () => {},
          }),
          p: {
            fire: async (tx, ticks, nowMs) => {
              await new WorkflowTicks({ store: fixture.store, runs }).fire(tx, ticks, nowMs);
              throw new Error('the power went');
            },
          },
        },
      });
      await assert.rejects(fireDueTimers(failing, start), /the power went/);
      assert.deepEqual([await runsOf('p_1'), runs.stored], [[], []]);
      assert.deepEqual(await fireDueTimers(timerOptions(runs), start), { timers: 1, fired: 1 });
      assert.deepEqual(await fireDueTimers(timerOptions(runs), start), { timers: 0, fired: 0 });
      assert.equal((await runsOf('p_1')).length, 1);
    });

    test('a workflow that is inactive or deleted no longer has a timer, and no record', async () => {
      const { store } = fixture;
      await addWorkflows(store, ['p_1'], {}, { state: 'inactive' });
      await store.transaction((tx) => insertTimers(tx, timerOfTrigger(timerTrigger('p_gone'), start)));
      assert.deepEqual(await fireDueTimers(timerOptions(new RowsOnly()), start), { timers: 2, fired: 0 });
      assert.deepEqual(await store.read.selectFrom('timers').select('id').execute(), []);
      assert.deepEqual(await store.read.selectFrom('ticks').select('timer_id').execute(), []);
    });

    test('an owner over quota: the tick is recorded as skipped, with the reason', async () => {
      await addWorkflows(fixture.store, ['p_1']);
      await fireDueTimers(timerOptions(new RowsOnly(), { mayRun: () => false }), start);
      const [tick] = await readTicks(fixture.store.read, 'p_1', { limit: 5 });
      assert.deepEqual([tick?.outcome, tick?.reason], ['skipped', 'quota_exceeded']);
      assert.deepEqual(await runsOf('p_1'), []);
    });

    test('a service asleep for a day: one late run, and the ledger counts what was missed', async () => {
      await addWorkflows(fixture.store, ['p_1'], { interval_seconds: 3600 });
      await fireDueTimers(timerOptions(new RowsOnly()), start + day);
      assert.equal((await runsOf('p_1')).length, 1);
      const ticks = await readTicks(fixture.store.read, 'p_1', { limit: 5 });
      assert.deepEqual(
        ticks.map(({ outcome, ticks: n }) => [outcome, n]),
        [
          ['missed', 24],
          ['late', 1],
        ],
      );
    });

    test('in the night that skips its hour a cron trigger fires once, at the next valid minute', async () => {
      const from = Date.parse('2026-03-28T20:00:00Z');
      const daily = { interval_seconds: null, cron: '30 2 * * *', timezone: 'Europe/Berlin' };
      await addWorkflows(fixture.store, ['p_1'], daily, { nowMs: from });
      const fired = await liveThrough('p_1', from, from + 1.3 * day, 30 * minute);
      assert.deepEqual(fired, ['2026-03-29T01:00:00.000Z', '2026-03-30T00:30:00.000Z']);
    });

    test('in the night that repeats its hour a cron trigger fires once', async () => {
      const from = Date.parse('2026-10-24T20:00:00Z');
      const daily = { interval_seconds: null, cron: '30 2 * * *', timezone: 'Europe/Berlin' };
      await addWorkflows(fixture.store, ['p_1'], daily, { nowMs: from });
      const fired = await liveThrough('p_1', from, from + 1.3 * day, 30 * minute);
      assert.deepEqual(fired, ['2026-10-25T00:30:00.000Z', '2026-10-26T01:30:00.000Z']);
      const [run] = await runsOf('p_1');
      const { timezone_configured: local, cron } = JSON.parse(run?.event ?? '');
      assert.equal(cron, '30 2 * * *');
      assert.equal(local.iso8601.timestamp, '2026-10-25T02:30:00.000+02:00');
    });

    test('a thousand triggers that are due in the same second fire in two passes', async () => {
      const { store } = fixture;
      const cron = { interval_seconds: null, cron: '0 * * * *', timezone: 'America/New_York' };
      for (let n = 0; n < 1000; n += 500)
        await addWorkflows(
          store,
          Array.from({ length: 500 }, (_, i) => `p_${n + i}`),
          cron,
        );
      const runs = new RowsOnly();
      const options = timerOptions(runs);
      const at = start + 3_600_000;
      let fired = 0;
      for (let pass = 0; pass < 2; pass += 1) fired += (await fireDueTimers(options, at)).fired;
      assert.equal(fired, 1000);
      assert.equal(new Set(runs.stored).size, 1000);
    });

    test('the ledger of a workflow with several timers pages through ticks of the same moment', async () => {
      const { store } = fixture;
      await addWorkflows(store, ['p_1']);
      await store.transaction(async (tx) => {
        await insertTimers(
          tx,
          ['ti_a', 'ti_b', 'ti_c'].map((id) => ({
            ...timerOfTrigger(timerTrigger('p_1'), start)[0],
            id,
            prop: id,
          })) as never,
        );
      });
      await fireDueTimers(timerOptions(new RowsOnly()), start);
      const seen: string[] = [];
      for (let place: { plannedMs: number; timerId: string } | undefined, pages = 0; pages < 5; pages += 1) {
        const rows = await readTicks(store.read, 'p_1', { limit: 1, ...(place && { before: place }) });
        const [row] = rows;
        if (row === undefined) break;
        seen.push(row.timer_id);
        place = { plannedMs: row.planned_at_ms, timerId: row.timer_id };
      }
      assert.deepEqual(seen, ['ti_p_1', 'ti_c', 'ti_b', 'ti_a']);
      await store.transaction((tx) => deleteTimersOf(tx, 'p_1'));
    });
  });
});
