import { CompiledQuery, sql } from 'kysely';
import type { EmittedTo } from '#events/emit-event.ts';
import { channels } from '#events/event.ts';
import { holdMemberships } from '#identity/workspace-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import { StatementTexts } from '#storage/statement-texts.ts';
import type { Db, Tx } from '#storage/store.ts';
import type {
  AutoSubscriptionTable,
  SubscriptionTable,
  WebhookState,
} from '#storage/tables/delivery-tables.ts';

const subscriptionColumns = [
  'id',
  'emitter_owner_id',
  'emitter_id',
  'event_name',
  'listener_id',
  'listener_owner_id',
  'user_id',
  'created_at_ms',
] as const;

/** Inserts it, or answers the one that is there already. */
export async function insertSubscription(tx: Tx, row: SubscriptionTable): Promise<SubscriptionTable> {
  await tx
    .insertInto('subscriptions')
    .values(row)
    .onConflict((conflict) =>
      conflict.columns(['emitter_owner_id', 'emitter_id', 'event_name', 'listener_id']).doNothing(),
    )
    .execute();
  return tx
    .selectFrom('subscriptions')
    .select(subscriptionColumns)
    .where('emitter_owner_id', '=', row.emitter_owner_id)
    .where('emitter_id', '=', row.emitter_id)
    .where('event_name', '=', row.event_name)
    .where('listener_id', '=', row.listener_id)
    .executeTakeFirstOrThrow();
}

/** Subscriptions of this owner's listeners, counted up to a limit. */
export async function countSubscriptions(db: Db, listenerOwnerId: string, limit: number): Promise<number> {
  const row = await db
    .selectFrom((from) =>
      from
        .selectFrom('subscriptions')
        .select('id')
        .where('listener_owner_id', '=', listenerOwnerId)
        .limit(limit)
        .as('owned'),
    )
    .select((select) => select.fn.countAll<number>().as('count'))
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/**
 * Keeps what a new subscription depends on from going away before it is there: the memberships of who makes it, and the
 * listener. A removal that was first is then seen; one that comes later finds the subscription.
 */
export async function holdEnds(
  store: Dialect,
  tx: Tx,
  ends: { userId: string; listenerId: string },
): Promise<void> {
  await holdMemberships(store, tx, ends.userId);
  await holdRow(store, tx, ends.listenerId);
}

/** Keeps a webhook, source or workflow from being removed before the end of the transaction. */
export async function holdRow(store: Dialect, tx: Tx, id: string): Promise<void> {
  // The embedded store has one writer, which this transaction is.
  if (store.hasOneWriter) return;
  const table = id.startsWith('wh_') ? 'webhooks' : id.startsWith('p_') ? 'workflows' : 'sources';
  await store.keepRows(tx.selectFrom(table).select('id').where('id', '=', id)).execute();
}

export async function findSubscription(db: Db, id: string): Promise<SubscriptionTable | undefined> {
  return db.selectFrom('subscriptions').select(subscriptionColumns).where('id', '=', id).executeTakeFirst();
}

/** True when it is there: it is then not removed before the end of the transaction. */
export async function holdSubscription(store: Dialect, tx: Tx, id: string): Promise<boolean> {
  const query = tx.selectFrom('subscriptions').select('id').where('id', '=', id);
  return (await store.keepRows(query).executeTakeFirst()) !== undefined;
}

/** Those between this emitter (as it was written) and this listener on a channel: more than one only for globs. */
export async function subscriptionsBetween(
  db: Db,
  key: Pick<SubscriptionTable, 'emitter_id' | 'event_name' | 'listener_id'>,
): Promise<SubscriptionTable[]> {
  return db
    .selectFrom('subscriptions')
    .select(subscriptionColumns)
    .where('listener_id', '=', key.listener_id)
    .where('emitter_id', '=', key.emitter_id)
    .where('event_name', '=', key.event_name)
    .orderBy('emitter_owner_id')
    .execute();
}

/** Those that one end of belongs to the owner, newest first. */
export async function subscriptionsOf(db: Db, ownerId: string): Promise<SubscriptionTable[]> {
  return db
    .selectFrom('subscriptions')
    .select(subscriptionColumns)
    .where((where) =>
      where.or([where('listener_owner_id', '=', ownerId), where('emitter_owner_id', '=', ownerId)]),
    )
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .execute();
}

/** True when something is subscribed to `id`, or `id` to something. */
export async function hasSubscriptions(
  db: Db,
  id: string,
  { besides = [] }: { besides?: readonly string[] } = {},
): Promise<boolean> {
  const found = await db
    .selectFrom('subscriptions')
    .select('id')
    .where((where) => where.or([where('listener_id', '=', id), where('emitter_id', '=', id)]))
    .where((where) =>
      where.not(
        where.and([
          where('listener_id', '=', id),
          where('event_name', '=', ''),
          where('emitter_id', 'in', ['', ...besides]),
        ]),
      ),
    )
    .limit(1)
    .executeTakeFirst();
  return found !== undefined;
}

/** True when it was there. */
export async function deleteSubscription(tx: Tx, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx.deleteFrom('subscriptions').where('id', '=', id).executeTakeFirst();
  return Number(numDeletedRows) === 1;
}

/** Removes those that name exactly this emitter: it is gone. */
export async function deleteSubscriptionsTo(tx: Tx, emitter: { id: string; ownerId: string }): Promise<void> {
  await tx
    .deleteFrom('subscriptions')
    .where('emitter_owner_id', '=', emitter.ownerId)
    .where('emitter_id', '=', emitter.id)
    .execute();
}

/** Removes those of a listener that is gone, automatic ones too. */
export async function deleteSubscriptionsOf(tx: Tx, listenerId: string): Promise<void> {
  await tx.deleteFrom('subscriptions').where('listener_id', '=', listenerId).execute();
  await tx.deleteFrom('auto_subscriptions').where('listener_id', '=', listenerId).execute();
}

/** Removes subscriptions that bring events of a workspace to listeners of a user who may no longer see them. */
export async function deleteSubscriptionsBetweenOwners(
  tx: Tx,
  owners: { emitterOwnerId: string; listenerOwnerId: string },
): Promise<{ id: string; listener_id: string }[]> {
  await tx
    .deleteFrom('auto_subscriptions')
    .where('owner_id', '=', owners.emitterOwnerId)
    .where('listener_owner_id', '=', owners.listenerOwnerId)
    .execute();
  return tx
    .deleteFrom('subscriptions')
    .where('emitter_owner_id', '=', owners.emitterOwnerId)
    .where('listener_owner_id', '=', owners.listenerOwnerId)
    .returning(['id', 'listener_id'])
    .execute();
}

const autoColumns = [
  'id',
  'owner_id',
  'event_name',
  'listener_id',
  'listener_owner_id',
  'user_id',
  'created_at_ms',
] as const;

/** Inserts it, or answers the one that is there already. */
export async function insertAutoSubscription(
  tx: Tx,
  row: AutoSubscriptionTable,
): Promise<AutoSubscriptionTable> {
  await tx
    .insertInto('auto_subscriptions')
    .values(row)
    .onConflict((conflict) => conflict.columns(['owner_id', 'event_name', 'listener_id']).doNothing())
    .execute();
  return tx
    .selectFrom('auto_subscriptions')
    .select(autoColumns)
    .where('owner_id', '=', row.owner_id)
    .where('event_name', '=', row.event_name)
    .where('listener_id', '=', row.listener_id)
    .executeTakeFirstOrThrow();
}

export async function findAutoSubscription(db: Db, id: string): Promise<AutoSubscriptionTable | undefined> {
  return db.selectFrom('auto_subscriptions').select(autoColumns).where('id', '=', id).executeTakeFirst();
}

/** Newest first. */
export async function autoSubscriptionsOf(db: Db, ownerId: string): Promise<AutoSubscriptionTable[]> {
  return db
    .selectFrom('auto_subscriptions')
    .select(autoColumns)
    .where('owner_id', '=', ownerId)
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .execute();
}

export async function deleteAutoSubscription(tx: Tx, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('auto_subscriptions')
    .where('id', '=', id)
    .executeTakeFirst();
  return Number(numDeletedRows) === 1;
}

/** A channel of an emitter that something was stored on. */
export interface EmittedChannel extends EmittedTo {
  ownerId: string;
}

/** A listener to the events of a channel. */
export interface Subscriber {
  emitter_id: string;
  event_name: string;
  subscription_id: string;
  listener_id: string;
  listener_owner_id: string;
  /** The state of a listening webhook; null for listeners of other kinds. */
  webhook_state: WebhookState | null;
}

/** All emitters of the kind that this one is of: `dc_*` or `p_*`; an owner is of none. */
function globOf(emitterId: string): string {
  if (/^[ou]_/.test(emitterId)) return emitterId;
  return emitterId.startsWith('p_') ? 'p_*' : 'dc_*';
}

/**
 * The statement that finds the subscribers of these channels, at most `limit` of them. Three places in one index
 * for each channel: the emitter itself, all of its kind, all of its owner. A listener to the errors of all does not get its own: they
 * would go in a circle. So its cost does not grow with the number of
 * other subscriptions.
 */
export function findSubscribersQuery(
  store: Dialect,
  emitted: readonly EmittedTo[],
  limit: number,
): CompiledQuery<Subscriber> {
  const parameters = emitted.flatMap(({ emitterId, channel }) => [emitterId, globOf(emitterId), channel]);
  return subscriberTexts.query(store, emitted.length, [...parameters, limit], () =>
    CompiledQuery.raw(subscribersText(store, emitted.length)),
  );
}

const subscriberTexts = new StatementTexts();

function subscribersText(dialect: Dialect, count: number): string {
  let parameter = 0;
  const placeholder = () => {
    parameter += 1;
    return dialect.parameter(parameter, 'text');
  };
  const rows = Array.from({ length: count }, () => `(${[1, 2, 3].map(placeholder).join(', ')})`);
  const limit = dialect.parameter(parameter + 1, 'integer');
  return `with emitted (emitter_id, glob, channel) as (values ${rows.join(', ')})
    select emitted.emitter_id, s.event_name, s.id as subscription_id, s.listener_id, s.listener_owner_id,
      w.state as webhook_state
    from emitted
    join emitters e on e.id = emitted.emitter_id
    join subscriptions s on s.emitter_owner_id = e.owner_id
      and s.emitter_id in (emitted.emitter_id, emitted.glob, e.owner_id)
      and s.event_name = emitted.channel
      and not (s.listener_id = emitted.emitter_id and s.emitter_id <> emitted.emitter_id and emitted.channel = '$errors')
    left join webhooks w on w.id = s.listener_id
    limit ${limit}`;
}

/** Which of the three places, and the listener there, a page of subscribers ended with. */
export interface SubscriberCursor {
  place: number;
  listenerId: string;
}

/** The statement for the subscribers of one channel at one of the places, from a listener on; for those that are too many for one transaction. */
export function pageOfSubscribersQuery(
  db: Db,
  emitted: EmittedChannel,
  { after, limit }: { after: SubscriberCursor; limit: number },
): CompiledQuery<Subscriber> {
  const isOwnCircle = after.place > 0 && emitted.channel === channels.errors;
  return db
    .selectFrom('subscriptions as s')
    .leftJoin('webhooks as w', 'w.id', 's.listener_id')
    .select([
      sql<string>`${emitted.emitterId}`.as('emitter_id'),
      's.event_name',
      's.id as subscription_id',
      's.listener_id',
      's.listener_owner_id',
      'w.state as webhook_state',
    ])
    .where('s.emitter_owner_id', '=', emitted.ownerId)
    .where('s.emitter_id', '=', placesOf(emitted)[after.place] ?? '')
    .where('s.event_name', '=', emitted.channel)
    .where('s.listener_id', '>', after.listenerId)
    .$if(isOwnCircle, (query) => query.where('s.listener_id', '<>', emitted.emitterId))
    .orderBy('s.listener_id')
    .limit(limit)
    .compile();
}

/** Where the page after the one with these subscribers begins; undefined: that was the last one. */
export function nextPageOfSubscribers(
  emitted: EmittedChannel,
  { after, limit }: { after: SubscriberCursor; limit: number },
  subscribers: readonly Subscriber[],
): SubscriberCursor | undefined {
  const last = subscribers.at(-1);
  if (subscribers.length >= limit && last !== undefined)
    return { place: after.place, listenerId: last.listener_id };
  const place = after.place + 1;
  return place < placesOf(emitted).length ? { place, listenerId: '' } : undefined;
}

/** What a subscription may name to get events of an emitter: itself, all of its kind, all of its owner. */
function placesOf({ emitterId, ownerId }: EmittedChannel): string[] {
  return [...new Set([emitterId, globOf(emitterId), ownerId])];
}
