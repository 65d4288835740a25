import type { JobPayloads } from '#jobs/job-kinds.ts';
import { insertJobs, jobRow, type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import type { JobHandler } from '#jobs/worker-pool.ts';
import type { Clock } from '#lib/clock.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DeliveryReason, DeliveryState } from './delivery.ts';
import { changeDeliveries } from './delivery-store.ts';

/** Deliveries changed in one transaction: a hundred thousand at once would hold the store's one writer for a second. */
const batchRows = 500;

/** Reasons for which nobody can have a delivery sent again. */
const withoutReceiver: readonly (DeliveryReason | null)[] = ['listener_removed'];

type Change = JobPayloads['change_deliveries'];

/** Queues the change of many deliveries in the transaction that is the reason for it. */
export async function insertChangeJob(
  store: Pick<Store, 'notify'>,
  tx: Tx,
  { ownerId, nowMs, change }: { ownerId: string; nowMs: number; change: TypedChange },
): Promise<void> {
  const id = newTimeOrderedId(nowMs);
  await insertJobs(tx, [
    jobRow({ id, kind: 'change_deliveries', ownerId, payload: change, runAtMs: nowMs, nowMs }),
  ]);
  await store.notify(tx, 'millrace_jobs', '');
}

/** The payload with the names that it may have. */
export interface TypedChange extends Change {
  from: DeliveryState[];
  to: DeliveryState;
  reason: DeliveryReason | null;
}

/** Does it, a bounded number at a time; the job ends with the last ones, so a crash goes on where it stopped. */
export function changeDeliveriesHandler(options: {
  store: Store;
  node: string;
  clock: Clock;
  /** Deliveries of this listener may be due. */
  onQueued: (listenerId: string) => void;
}): JobHandler {
  const { store, node, clock, onQueued } = options;
  return {
    async run(job: LeasedJob) {
      const change = job.payload as TypedChange;
      const filter = {
        listenerId: change.listener_id,
        states: change.from,
        ...(change.subscription_id === undefined ? {} : { subscriptionId: change.subscription_id }),
        ...(change.replay_id === undefined ? {} : { replayId: change.replay_id }),
        ...(change.since_ms === undefined ? {} : { sinceMs: change.since_ms }),
        ...(change.until_ms === undefined ? {} : { untilMs: change.until_ms }),
      };
      for (let done = false; !done; ) {
        done = await store.transaction(async (tx) => {
          const changed = await changeDeliveries(
            tx,
            filter,
            {
              state: change.to,
              reason: change.reason,
              nowMs: clock.now(),
              dropsText: withoutReceiver.includes(change.reason),
            },
            batchRows,
          );
          if (changed >= batchRows) return false;
          await settleJobs(store, tx, { node, jobs: [job] });
          return true;
        });
        if (change.to === 'queued') onQueued(change.listener_id);
      }
    },
    async quarantined() {},
  };
}
