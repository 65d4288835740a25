import { nextOccurrence, type Schedule } from '#schedule/next-occurrence.ts';
import type { DueTick, FiredTicks, TickOutcome, TickTarget } from '#schedule/tick-target.ts';
import { triggerEvent } from '#schedule/timer-event.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { TimerTable } from '#storage/tables/source-tables.ts';
import type { TriggerTable } from '#storage/tables/workflow-tables.ts';
import { insertPrepared, type PreparedRows, type RunPreparer } from './insert-prepared.ts';
import { activeWorkflows } from './timer-trigger-store.ts';

/**
 * Timers of workflows become runs, in the transaction that moves the timers on. An earlier run that still goes on holds
 * none of them up: timers bypass the queue of a workflow. A workflow that is not active has no timers any more.
 */
export class WorkflowTicks implements TickTarget {
  readonly #store: Pick<Store, 'name' | 'defer' | 'notify'>;
  readonly #runs: RunPreparer;

  constructor(options: { store: Pick<Store, 'name' | 'defer' | 'notify'>; runs: RunPreparer }) {
    this.#store = options.store;
    this.#runs = options.runs;
  }

  async fire(tx: Tx, ticks: readonly DueTick[], _nowMs: number): Promise<FiredTicks> {
    const ids = [...new Set(ticks.map(({ timer }) => timer.subject_id))];
    const workflows = new Map((await activeWorkflows(tx, ids)).map((row) => [row.id, row]));
    const outcomes: TickOutcome[] = [];
    const prepared: PreparedRows[] = [];
    for (const { timer, schedule } of ticks) {
      const workflow = workflows.get(timer.subject_id);
      if (workflow === undefined) {
        outcomes.push({ kind: 'gone' });
        continue;
      }
      outcomes.push({ kind: 'fired' });
      prepared.push(
        this.#runs.prepare({
          workflowId: workflow.id,
          ownerId: workflow.owner_id,
          deploymentId: workflow.deployment_id,
          emitterId: timer.prop,
          sourceType: 'TIMER',
          event: JSON.stringify(triggerEvent(schedule, timer.timezone, timer.next_at_ms)),
          hops: 0,
        }),
      );
    }
    await insertPrepared(this.#store, tx, prepared);
    return {
      outcomes,
      committed: () => {
        for (const { stored } of prepared) stored();
      },
    };
  }
}

/** The schedule of a timer trigger. */
export function scheduleOfTrigger(
  trigger: Pick<TriggerTable, 'interval_seconds' | 'cron' | 'timezone'>,
): Schedule {
  return trigger.cron === null
    ? { intervalSeconds: trigger.interval_seconds ?? 0 }
    : { cron: trigger.cron, timezone: trigger.timezone };
}

/**
 * The timers of a workflow that becomes active now, from its triggers (those of other kinds have none). As for sources an
 * interval fires at once and cron at its first occurrence; a cron expression that never fires again has no timer.
 */
export function timersOfTriggers(triggers: readonly TriggerTable[], nowMs: number): TimerTable[] {
  return triggers.flatMap((trigger) => {
    if (trigger.kind !== 'timer') return [];
    const schedule = scheduleOfTrigger(trigger);
    const firstMs = 'cron' in schedule ? nextOccurrence(schedule, nowMs, nowMs) : nowMs;
    if (firstMs === undefined) return [];
    return [
      {
        id: trigger.id,
        subject_id: trigger.workflow_id,
        owner_id: trigger.owner_id,
        prop: trigger.id,
        interval_seconds: trigger.interval_seconds,
        cron: trigger.cron,
        timezone: trigger.timezone,
        next_at_ms: firstMs,
        schedule_changed_at_ms: trigger.schedule_changed_at_ms,
        created_at_ms: nowMs,
        updated_at_ms: nowMs,
      },
    ];
  });
}
