import type { EmitStore, EventRouter } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import type { FlowSubject, FlowTarget, QueueOwner, UnbegunEnd } from '#flow-control/flow-target.ts';
import { lockJobOf } from '#jobs/run-job-store.ts';
import { sharedLane } from '#jobs/shared-lane.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store, Tx } from '#storage/store.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { endLockedRun } from '#workflows/runs/end-run.ts';
import { isTerminal } from '#workflows/runs/run.ts';
import { cancelNotice } from '#workflows/runs/run-notices.ts';
import { lockRun, setFlowWarning } from '#workflows/runs/run-store.ts';
import { mergeRuns } from './batch-store.ts';
import { isUnfinishedRun, keepUnbegun } from './unbegun-run-store.ts';

export interface RunFlowTargetOptions {
  store: EmitStore & Pick<Store, 'lockRows' | 'transaction'>;
  router: EventRouter;
  clock: Clock;
}

/** Flow control of workflows. */
export class RunFlowTarget implements FlowTarget {
  readonly isUnfinished = isUnfinishedRun;
  readonly merge = mergeRuns;
  readonly #options: RunFlowTargetOptions;

  constructor(options: RunFlowTargetOptions) {
    this.#options = options;
  }

  async find(tx: Tx, id: string): Promise<FlowSubject | undefined> {
    const workflow = await findWorkflow(tx, id);
    if (workflow === undefined) return undefined;
    return { ownerId: workflow.owner_id, flowControl: workflow.flow_control, lane: sharedLane(id) };
  }

  readonly keepWarning = setFlowWarning;

  async keepUnbegun(tx: Tx, _: QueueOwner, ends: readonly UnbegunEnd[], nowMs: number): Promise<void> {
    await keepUnbegun(tx, ends, nowMs);
  }

  async cancel(
    tx: Tx,
    _: QueueOwner,
    { runId, reason }: UnbegunEnd,
  ): Promise<{ stored: StoredEvent[] } | undefined> {
    const { store } = this.#options;
    await lockJobOf(store, tx, runId);
    const run = await lockRun(store, tx, runId);
    if (run === undefined || isTerminal(run)) return undefined;
    const end = { state: 'cancelled', reason, notice: `${cancelNotice}${runId}` } as const;
    return { stored: await endLockedRun(this.#options, tx, run, end) };
  }
}
