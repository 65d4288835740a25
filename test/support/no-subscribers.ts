import {
  type Emission,
  type EmissionResult,
  type EmitStore,
  type EventRouter,
  emitEvents,
} from '#events/emit-event.ts';
import type { Tx } from '#storage/store.ts';

/** For events that nobody has subscribed to. */
export const noSubscribers: EventRouter = { route: async () => {} };

/** Emits events that nobody has subscribed to. */
export function emitUnheard(
  store: EmitStore,
  tx: Tx,
  emissions: readonly Emission[],
  nowMs: number,
): Promise<EmissionResult[]> {
  return emitEvents(store, tx, { emissions, router: noSubscribers, nowMs });
}
