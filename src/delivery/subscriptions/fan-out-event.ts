import { deliveryWorkLane } from '#delivery/delivery.ts';
import { insertDeliveries } from '#delivery/delivery-store.ts';
import { endFanning, readPayload } from '#delivery/dispatch/payload-store.ts';
import type { WaitingDeliveries } from '#delivery/dispatch/waiting-deliveries.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { insertJobs, jobRow, type LeasedJob, settleJobs } from '#jobs/job-store.ts';
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
import { pageOfSubscribers } from './subscription-store.ts';

/**
 * Makes the deliveries of an event that has very many subscribers, a page in a transaction, and with each page the job
 * that continues after it. A listener that subscribes meanwhile may get the event too.
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

  const makePage = async (job: LeasedJob): Promise<RoutedDeliveries | undefined> => {
    const payload = job.payload as JobPayloads['fan_out_event'];
    const nowMs = clock.now();
    return store.transaction(async (tx) => {
      const text = await readPayload(tx, payload.emit_id);
      const held = await settleJobs(store, tx, { node, jobs: [job] });
      if (text === undefined || !held.has(job.id)) return undefined;
      const { owner_id, emitter_id, channel, after } = payload;
      const page = await pageOfSubscribers(
        tx,
        { ownerId: owner_id, emitterId: emitter_id, channel },
        { after, limit: bounds.pageRows },
      );
      const event = { ...payload, event: text };
      const { subscribers, next } = page;
      const places = room.places();
      const rows = makeDeliveries({ subscribers, event, nowMs, node, places, waiting });
      await insertDeliveries(store, tx, rows);
      const routed = routedDeliveries(rows, event);
      if (next === undefined) {
        await endFanning(tx, payload.emit_id);
        return routed;
      }
      const following = { ...payload, after: next };
      await insertJobs(tx, [
        jobRow({
          id: job.id,
          kind: 'fan_out_event',
          ownerId: owner_id,
          lane: deliveryWorkLane(owner_id),
          payload: following,
          runAtMs: nowMs,
          nowMs,
        }),
      ]);
      return { ...routed, hasJob: true };
    });
  };

  return {
    async run(job, signal) {
      const routed = await turns.run(job.ownerId, () => {
        signal.throwIfAborted();
        return makePage(job);
      });
      if (routed !== undefined) onRouted(routed);
    },
    async quarantined() {},
  };
}
