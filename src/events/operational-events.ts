import type { Tx } from '#storage/store.ts';
import { type EmitStore, type EventRouter, emitEvents } from './emit-event.ts';
import type { StoredEvent } from './event.ts';
import { ensureEmitter } from './event-store.ts';

/** Channels on which an owner (o_…, u_…) emits: changes to its objects that no caller asked for. */
export type OperationalChannel = 'account_unhealthy' | 'account_healthy';

/**
 * Emits an event of an owner: the owner itself is the emitter, from its first event on. Runs in the transaction of the change that it
 * reports; the caller publishes the result on the bus after the commit. `event` must hold no secret.
 */
export async function emitOperationalEvent(
  store: EmitStore,
  tx: Tx,
  emitted: {
    ownerId: string;
    channel: OperationalChannel;
    summary: string;
    event: Record<string, unknown>;
    router: EventRouter;
    nowMs: number;
  },
): Promise<StoredEvent[]> {
  const { ownerId, channel, summary, event, router, nowMs } = emitted;
  await ensureEmitter(tx, { id: ownerId, ownerId });
  const [result] = await emitEvents(store, tx, {
    emissions: [
      { emitterId: ownerId, hops: 0, events: [{ channel, summary, event: JSON.stringify(event) }] },
    ],
    router,
    nowMs,
  });
  return result?.accepted === true ? result.stored : [];
}
