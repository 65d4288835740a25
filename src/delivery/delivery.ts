import type { DeliveryState, DeliveryTable } from '#storage/tables/delivery-tables.ts';

/** States of deliveries that have not ended. */
export const openStates = ['queued', 'held'] as const satisfies readonly DeliveryState[];

/** States of dead letters: they ended without having been delivered, and can be redelivered. */
export const deadStates = [
  'failed',
  'blocked',
  'dropped',
  'skipped',
  'cancelled',
  'expired',
] as const satisfies readonly DeliveryState[];

/** A delivery that this node has in memory, with the text of its event. */
export interface HeldDelivery {
  id: string;
  ownerId: string;
  listenerId: string;
  emitterId: string;
  channel: string;
  ms: number;
  seq: number;
  emitId: string;
  hops: number;
  /** As in `DeliveryTable`. */
  trace: string | null;
  attempts: number;
  attemptLog: string;
  /** JSON text of the emitted value: the bytes that are signed and sent, once for all deliveries of an event. */
  body: Buffer;
  createdAtMs: number;
}

/** A row as this node holds it, with the text of its event. */
export function heldDelivery(
  row: Pick<
    DeliveryTable,
    | 'id'
    | 'owner_id'
    | 'listener_id'
    | 'emitter_id'
    | 'channel'
    | 'ms'
    | 'seq'
    | 'emit_id'
    | 'hops'
    | 'trace'
    | 'attempts'
    | 'attempt_log'
    | 'created_at_ms'
  >,
  body: Buffer,
): HeldDelivery {
  return {
    id: row.id,
    ownerId: row.owner_id,
    listenerId: row.listener_id,
    emitterId: row.emitter_id,
    channel: row.channel,
    ms: row.ms,
    seq: row.seq,
    emitId: row.emit_id,
    hops: row.hops,
    trace: row.trace,
    attempts: row.attempts,
    attemptLog: row.attempt_log,
    body,
    createdAtMs: row.created_at_ms,
  };
}

/** What one attempt came to, as it is kept and shown. */
export interface AttemptRecord {
  /** Epoch ms of its start. */
  at: number;
  latency_ms: number;
  /** HTTP status of the answer, where there was one. */
  status?: number;
  /** Why there was none. */
  error?: string;
  /** The beginning of the answer's body, up to 1 KB. */
  response?: string;
}

/** Maximum of attempts recorded for one delivery: only repeated redelivery makes more. */
const recordsMax = 20;

export function withAttempt(attemptLog: string, attempt: AttemptRecord): string {
  if (attemptLog === '[]') return `[${JSON.stringify(attempt)}]`;
  const earlier = JSON.parse(attemptLog) as AttemptRecord[];
  return JSON.stringify([...earlier, attempt].slice(-recordsMax));
}

/** Links in a chain of events at most: past it, a loop is what it most likely is (docs/how-it-works/deliveries.md). */
export const hopsMax = 10;

/**
 * The lane of the jobs that make or change many deliveries of an owner: thousands of them wait in the store, not in the
 * places of the worker pool that others need.
 */
export function deliveryWorkLane(ownerId: string): string {
  return `deliveries ${ownerId}`;
}
