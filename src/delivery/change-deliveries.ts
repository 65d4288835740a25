import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { insertJobs, jobRow, type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { FairQueue } from '#lib/fair-queue.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DeliveryReason } from '#storage/tables/delivery-tables.ts';
import { deadStates, deliveryWorkLane, openStates } from './delivery.ts';
import {
  changeDeliveries,
  type DeliveryFilter,
  type DeliveryPlace,
  dropTexts,
  findDeliveries,
} from './delivery-store.ts';

/** Deliveries changed in one transaction: a hundred thousand at once would hold the store's one writer for a second. */
const batchRows = 500;

/** Reasons with which a delivery cannot be sent again. */
const withoutReceiver: readonly (DeliveryReason | null)[] = ['listener_removed'];

type Change = JobPayloads['change_deliveries'];

/** Queues the change of many deliveries in the transaction that is the reason for it. */
export async function insertChangeJob(
  store: Pick<Store, 'notify'>,
  tx: Tx,
  options: { ownerId: string; nowMs: number; change: Change /** Default now. */; runAtMs?: number },
): Promise<void> {
  const { ownerId, nowMs, change, runAtMs = nowMs } = options;
  const id = newTimeOrderedId(nowMs);
  const lane = deliveryWorkLane(ownerId);
  await insertJobs(tx, [
    jobRow({ id, kind: 'change_deliveries', ownerId, lane, payload: change, runAtMs, nowMs }),
  ]);
  await store.notify(tx, 'millrace_jobs', '');
}

/**
 * When a webhook was resumed, or a listener or subscription removed, commits that were under way, and other nodes for some
 * seconds, may still leave deliveries behind that go by what it was before. So the change is made at these times after it.
 */
const looksMs = [0, 10_000, 60_000];

/** Queues a change of all deliveries of some kind, also of those that come about a little later. */
export async function changeEventually(
  store: Pick<Store, 'notify'>,
  tx: Tx,
  options: { ownerId: string; nowMs: number; change: Change },
): Promise<void> {
  for (const lookMs of looksMs)
    await insertChangeJob(store, tx, { ...options, runAtMs: options.nowMs + lookMs });
}

/**
 * Changes the deliveries, a bounded number at a time, oldest first. It searches outside of transactions: a search through a
 * hundred thousand would hold the store's one writer. After a crash it starts over, and finds only what is left.
 */
export function changeDeliveriesHandler(options: {
  store: Store;
  node: string;
  clock: Clock;
  /** Long work takes turns, one batch of an owner after another. */
  turns: FairQueue;
  /** These deliveries were changed: what this node has of them in memory is no longer valid. */
  onChanged: (listenerId: string, ids: ReadonlySet<string>) => void;
  /** Deliveries of this listener may be due. */
  onQueued: (listenerId: string) => void;
  /** So many of a listener's ended otherwise than by being delivered. */
  onEnded: (listenerId: string, count: number) => void;
}): JobHandler {
  const { store, node, clock, turns, onChanged, onQueued, onEnded } = options;

  /** Everything that the filter names when its turn comes. */
  const forEachBatch = async (
    ownerId: string,
    filter: DeliveryFilter,
    signal: AbortSignal,
    work: (ids: string[]) => Promise<unknown>,
  ) => {
    let after: DeliveryPlace | undefined;
    do {
      after = await turns.run(ownerId, async () => {
        // What is left is done after the next start.
        signal.throwIfAborted();
        const found = await findDeliveries(store.read, filter, { after, limit: batchRows });
        if (found.length > 0) await work(found.map(({ id }) => id));
        return found.length < batchRows ? undefined : found.at(-1);
      });
    } while (after !== undefined);
  };

  return {
    async run(job: LeasedJob, signal: AbortSignal) {
      const change = job.payload as Change;
      const { from, to, reason } = change;
      const filter = filterOf(change);
      const isEnd = !openStates.some((state) => state === to);
      await forEachBatch(job.ownerId, filter, signal, async (ids) => {
        const changed = await store.transaction((tx) =>
          changeDeliveries(tx, ids, { from, to, reason, nowMs: clock.now() }),
        );
        onChanged(change.listener_id, new Set(ids));
        if (to === 'queued') onQueued(change.listener_id);
        if (isEnd) onEnded(change.listener_id, changed);
      });
      if (withoutReceiver.includes(reason))
        await forEachBatch(job.ownerId, { ...filter, states: deadStates, withText: true }, signal, (ids) =>
          store.transaction((tx) => dropTexts(tx, ids)),
        );
      await turns.run(job.ownerId, () =>
        store.transaction((tx) => settleJobs(store, tx, { node, jobs: [job] })),
      );
    },
    async quarantined() {},
  };
}

function filterOf(change: Change): DeliveryFilter {
  const { subscription_id, replay_id, since_ms, until_ms } = change;
  return {
    listenerId: change.listener_id,
    states: change.from,
    ...(subscription_id === undefined ? {} : { subscriptionId: subscription_id }),
    ...(replay_id === undefined ? {} : { replayId: replay_id }),
    ...(since_ms === undefined ? {} : { sinceMs: since_ms }),
    ...(until_ms === undefined ? {} : { untilMs: until_ms }),
    withText: change.to === 'queued',
  };
}
