import type { EventTable } from '#storage/tables/event-tables.ts';
import { type EventId, formatEventId } from './event-id.ts';

/** Channels with a meaning of their own; every other name is the emitter's. */
export const channels = { default: '', errors: '$errors', logs: '$logs', scheduled: '$in' } as const;

/** An event as it is kept. */
export type StoredEvent = EventTable & {
  /** The id its emitter gave before this one, on whichever channel; known of events that were just stored. */
  previous?: EventId;
  /** Size of the whole event, where `event` holds no more than its beginning. */
  bytes?: number;
  /** The `traceparent` of the span that emitted it; known of events that were just stored. */
  trace?: string;
  /** Hands the deliveries that the event's routing made to the dispatcher once the event is on disk: `EventBus.publish` calls it. */
  handOver?: (() => void) | undefined;
};

/** Without `expand=event`, larger events are cut (specification, section 8). */
export const inlineBytesMax = 1024;
const cutBytes = 1000;

/**
 * The JSON text of an event summary (specification, section 2). What a workflow emits is in `event.raw_event`. The
 * stored JSON is placed into it as it is: it was valid when it was stored, and parsing it to print it again would be most
 * of the cost.
 */
export function eventSummaryJson(event: StoredEvent, options: { expand: boolean }): string {
  const id = formatEventId(event);
  const metadata = metadataJson(event);
  const placed = (json: string) => (isEmittedByWorkflow(event) ? `{"raw_event":${json}}` : json);
  if (options.expand || (event.bytes ?? Buffer.byteLength(event.event)) <= inlineBytesMax) {
    return `{"id":"${id}","indexed_at_ms":${event.ms},"event":${placed(event.event)},"metadata":${metadata}}`;
  }
  // `stream` leaves out the character that the cut went through, and only that.
  const cut = new TextDecoder().decode(Buffer.from(event.event).subarray(0, cutBytes), { stream: true });
  return `{"id":"${id}","indexed_at_ms":${event.ms},"event":${placed(JSON.stringify(cut))},"truncated":true,"metadata":${metadata}}`;
}

/** True when an emit call of a workflow made the event. Events on the service's own channels are about the workflow. */
function isEmittedByWorkflow({ emitter_id, channel }: StoredEvent): boolean {
  return emitter_id.startsWith('p_') && channel !== channels.errors && channel !== channels.logs;
}

/** The data line of an SSE message: one line, whatever is stored, because a second one would be a message of its own. */
export function eventMessageJson(event: StoredEvent): string {
  return `{"event":${oneLine(event.event)},"id":"${formatEventId(event)}","indexed_at_ms":${event.ms},"metadata":${metadataJson(event)}}`;
}

/** JSON text without line breaks. Inside its strings they are escaped, so that raw ones only stand between tokens. */
export function oneLine(json: string): string {
  return /[\r\n]/.test(json) ? json.replace(/[\r\n]/g, ' ') : json;
}

function metadataJson(event: StoredEvent): string {
  const metadata: Record<string, unknown> = {
    emit_id: event.emit_id,
    name: event.channel,
    emitter_id: event.emitter_id,
  };
  if (event.given_id !== null) metadata.id = event.given_id;
  if (event.summary !== null) metadata.summary = event.summary;
  if (event.ts_ms !== null) metadata.ts = event.ts_ms;
  if (event.deliver_at_ms !== null) metadata.delivery_ts = event.deliver_at_ms;
  return JSON.stringify(metadata);
}
