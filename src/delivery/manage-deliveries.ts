import { formatEventId } from '#events/event-id.ts';
import type { Clock } from '#lib/clock.ts';
import { epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { DeliveryTable } from '#storage/tables/delivery-tables.ts';
import { type AttemptRecord, openStates } from './delivery.ts';
import { findDelivery, requeueDelivery } from './delivery-store.ts';
import { insertPayloads, readEventOf, readPayload } from './dispatch/payload-store.ts';
import { findListener } from './subscriptions/subscription-ends.ts';

export interface DeliveryOptions {
  store: Store;
  clock: Clock;
  /** Deliveries of this listener may be due. */
  onQueued: (listenerId: string) => void;
}

/**
 * Queues one ended delivery again, under the same id: one that was not delivered with the text kept for it, one that was
 * with the stored event. Throws CallerError `conflict` when it has not ended, its listener is gone, or its event is.
 */
export async function redeliver(
  { store, clock, onQueued }: DeliveryOptions,
  delivery: DeliveryTable,
): Promise<DeliveryTable> {
  if (openStates.some((state) => state === delivery.state)) throw isOpen(delivery);
  const queued = await store.transaction(async (tx) => {
    if ((await findListener(tx, delivery.listener_id)) === undefined)
      throw new CallerError('conflict', `its listener ${delivery.listener_id} no longer exists`);
    const nowMs = clock.now();
    const text = delivery.has_payload === 1 ? undefined : await storeText(store, tx, delivery, nowMs);
    const isQueued = await requeueDelivery(tx, delivery, { nowMs, ...(text === undefined ? {} : { text }) });
    const current = await findDelivery(tx, delivery.id);
    // Another request was faster, or the record was too old and was deleted.
    if (!isQueued || current === undefined) throw isOpen(delivery);
    await store.notify(tx, 'millrace_jobs', '');
    return current;
  });
  onQueued(queued.listener_id);
  return queued;
}

/** The text that a delivery sends or sent, as long as it is kept: with the delivery itself, or among the events of its emitter. */
export async function textOfDelivery(db: Db, delivery: DeliveryTable): Promise<string | undefined> {
  const own = delivery.has_payload === 1 ? await readPayload(db, delivery.emit_id) : undefined;
  return own ?? (await readEventOf(db, delivery))?.event;
}

/** Keeps the text of a stored event for a delivery that no longer has one. */
async function storeText(
  store: Store,
  tx: Tx,
  delivery: DeliveryTable,
  nowMs: number,
): Promise<{ emitId: string; bytes: number }> {
  const found = await readEventOf(tx, delivery);
  if (found === undefined)
    throw new CallerError('conflict', `its event ${formatEventId(delivery)} is no longer kept`);
  const emitId = newTimeOrderedId(nowMs);
  await insertPayloads(store, tx, [
    { emit_id: emitId, owner_id: found.owner_id, event: found.event, fanning: 0, created_at_ms: nowMs },
  ]);
  return { emitId, bytes: Buffer.byteLength(found.event) };
}

function isOpen({ id }: DeliveryTable): CallerError {
  return new CallerError('conflict', `${id} is queued or held: it will be sent without being asked for`);
}

/**
 * A delivery as the API answers it. What the receiver answered is for those who may read the listener; the owner of the
 * emitter sees the rest.
 */
export function viewDelivery(delivery: DeliveryTable, options: { withResponses: boolean }) {
  const { state, attempts, lease_node, run_at_ms, ended_at_ms } = delivery;
  const records = JSON.parse(delivery.attempt_log) as AttemptRecord[];
  const last = records.at(-1);
  const isWaiting = state === 'queued' && attempts > 0 && lease_node === null;
  return {
    id: delivery.id,
    listener_id: delivery.listener_id,
    subscription_id: delivery.subscription_id,
    replay_id: delivery.replay_id,
    emitter_id: delivery.emitter_id,
    event_name: delivery.channel,
    event_id: formatEventId(delivery),
    state,
    reason: delivery.reason,
    attempt_count: attempts,
    attempts: records.map(({ at, response, ...record }) => ({
      at_ms: at,
      ...record,
      ...(response !== undefined && options.withResponses ? { response } : {}),
    })),
    status: last?.status ?? null,
    latency_ms: last?.latency_ms ?? null,
    next_attempt_at: isWaiting ? epochSeconds(run_at_ms) : null,
    created_at: epochSeconds(delivery.created_at_ms),
    ended_at: ended_at_ms === null ? null : epochSeconds(ended_at_ms),
  };
}
