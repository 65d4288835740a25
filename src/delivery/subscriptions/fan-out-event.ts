import { insertDeliveries } from '#delivery/delivery-store.ts';
import { endFanning, payloadQuery } from '#delivery/dispatch/payload-store.ts';
import type { WaitingDeliveries } from '#delivery/dispatch/waiting-deliveries.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { continueJob, heldJobQuery, type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { FairQueue } from '#lib/fair-queue.ts';
import type { Store } from '#storage/store.ts';
import {
  type DeliveryRoom,
  type FanOutBounds,
  makeDeliveries,
  type RoutedDeliveries,
  routedDeliveries,
} from './find-subscribers.ts';
import {
  nextPageOfSubscribers,
  pageOfSubscribersQuery,
  type SubscriberCursor,
} from './subscription-store.ts';

/**
 * Makes the deliveries of an event that has very many subscribers, a page in a transaction, with which the job notes where the next page begins.
 * A listener that subscribes meanwhile may get the event too.
 *
 * A page asks the store twice: other commits wait for it, and a busy event loop is late for each answer.
 */
export function fanOutHandler(options: {
  store: Store;
  node: string;
  clock: Clock;
  /** Long work takes turns, one transaction of an owner after another. */
  turns: FairQueue;
  room: DeliveryRoom;
  waiting: WaitingDeliveries;
  bounds: Readonly<FanOutBounds>;
  onRouted: (routed: RoutedDeliveries) => void;
}): JobHandler {
  const { store, node, clock, turns, room, waiting, bounds, onRouted } = options;

  /** Undefined: the job is another node's, or there is nothing left to send. */
  const makePage = async (
    job: LeasedJob,
    after: SubscriberCursor,
  ): Promise<{ routed: RoutedDeliveries; next: SubscriberCursor | undefined } | undefined> => {
    const payload = job.payload as JobPayloads['fan_out_event'];
    const emitted = { ownerId: payload.owner_id, emitterId: payload.emitter_id, channel: payload.channel };
    const page = { after, limit: bounds.pageRows };
    const nowMs = clock.now();
    return store.transaction(async (tx) => {
      const { held, texts, subscribers } = await store.ask(tx, {
        held: heldJobQuery(store, tx, { node, job }),
        texts: payloadQuery(tx, payload.emit_id),
        subscribers: pageOfSubscribersQuery(tx, emitted, page),
      });
      if (held.length === 0) return undefined;
      const text = texts[0]?.event;
      if (text === undefined) {
        await settleJobs(store, tx, { node, jobs: [job] });
        return undefined;
      }
      const event = { ...payload, event: text };
      const places = room.places();
      const rows = makeDeliveries({ subscribers, event, nowMs, node, places, waiting });
      await insertDeliveries(store, tx, rows);
      const next = nextPageOfSubscribers(emitted, page, subscribers);
      if (next === undefined) {
        await settleJobs(store, tx, { node, jobs: [job] });
        await endFanning(tx, payload.emit_id);
      } else await continueJob(store, tx, { id: job.id, payload: { ...payload, after: next }, nowMs });
      return { routed: routedDeliveries(rows, event), next };
    });
  };

  return {
    async run(job, signal) {
      let after: SubscriberCursor | undefined = (job.payload as JobPayloads['fan_out_event']).after;
      while (after !== undefined) {
        const from: SubscriberCursor = after;
        const page = await turns.run(job.ownerId, () => {
          signal.throwIfAborted();
          return makePage(job, from);
        });
        if (page !== undefined) onRouted(page.routed);
        after = page?.next;
      }
    },
    async quarantined() {},
  };
}
