import { CompiledQuery } from 'kysely';
import {
  type Emission,
  type EmissionResult,
  type EmitStore,
  type EventRouter,
  emitEvents,
} from '#events/emit-event.ts';
import type { Tx } from '#storage/store.ts';

/** For events without subscribers. */
export const noSubscribers: EventRouter = {
  prefetchSubscribers: (emitted) => ({ emitted, query: CompiledQuery.raw('select 1 as nobody') }),
  routeEvents: async () => new Map(),
};

/** Emits events without subscribers. */
export function emitUnheard(
  store: EmitStore,
  tx: Tx,
  emissions: readonly Emission[],
  nowMs: number,
): Promise<EmissionResult[]> {
  return emitEvents(store, tx, { emissions, router: noSubscribers, nowMs });
}
