import type { StoredEvent } from '#events/event.ts';
import { eventBatches, type PageOptions, pageOfPlaces } from '#events/event-page-store.ts';
import type { Db } from '#storage/store.ts';

/** A page of whole events, newest first. */
export async function readEvents(db: Db, options: PageOptions): Promise<StoredEvent[]> {
  const places = await pageOfPlaces(db, options);
  const batches = await Array.fromAsync(eventBatches(db, options, places));
  return batches.flatMap(({ events }) => events);
}
