import { insertChangeJob } from '#delivery/change-deliveries.ts';
import { openStates } from '#delivery/delivery.ts';
import {
  checkEventName,
  findEmitter,
  findListener,
  ownerOfListener,
} from '#delivery/subscriptions/subscription-ends.ts';
import { compareEventIds, type EventId, formatEventId, parseEventId } from '#events/event-id.ts';
import { type Caller, notFound, type Ownership, ownersOf, writable } from '#identity/permissions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { ReplayReason, ReplayTable } from '#storage/tables/delivery-tables.ts';
import type { ReplayQueue } from './queue-replay.ts';
import {
  endReplay,
  findReplay,
  lockReplay,
  openReplaysBetweenOwners,
  progressOf,
  type ReplayProgress,
} from './replay-store.ts';

/** Deliveries per second of a replay, unless it says otherwise: a receiver takes them beside what is new. */
export const replayRateDefault = 20;
export const replayRateMax = 100;

export interface ReplayOptions {
  store: Store;
  clock: Clock;
  replays: ReplayQueue;
  /** A job was queued. */
  onJobs: () => void;
}

export interface ReplayRequest {
  emitterId: string;
  listenerId: string;
  /** '' is the default channel. */
  eventName: string;
  startId?: string;
  endId?: string;
  rate?: number;
}

/**
 * Sends stored events to one listener again. Throws CallerError `not_found` for an end that does not exist or belongs to
 * others, `forbidden` for a viewer, `invalid_event_id`, `invalid_range`, `invalid_parameter`, `conflict`.
 */
export async function requestReplay(
  { store, replays }: Pick<ReplayOptions, 'store' | 'replays'>,
  caller: Caller,
  request: ReplayRequest,
): Promise<ReplayTable> {
  const { emitterId, listenerId, eventName, startId, endId, rate = replayRateDefault } = request;
  const begun = await store.transaction(async (tx) => {
    const name = { what: emitterId.startsWith('p_') ? 'workflow' : 'source', id: emitterId };
    const emitter = await writable(tx, caller, await findEmitter(tx, emitterId), name);
    await ownerOfListener(tx, await ownersOf(tx, caller), listenerId);
    const listener = await findListener(tx, listenerId);
    if (listener === undefined) throw notFound('listener', listenerId, 'listener_id');
    checkEventName(eventName);
    return replays.begin(tx, {
      emitterId,
      emitterOwnerId: emitter.owner_id,
      channel: eventName,
      listener,
      userId: caller.userId,
      rate,
      ...rangeOf(startId, endId),
    });
  });
  replays.begun(begun);
  return begun.replay;
}

function rangeOf(startId: string | undefined, endId: string | undefined): { start?: EventId; end?: EventId } {
  const start = startId === undefined ? undefined : parseEventId(startId, 'start_id');
  const end = endId === undefined ? undefined : parseEventId(endId, 'end_id');
  if (start !== undefined && end !== undefined && compareEventIds(start, end) > 0)
    throw new CallerError('invalid_range', 'start_id: expected an event not later than end_id', {
      parameter: 'start_id',
    });
  return { ...(start === undefined ? {} : { start }), ...(end === undefined ? {} : { end }) };
}

/** A replay that begins or ends at something the caller can see. Throws `not_found`. */
export async function readableReplay(
  { store }: Pick<ReplayOptions, 'store'>,
  caller: Caller,
  id: string,
): Promise<{ replay: ReplayTable; owners: Ownership }> {
  const owners = await ownersOf(store.read, caller);
  const replay = await findReplay(store.read, id);
  if (replay === undefined || !(owners.mayRead(replay.owner_id) || owners.mayRead(replay.emitter_owner_id)))
    throw notFound('replay', id);
  return { replay, owners };
}

/**
 * Ends a replay: what of it is queued or held is cancelled, with a record. One that is over stays as it is. Throws
 * `not_found`, and `forbidden` for a user who may change neither the emitter nor the listener.
 */
export async function cancelReplay(options: ReplayOptions, caller: Caller, id: string): Promise<void> {
  const { store, clock, onJobs } = options;
  const { replay, owners } = await readableReplay(options, caller, id);
  if (!owners.mayWrite(replay.owner_id) && !owners.mayWrite(replay.emitter_owner_id))
    throw new CallerError('forbidden', 'your role in this workspace lets you only read its replays');
  await store.transaction(async (tx) => {
    const locked = await lockReplay(store, tx, id);
    if (locked === undefined || locked.state === 'cancelled') return;
    const waiting = (await progressOf(tx, [locked])).get(id)?.waiting ?? 0;
    if (locked.state === 'queueing' || waiting > 0)
      await endEarly(store, tx, locked, { reason: 'replay_cancelled', nowMs: clock.now() });
  });
  onJobs();
}

/** Runs in the transaction that ends a membership: see `endSubscriptionsOfMember`. */
export async function cancelReplaysBetween(
  store: Store,
  tx: Tx,
  owners: { emitterOwnerId: string; listenerOwnerId: string },
  nowMs: number,
): Promise<void> {
  for (const { id } of await openReplaysBetweenOwners(tx, owners)) {
    const locked = await lockReplay(store, tx, id);
    if (locked !== undefined) await endEarly(store, tx, locked, { reason: 'membership_ended', nowMs });
  }
}

async function endEarly(
  store: Store,
  tx: Tx,
  { id, owner_id, listener_id }: ReplayTable,
  { reason, nowMs }: { reason: ReplayReason; nowMs: number },
): Promise<void> {
  await endReplay(tx, id, { reason, nowMs });
  await insertChangeJob(store, tx, {
    ownerId: owner_id,
    nowMs,
    change: {
      listener_id,
      replay_id: id,
      from: [...openStates],
      to: 'cancelled',
      reason: 'replay_cancelled',
    },
  });
}

const noProgress: ReplayProgress = { sent: 0, failed: 0, waiting: 0 };

/** A replay as the API answers it. */
function viewReplay(replay: ReplayTable, { sent, failed, waiting }: ReplayProgress) {
  const isQueued = replay.state === 'sending' || replay.state === 'finished';
  return {
    id: replay.id,
    state: isQueued ? (waiting > 0 ? 'sending' : 'finished') : replay.state,
    reason: replay.reason,
    total: replay.total,
    sent,
    failed,
    waiting,
    missed: isQueued ? replay.total - replay.queued : 0,
    emitter_id: replay.emitter_id,
    listener_id: replay.listener_id,
    subscription_id: replay.subscription_id,
    event_name: replay.channel,
    start_id: idOf(replay.start_ms, replay.start_seq),
    end_id: idOf(replay.end_ms, replay.end_seq),
    rate: replay.rate,
    user_id: replay.user_id,
    created_at: epochSeconds(replay.created_at_ms),
    updated_at: epochSeconds(replay.updated_at_ms),
  };
}

function idOf(ms: number | null, seq: number | null): string | null {
  return ms === null || seq === null ? null : formatEventId({ ms, seq });
}

/** The same with what has become of it so far. */
export async function viewReplays({ read }: Pick<Store, 'read'>, replays: readonly ReplayTable[]) {
  const progress = await progressOf(read, replays);
  return replays.map((replay) => viewReplay(replay, progress.get(replay.id) ?? noProgress));
}
