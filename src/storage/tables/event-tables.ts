/**
 * What must be known of an emitter to accept its next event. Locked and rewritten in the transaction that stores
 * events, so ids strictly increase whatever the clock does and however many events were deleted.
 */
export interface EmitterTable {
  id: string;
  owner_id: string;
  /** The highest event id ever given: `<last_ms>-<last_seq>`. */
  last_ms: number;
  last_seq: number;
  /** JSON: dedupe state by channel. */
  dedupe: string;
}

/** `$.service.db` of a source. Apart from `emitters`, so that an event does not rewrite a large db. */
export interface ComponentDbTable {
  source_id: string;
  owner_id: string;
  /** JSON object: JSON text by key. */
  db: string;
}

/** The event log. `(emitter_id, channel, ms, seq)` is the key; `(emitter_id, ms, seq)` never repeats. */
export interface EventTable {
  emitter_id: string;
  /** '' default, $errors, $logs, $in (waiting for `deliver_at_ms`), or a name given by the emitter. */
  channel: string;
  ms: number;
  seq: number;
  owner_id: string;
  /** metadata.emit_id */
  emit_id: string;
  /** The id given in the metadata of $emit; metadata.id. */
  given_id: string | null;
  summary: string | null;
  /** ts given in the metadata, epoch ms. */
  ts_ms: number | null;
  /** JSON text of the emitted value. */
  event: string;
  /** Only in $in: the channel to be delivered on, and when. */
  deliver_channel: string | null;
  deliver_at_ms: number | null;
  /** How many emitters this event's cause has passed through. */
  hops: number;
}
