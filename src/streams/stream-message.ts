import { eventMessageJson, type StoredEvent } from '#events/event.ts';
import { type EventId, formatEventId } from '#events/event-id.ts';

/** Made once for all readers of an event: as bytes, which are written without being encoded again for each of them. */
const messages = new WeakMap<StoredEvent, Buffer>();

/** The message of an event in the stream of its emitter, where the id of the event is the place to resume from. */
export function emitterMessage(event: StoredEvent): Buffer {
  const known = messages.get(event);
  if (known !== undefined) return known;
  const message = Buffer.from(`id: ${formatEventId(event)}\n${dataOf(event)}`);
  messages.set(event, message);
  return message;
}

/** The message of an event in a stream of many emitters, where only some carry an id: `mark`. */
export function workspaceMessage(event: StoredEvent, mark: string | undefined): Buffer {
  return Buffer.from(mark === undefined ? dataOf(event) : `id: ${mark}\n${dataOf(event)}`);
}

/** Says that events after this one may be gone. Like everything but events, it carries no id. */
export function gapMessage(after: EventId | undefined, emitterId?: string): Buffer {
  const gap = {
    ...(emitterId === undefined ? {} : { emitter_id: emitterId }),
    ...(after === undefined ? {} : { after: formatEventId(after) }),
    reason: 'events after this one may have been removed',
  };
  return Buffer.from(`event: gap\ndata: ${JSON.stringify(gap)}\n\n`);
}

function dataOf(event: StoredEvent): string {
  return `data: ${eventMessageJson(event)}\n\n`;
}
