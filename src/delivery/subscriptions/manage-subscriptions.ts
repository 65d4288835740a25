import { noteOwner } from '#audit/audit-context.ts';
import { changeEventually } from '#delivery/change-deliveries.ts';
import type { BegunReplay, ReplayQueue } from '#delivery/replay/queue-replay.ts';
import { cancelReplaysBetween, replayRateDefault } from '#delivery/replay/replay-events.ts';
import { channels } from '#events/event.ts';
import { parseEventId } from '#events/event-id.ts';
import { lockEmittersQuery } from '#events/event-store.ts';
import { type Caller, notFound, type Ownership, ownersOf } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type {
  AutoSubscriptionTable,
  ReplayTable,
  SubscriptionTable,
} from '#storage/tables/delivery-tables.ts';
import {
  checkEventName,
  findEmitter,
  findListener,
  invalid,
  isOfOneEmitter,
  ownerOfEmitters,
  ownerOfListener,
  requireWritable,
} from './subscription-ends.ts';
import {
  autoSubscriptionsOf,
  countSubscriptions,
  deleteAutoSubscription,
  deleteSubscription,
  deleteSubscriptionsBetweenOwners,
  deleteSubscriptionsOf,
  deleteSubscriptionsTo,
  findAutoSubscription,
  findSubscription,
  holdEnds,
  holdRow,
  insertAutoSubscription,
  insertSubscription,
  subscriptionsBetween,
} from './subscription-store.ts';

/** Subscriptions of the listeners of one owner at most: a list of them is one answer. Automatic ones are not refused. */
const subscriptionsMax = 50_000;
/** Automatic subscriptions to what one owner creates: each of them is made while a source is created. */
const autoSubscriptionsMax = 100;

export interface SubscriptionOptions {
  store: Store;
  clock: Clock;
  /** A job was queued. */
  onJobs: () => void;
}

/** What a caller asks for (specification, section 4, Subscriptions). */
export interface SubscriptionRequest {
  emitterId: string;
  listenerId: string;
  /** '' is the default channel. */
  eventName: string;
  /** The workspace that was named, for emitters written as globs. */
  workspaceId?: string;
}

/**
 * Subscribes a listener; the same subscription again answers the one that is there. `alongside` is done in the transaction that makes
 * one, and not for one that is there. Throws CallerError `not_found` for an end that does not exist or belongs to others, `forbidden` for a viewer, `invalid_parameter`, `conflict` for one too many.
 */
export async function subscribe(
  { store, clock }: Pick<SubscriptionOptions, 'store' | 'clock'>,
  caller: Caller,
  request: SubscriptionRequest,
  alongside?: (tx: Tx, made: SubscriptionTable) => Promise<void>,
): Promise<SubscriptionTable> {
  return store.transaction(async (tx) => {
    await holdEnds(store, tx, { userId: caller.userId, listenerId: request.listenerId });
    const row = await resolveSubscription(tx, caller, request, clock.now());
    const made = await insertSubscription(tx, row);
    if (made.id !== row.id) return made;
    await requireRoom(tx, row.listener_owner_id);
    await alongside?.(tx, made);
    return made;
  });
}

/**
 * Subscribes a listener to one emitter, and sends it what is kept from an event on: each event from there on gets exactly
 * one delivery of this subscription, by the replay or as it is emitted. With the emitter locked, nothing is emitted in
 * between. Throws as `subscribe` does, and `invalid_event_id`, and `conflict` when the listener is subscribed already.
 */
export async function subscribeFrom(
  { store, clock, replays }: Pick<SubscriptionOptions, 'store' | 'clock'> & { replays: ReplayQueue },
  caller: Caller,
  request: SubscriptionRequest & { fromEventId: string },
): Promise<{ subscription: SubscriptionTable; replay: ReplayTable }> {
  const start = parseEventId(request.fromEventId, 'from_event_id');
  const { emitterId } = request;
  if (!isOfOneEmitter(emitterId))
    throw invalid(
      'from_event_id',
      'from_event_id: expected a single source (dc_…) or workflow (p_…) as emitter_id with it',
    );
  const made = await store.transaction(async (tx): Promise<BegunReplay & { row: SubscriptionTable }> => {
    await holdEnds(store, tx, { userId: caller.userId, listenerId: request.listenerId });
    const row = await resolveSubscription(tx, caller, request, clock.now());
    const listener = await findListener(tx, row.listener_id);
    const { rows: emitters } = await tx.executeQuery(lockEmittersQuery(store, tx, [emitterId]));
    if (emitters.length === 0) throw notFound('emitter', emitterId, 'emitter_id');
    if (listener === undefined) throw notFound('listener', row.listener_id, 'listener_id');
    const { id } = await insertSubscription(tx, row);
    if (id !== row.id)
      throw new CallerError(
        'conflict',
        `this subscription exists already; POST /v1/${emitterId.startsWith('p_') ? 'workflows' : 'sources'}/${emitterId}/replay sends it earlier events`,
        { parameter: 'from_event_id', subscription_id: id },
      );
    await requireRoom(tx, row.listener_owner_id);
    const begun = await replays.begin(tx, {
      emitterId,
      emitterOwnerId: row.emitter_owner_id,
      channel: row.event_name,
      listener,
      userId: caller.userId,
      subscriptionId: id,
      start,
      rate: replayRateDefault,
    });
    return { ...begun, row };
  });
  replays.begun(made);
  return { subscription: made.row, replay: made.replay };
}

/** After one more was inserted. Throws `conflict` when it is one too many. */
async function requireRoom(tx: Tx, listenerOwnerId: string): Promise<void> {
  if ((await countSubscriptions(tx, listenerOwnerId, subscriptionsMax + 1)) > subscriptionsMax)
    throw new CallerError(
      'conflict',
      `the listeners of one owner can have ${subscriptionsMax} subscriptions; delete some, or subscribe to dc_*`,
      { limit: subscriptionsMax },
    );
}

/** The requested subscription, if the caller may have it. */
async function resolveSubscription(
  db: Db,
  caller: Caller,
  request: SubscriptionRequest,
  nowMs: number,
): Promise<SubscriptionTable> {
  checkEventName(request.eventName);
  const owners = await ownersOf(db, caller);
  const listenerOwner = await ownerOfListener(db, owners, request.listenerId);
  const emitterOwner = await ownerOfEmitters(db, owners, request, listenerOwner);
  return {
    id: newId('sub'),
    emitter_owner_id: emitterOwner,
    emitter_id: request.emitterId,
    event_name: request.eventName,
    listener_id: request.listenerId,
    listener_owner_id: listenerOwner,
    user_id: caller.userId,
    created_at_ms: nowMs,
  };
}

/** Ends a subscription, named as it was made. What is still queued for it ends with a record. Throws `not_found`. */
export async function unsubscribe(
  options: SubscriptionOptions,
  caller: Caller,
  request: SubscriptionRequest,
): Promise<void> {
  const { store } = options;
  const { emitterId, listenerId, eventName, workspaceId } = request;
  const owners = await ownersOf(store.read, caller);
  const between = await subscriptionsBetween(store.read, {
    emitter_id: emitterId,
    listener_id: listenerId,
    event_name: eventName,
  });
  const mayEnd = between.filter((found) => isAtAnEnd(owners, found));
  // Globs of several owners may match one listener: the named one, else that of the listener's owner, is meant.
  const found =
    mayEnd.find(({ emitter_owner_id }) => emitter_owner_id === workspaceId) ??
    (workspaceId === undefined
      ? (mayEnd.find((row) => row.emitter_owner_id === row.listener_owner_id) ?? mayEnd[0])
      : undefined);
  if (found === undefined) {
    const channel = eventName === '' ? 'the default channel' : JSON.stringify(eventName);
    throw new CallerError(
      'not_found',
      `no subscription of ${JSON.stringify(listenerId)} to ${JSON.stringify(emitterId)} on ${channel}`,
      { parameter: 'emitter_id' },
    );
  }
  await endSubscription(options, owners, found);
}

/** The same, by its id. */
export async function unsubscribeById(
  options: SubscriptionOptions,
  caller: Caller,
  id: string,
): Promise<void> {
  const owners = await ownersOf(options.store.read, caller);
  const found = await findSubscription(options.store.read, id);
  if (found === undefined || !isAtAnEnd(owners, found)) throw notFound('subscription', id);
  await endSubscription(options, owners, found);
}

/** True when the caller can see the emitter or the listener of the subscription. */
export function isAtAnEnd(owners: Ownership, row: SubscriptionTable): boolean {
  return owners.mayRead(row.emitter_owner_id) || owners.mayRead(row.listener_owner_id);
}

async function endSubscription(
  { store, clock, onJobs }: SubscriptionOptions,
  owners: Ownership,
  row: SubscriptionTable,
): Promise<void> {
  if (!owners.mayWrite(row.emitter_owner_id) && !owners.mayWrite(row.listener_owner_id))
    throw new CallerError('forbidden', 'your role in this workspace lets you only read its subscriptions');
  noteOwner(row.emitter_owner_id);
  await store.transaction(async (tx) => {
    if (!(await deleteSubscription(tx, row.id))) throw notFound('subscription', row.id);
    await cancelQueued(store, tx, row, clock.now());
  });
  onJobs();
}

async function cancelQueued(
  store: Store,
  tx: Tx,
  row: Pick<SubscriptionTable, 'id' | 'listener_id' | 'listener_owner_id'>,
  nowMs: number,
): Promise<void> {
  await changeEventually(store, tx, {
    ownerId: row.listener_owner_id,
    nowMs,
    change: {
      listener_id: row.listener_id,
      subscription_id: row.id,
      from: ['queued', 'held'],
      to: 'cancelled',
      reason: 'subscription_removed',
    },
  });
}

/**
 * Subscribes a listener to a channel of everything that the owner creates from now on. Throws as `subscribe` does, and
 * `conflict` for one too many.
 */
export async function subscribeToNew(
  { store, clock }: Pick<SubscriptionOptions, 'store' | 'clock'>,
  caller: Caller,
  request: { eventName: string; listenerId: string; workspaceId?: string },
): Promise<AutoSubscriptionTable> {
  return store.transaction(async (tx) => {
    await holdEnds(store, tx, { userId: caller.userId, listenerId: request.listenerId });
    const owners = await ownersOf(tx, caller);
    const listenerOwner = await ownerOfListener(tx, owners, request.listenerId);
    const ownerId = request.workspaceId ?? listenerOwner;
    requireWritable(owners, ownerId, ownerId, 'org_id');
    const id = newId('asub');
    const made = await insertAutoSubscription(tx, {
      id,
      owner_id: ownerId,
      event_name: request.eventName,
      listener_id: request.listenerId,
      listener_owner_id: listenerOwner,
      user_id: caller.userId,
      created_at_ms: clock.now(),
    });
    if (made.id === id && (await autoSubscriptionsOf(tx, ownerId)).length > autoSubscriptionsMax)
      throw new CallerError(
        'conflict',
        `one owner can have ${autoSubscriptionsMax} automatic subscriptions; delete some`,
        { limit: autoSubscriptionsMax },
      );
    return made;
  });
}

/** Subscriptions that exist stay. Throws `not_found`. */
export async function unsubscribeFromNew(
  { store }: Pick<SubscriptionOptions, 'store'>,
  caller: Caller,
  id: string,
): Promise<void> {
  const owners = await ownersOf(store.read, caller);
  const row = await findAutoSubscription(store.read, id);
  if (row === undefined || !owners.mayRead(row.owner_id)) throw notFound('auto subscription', id);
  requireWritable(owners, row.owner_id, id, 'id');
  await store.transaction((tx) => deleteAutoSubscription(tx, id));
}

/** Runs in the transaction that creates an emitter: listeners with a matching glob are subscribed from its first event on. */
export async function addAutoSubscriptions(
  tx: Tx,
  emitter: { id: string; ownerId: string },
  nowMs: number,
): Promise<void> {
  for (const auto of await autoSubscriptionsOf(tx, emitter.ownerId))
    await insertSubscription(tx, {
      id: newId('sub'),
      emitter_owner_id: emitter.ownerId,
      emitter_id: emitter.id,
      event_name: auto.event_name,
      listener_id: auto.listener_id,
      listener_owner_id: auto.listener_owner_id,
      user_id: auto.user_id,
      created_at_ms: nowMs,
    });
}

/**
 * Runs in the transaction that removes an emitter and listener: removes the subscriptions to it and by it.
 * What it has emitted is still delivered; what was to be delivered to it ends with a record.
 */
export async function removeSubscriptionsOf(
  store: Store,
  tx: Tx,
  removed: { id: string; ownerId: string },
  nowMs: number,
): Promise<void> {
  await deleteSubscriptionsTo(tx, removed);
  await deleteSubscriptionsOf(tx, removed.id);
  await changeEventually(store, tx, {
    ownerId: removed.ownerId,
    nowMs,
    change: {
      listener_id: removed.id,
      from: ['queued', 'held'],
      to: 'cancelled',
      reason: 'listener_removed',
    },
  });
}

/**
 * Runs in the transaction that makes a source a trigger of a workflow: what the source emits comes to the workflow. The
 * caller checks the rights of the user. Throws CallerError `not_found` when there is no such source,
 * `conflict` for one subscription too many.
 */
export async function listenToSource(
  store: Store,
  tx: Tx,
  trigger: { workflow: { id: string; ownerId: string; userId: string }; sourceId: string },
  nowMs: number,
): Promise<void> {
  const { workflow, sourceId } = trigger;
  await holdRow(store, tx, sourceId);
  const source = await findEmitter(tx, sourceId);
  if (source === undefined) throw notFound('source', sourceId, 'source_id');
  const row: SubscriptionTable = {
    id: newId('sub'),
    emitter_owner_id: source.owner_id,
    emitter_id: sourceId,
    event_name: '',
    listener_id: workflow.id,
    listener_owner_id: workflow.ownerId,
    user_id: workflow.userId,
    created_at_ms: nowMs,
  };
  const made = await insertSubscription(tx, row);
  if (made.id === row.id) await requireRoom(tx, workflow.ownerId);
}

/**
 * Runs in the transaction that gives a workflow a trigger of kind on_failure: failed runs of all workflows of its owner, those that it will
 * have too, come to it. Throws CallerError `conflict` for one subscription too many.
 */
export async function listenToFailures(
  tx: Tx,
  workflow: { id: string; ownerId: string; userId: string },
  nowMs: number,
): Promise<void> {
  const row: SubscriptionTable = {
    id: newId('sub'),
    emitter_owner_id: workflow.ownerId,
    ...failures,
    listener_id: workflow.id,
    listener_owner_id: workflow.ownerId,
    user_id: workflow.userId,
    created_at_ms: nowMs,
  };
  const made = await insertSubscription(tx, row);
  if (made.id === row.id) await requireRoom(tx, workflow.ownerId);
}

/** In the transaction that ends it. */
export async function stopListeningToFailures(
  store: Store,
  tx: Tx,
  workflow: { id: string; ownerId: string },
  nowMs: number,
): Promise<void> {
  for (const row of await subscriptionsBetween(tx, { ...failures, listener_id: workflow.id })) {
    if (row.emitter_owner_id !== workflow.ownerId) continue;
    await deleteSubscription(tx, row.id);
    await cancelQueued(store, tx, row, nowMs);
  }
}

/** The errors of all workflows of an owner. */
const failures = { emitter_id: 'p_*', event_name: channels.errors } as const;

/** In the transaction that ends it: what is still queued for the workflow ends with a record. */
export async function stopListening(
  store: Store,
  tx: Tx,
  trigger: { workflowId: string; sourceId: string },
  nowMs: number,
): Promise<void> {
  const { workflowId, sourceId } = trigger;
  const key = { emitter_id: sourceId, listener_id: workflowId, event_name: '' };
  for (const row of await subscriptionsBetween(tx, key)) {
    await deleteSubscription(tx, row.id);
    await cancelQueued(store, tx, row, nowMs);
  }
}

/**
 * Runs in the transaction that ends a membership: removes the subscriptions between the workspace and what the user owns.
 */
export async function endSubscriptionsOfMember(
  store: Store,
  tx: Tx,
  member: { workspaceId: string; userId: string },
  nowMs: number,
): Promise<void> {
  const { workspaceId, userId } = member;
  for (const [emitterOwnerId, listenerOwnerId] of [
    [workspaceId, userId],
    [userId, workspaceId],
  ] as const) {
    const ended = await deleteSubscriptionsBetweenOwners(tx, { emitterOwnerId, listenerOwnerId });
    for (const row of ended)
      await cancelQueued(store, tx, { ...row, listener_owner_id: listenerOwnerId }, nowMs);
    await cancelReplaysBetween(store, tx, { emitterOwnerId, listenerOwnerId }, nowMs);
  }
}
