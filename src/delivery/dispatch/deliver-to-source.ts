import type { HeldDelivery } from '#delivery/delivery.ts';
import { jobRow, leasedHere, type NewJob } from '#jobs/job-store.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { Clock } from '#lib/clock.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import { holdRun } from '#sources/hold-run.ts';
import { laneOfSource, sourceState } from '#sources/source-store.ts';
import type { WaitingRuns } from '#sources/waiting-runs.ts';
import type { Store } from '#storage/store.ts';
import { carriedTrace } from '#telemetry/span.ts';
import type { AttemptOutcome } from './delivery-retries.ts';

/** A source that has as many runs waiting as it may is asked again after this. */
const busyDelayMs = 5_000;

export interface SourceDeliveryOptions {
  store: Store;
  pool: Pick<WorkerPool, 'node' | 'hasRoom' | 'promise' | 'run' | 'goesToStore'>;
  waiting: WaitingRuns;
  clock: Clock;
  /** A run was stored that flow control has to look at. */
  onHeld: (sourceId: string) => void;
}

/**
 * Delivers to a listening source: the delivery ends as a job that calls `run(event)`, written in the same transaction.
 * From there on the promises are those of any other invocation.
 */
export async function deliverToSource(
  options: SourceDeliveryOptions,
  delivery: HeldDelivery,
): Promise<AttemptOutcome> {
  const { store, pool, waiting, clock, onHeld } = options;
  const sourceId = delivery.listenerId;
  const source = await sourceState(store.read, sourceId);
  if (source === undefined) return { kind: 'not-sent', state: 'cancelled', reason: 'listener_removed' };
  if (source.state !== 'active') return { kind: 'not-sent', state: 'skipped', reason: 'listener_inactive' };
  const lane = laneOfSource({ id: sourceId, ...source });
  const nowMs = clock.now();
  const event = delivery.body.toString();
  const job: NewJob<'run_source'> = {
    id: newTimeOrderedId(nowMs),
    kind: 'run_source',
    ownerId: source.owner_id,
    lane,
    payload: { source_id: sourceId, trigger: 'event', event, hops: delivery.hops + 1, ...carriedTrace() },
    runAtMs: nowMs,
    nowMs,
  };
  const attempt = { at: nowMs, latency_ms: 0 };
  if (source.flow_control !== null) {
    if (!(await waiting.admit(sourceId, delivery.body.length)))
      return { kind: 'postponed', delayMs: busyDelayMs };
    const held = jobRow(holdRun(job, source.flow_control));
    return { kind: 'delivered', attempt, handover: { job: held, stored: () => onHeld(sourceId) } };
  }
  if (pool.hasRoom(lane, source.owner_id)) {
    pool.promise(job.id);
    const stored = () => pool.run(leasedHere(job, delivery.body.length));
    return { kind: 'delivered', attempt, handover: { job: jobRow(job, pool.node), stored } };
  }
  if (!(await waiting.admit(sourceId, delivery.body.length)))
    return { kind: 'postponed', delayMs: busyDelayMs };
  // The next event must not run here while this one is still on its way to the store.
  const stored = pool.goesToStore(lane, source.owner_id);
  return { kind: 'delivered', attempt, handover: { job: jobRow(job), stored, refused: stored } };
}
