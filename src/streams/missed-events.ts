import type { StoredEvent } from '#events/event.ts';
import { compareEventIds, type EventId } from '#events/event-id.ts';
import { eventBatches, placesAfter } from '#events/event-page-store.ts';
import { hasEvent, retainedMax } from '#events/event-store.ts';
import type { Db } from '#storage/store.ts';

export interface MissedRange {
  emitterId: string;
  channel: string;
  /** Exclusive. */
  after: EventId;
  /** Inclusive. */
  upTo: EventId;
  /** The last event of this channel that was sent, where that is known: if it is still kept, nothing behind it is gone. */
  lastSent?: EventId | undefined;
}

/** The stored events of a range, in order and a bounded amount at a time; `'gap'` marks where some may be missing. */
export async function* missedEvents(db: Db, range: MissedRange): AsyncGenerator<StoredEvent[] | 'gap'> {
  const { emitterId, channel, upTo } = range;
  let { after, lastSent = after } = range;
  // Once, not again before the next event.
  let toldOfGap = false;
  for (;;) {
    const found = await placesAfter(db, { emitterId, channel, after, limit: retainedMax });
    const isPage = found.length >= retainedMax;
    // Pruning leaves the newest: where fewer are, it took none of them.
    if (isPage && !toldOfGap && !(await hasEvent(db, { emitterId, channel, id: lastSent }))) {
      yield 'gap';
      toldOfGap = true;
    }
    const places = found.filter((place) => compareEventIds(place, upTo) <= 0);
    for await (const batch of eventBatches(db, { emitterId, channel }, places)) {
      // Pruned or deleted while the batches before were sent.
      if (batch.events.length < batch.places.length && !toldOfGap) yield 'gap';
      toldOfGap = batch.events.length === 0;
      yield batch.events;
    }
    const last = places.at(-1);
    if (!isPage || last === undefined || places.length < found.length) return;
    after = last;
    lastSent = last;
  }
}
