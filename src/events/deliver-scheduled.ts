import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import type { Clock } from '#lib/clock.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import type { Store } from '#storage/store.ts';
import { carriedTrace } from '#telemetry/span.ts';
import { type EventRouter, emitEvents } from './emit-event.ts';
import { channels, type StoredEvent } from './event.ts';
import type { EventBus } from './event-bus.ts';
import { deleteEventRange, readScheduledEvent } from './event-store.ts';

/** An event that waited so long begins a new chain of events: sources may run by timer as often. */
const restingMs = 15_000;

/**
 * Transactions at the same time, of all owners and of one. Those of an embedded store wait for each other in the order of their requests: of
 * thousands of events that were due in one second, hundreds were in line before each write of another owner.
 */
const atOnce = 4;
const atOnceOfOwner = 2;

/**
 * Moves an event whose `delivery_ts` has come from `$in` to its channel, with a new id: leaving `$in`, entering the
 * channel and the end of the job are one transaction. An event that was deleted from `$in` meanwhile is not delivered.
 */
export function deliverScheduledHandler(options: {
  store: Store;
  node: string;
  bus: EventBus;
  router: EventRouter;
  clock: Clock;
}): JobHandler {
  const { store, node, bus, router, clock } = options;
  const turns = new FairQueue(atOnce, { perAsker: atOnceOfOwner });
  return {
    async run(job: LeasedJob, signal: AbortSignal) {
      const stored = await turns.run(job.ownerId, () => {
        signal.throwIfAborted();
        return move(job);
      });
      bus.publish(stored);
    },
    async quarantined() {},
  };

  function move(job: LeasedJob): Promise<StoredEvent[]> {
    const { emitter_id, ms, seq } = job.payload as JobPayloads['deliver_scheduled_event'];
    return store.transaction(async (tx) => {
      const held = await settleJobs(store, tx, { node, jobs: [job] });
      const waiting = await readScheduledEvent(tx, emitter_id, { ms, seq });
      if (!held.has(job.id) || waiting === undefined) return [];
      const id = { ms, seq };
      await deleteEventRange(tx, {
        emitterId: emitter_id,
        channel: channels.scheduled,
        start: id,
        end: id,
        limit: 1,
      });
      const emission = {
        emitterId: emitter_id,
        // A chain that takes its time is not one that runs away.
        ...carriedTrace(),
        hops: (waiting.deliver_at_ms ?? ms) - ms >= restingMs ? 0 : waiting.hops,
        events: [
          {
            channel: waiting.deliver_channel ?? channels.default,
            event: waiting.event,
            waited: true,
            ...(waiting.given_id === null ? {} : { id: waiting.given_id }),
            ...(waiting.summary === null ? {} : { summary: waiting.summary }),
            ...(waiting.ts_ms === null ? {} : { ts: waiting.ts_ms }),
          },
        ],
      };
      const [result] = await emitEvents(store, tx, { emissions: [emission], router, nowMs: clock.now() });
      return result?.accepted === true ? result.stored : [];
    });
  }
}
