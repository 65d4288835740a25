import {
  batchEvent,
  type FlowSubject,
  type FlowTarget,
  type MergedRuns,
  type QueueOwner,
  type UnbegunEnd,
} from '#flow-control/flow-target.ts';
import { recordUnbegun } from '#flow-control/unbegun-store.ts';
import { heldPayloads, isUnfinishedJob, setHeldPayload } from '#jobs/held-job-store.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import { deleteJobsOf, lockJobOf } from '#jobs/run-job-store.ts';
import type { Clock } from '#lib/clock.ts';
import { isTickJob } from '#schedule/source-ticks.ts';
import { recordTickEnds } from '#schedule/timer-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { FlowRunTable } from '#storage/tables/flow-tables.ts';
import { laneOfSource, sourceState } from './source-store.ts';

/** Begins a notice on the channel of jobs that a run of a source was replaced; the id of its job follows. */
export const replacedNotice = 'replaced:';

type Payload = JobPayloads['run_source'];

/** Flow control of sources. A run is its job: it ends with it, and one whose job is removed stores nothing. */
export class SourceFlowTarget implements FlowTarget {
  readonly isUnfinished = isUnfinishedJob;
  readonly #store: Dialect & Pick<Store, 'defer' | 'notify'>;
  readonly #clock: Clock;

  constructor(options: { store: Dialect & Pick<Store, 'defer' | 'notify'>; clock: Clock }) {
    this.#store = options.store;
    this.#clock = options.clock;
  }

  async find(tx: Tx, id: string): Promise<FlowSubject | undefined> {
    const source = await sourceState(tx, id);
    if (source === undefined) return undefined;
    return {
      ownerId: source.owner_id,
      flowControl: source.flow_control,
      lane: laneOfSource({ id, ...source }),
      // Runs that wait in a lane behind each other would begin later than a limit has counted them.
      ...(source.flow_control === null ? {} : { placesMax: source.concurrency }),
    };
  }

  /** A source has no record of its runs: the queue shows it while they wait. */
  async keepWarning(): Promise<void> {}

  async merge(
    tx: Tx,
    rows: readonly Pick<FlowRunTable, 'run_id'>[],
    { key }: { key: string },
  ): Promise<MergedRuns> {
    const ids = rows.map(({ run_id }) => run_id);
    const payloads = await heldPayloads(tx, ids);
    const merged = ids.flatMap((id) => {
      const payload = payloads.get(id) as Payload | undefined;
      return payload === undefined ? [] : [{ id, payload }];
    });
    const [leader, ...others] = merged;
    if (leader === undefined) return { leaderId: undefined, mergedIds: [], bytes: 0 };
    const event = batchEvent(
      merged.map(({ payload }) => payload.event ?? 'null'),
      key,
    );
    const hops = Math.max(...merged.map(({ payload }) => payload.hops));
    await setHeldPayload(tx, leader.id, { ...leader.payload, event, hops });
    if (others.length > 0)
      await deleteJobsOf(
        tx,
        others.map(({ id }) => id),
      );
    return { leaderId: leader.id, mergedIds: merged.map(({ id }) => id), bytes: event.length };
  }

  async keepUnbegun(tx: Tx, subject: QueueOwner, ends: readonly UnbegunEnd[], nowMs: number): Promise<void> {
    await this.#endTicks(tx, ends, nowMs);
    await deleteJobsOf(
      tx,
      ends.map(({ runId }) => runId),
    );
    await recordUnbegun(tx, subject, ends, nowMs);
  }

  async cancel(tx: Tx, subject: QueueOwner, end: UnbegunEnd): Promise<{ stored: [] } | undefined> {
    if ((await lockJobOf(this.#store, tx, end.runId)) === undefined) return undefined;
    await this.keepUnbegun(tx, subject, [end], this.#clock.now());
    await this.#store.notify(tx, 'millrace_jobs', `${replacedNotice}${end.runId}`);
    return { stored: [] };
  }

  /** The ledger of a timer says how each of its runs ended. */
  async #endTicks(tx: Tx, ends: readonly UnbegunEnd[], nowMs: number): Promise<void> {
    const reasons = new Map(
      ends.filter(({ runId }) => isTickJob(runId)).map((end) => [end.runId, end.reason]),
    );
    if (reasons.size === 0) return;
    const payloads = await heldPayloads(tx, [...reasons.keys()]);
    const ticks = [...payloads].flatMap(([id, payload]) => {
      const { source_id: subjectId, tick } = payload as Payload;
      if (tick === undefined) return [];
      const { timer_id: timerId, planned_ms: plannedMs } = tick;
      return [{ subjectId, timerId, plannedMs, failure: reasons.get(id) ?? null, endedAtMs: nowMs }];
    });
    await recordTickEnds(this.#store, tx, ticks);
  }
}
