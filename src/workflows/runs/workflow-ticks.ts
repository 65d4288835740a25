import type { DueTick, FiredTicks, TickOutcome, TickTarget } from '#schedule/tick-target.ts';
import { triggerEvent } from '#schedule/timer-event.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { Store, Tx } from '#storage/store.ts';
import { insertPrepared, type PreparedRows, type RunPreparer } from './insert-prepared.ts';
import { activeWorkflows } from './timer-trigger-store.ts';

/**
 * Timers of workflows become runs, in the transaction that moves the timers on. An earlier run that is still under way holds
 * none of them up: timers bypass the queue of a workflow. An inactive workflow has no timers.
 */
export class WorkflowTicks implements TickTarget {
  readonly #store: Dialect & Pick<Store, 'defer' | 'notify'>;
  readonly #runs: RunPreparer;

  constructor(options: { store: Dialect & Pick<Store, 'defer' | 'notify'>; runs: RunPreparer }) {
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
      const rows = this.#runs.prepare({
        workflowId: workflow.id,
        ownerId: workflow.owner_id,
        deploymentId: workflow.deployment_id,
        flowControl: workflow.flow_control,
        emitterId: timer.prop,
        sourceType: 'TIMER',
        event: JSON.stringify(triggerEvent(schedule, timer.timezone, timer.next_at_ms)),
        hops: 0,
      });
      outcomes.push({ kind: 'fired', runId: rows.run.id });
      prepared.push(rows);
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
