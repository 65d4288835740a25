import { sql } from 'kysely';
import { hasHealth } from '#health/health-store.ts';
import type { Db } from '#storage/store.ts';
import type { WebhookState } from '#storage/tables/delivery-tables.ts';
import type { SourceState } from '#storage/tables/source-tables.ts';
import type { TriggerKind, WorkflowState } from '#storage/tables/workflow-tables.ts';
import { failedStates, inParts } from './flow-recent-store.ts';

/** Statements of the flow map. Each looks at a bounded number of rows, found by an index. */

/** Uses of unhealthy accounts that are counted. */
const usesMax = 10_000;
/** The number of newest records of failed deliveries that are looked through. */
const deadLettersMax = 1_000;
const accountsMax = 50;
export interface FlowSubscription {
  id: string;
  emitter_id: string;
  listener_id: string;
  listener_owner_id: string;
  event_name: string;
}

const subscriptionColumns = [
  'id',
  'emitter_id',
  'listener_id',
  'listener_owner_id',
  'event_name',
  'created_at_ms',
] as const;

/** Subscriptions to what these emitters of an owner emit, each emitter in turn; at most `limit` of a hundred emitters. */
export async function subscriptionsFrom(
  db: Db,
  ownerId: string,
  emitterIds: readonly string[],
  limit: number,
): Promise<FlowSubscription[]> {
  const place = new Map(emitterIds.map((id, index) => [id, index]));
  const found = await inParts(emitterIds, (part) =>
    db
      .selectFrom('subscriptions')
      .select(subscriptionColumns)
      .where('emitter_owner_id', '=', ownerId)
      .where('emitter_id', 'in', part)
      .limit(limit)
      .execute(),
  );
  return found.sort((a, b) => (place.get(a.emitter_id) ?? 0) - (place.get(b.emitter_id) ?? 0));
}

/** The newest subscriptions of listeners of an owner, also to emitters of others. */
export function newestSubscriptions(db: Db, ownerId: string, limit: number): Promise<FlowSubscription[]> {
  return db
    .selectFrom('subscriptions')
    .select(subscriptionColumns)
    .where('listener_owner_id', '=', ownerId)
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/** Those of an owner that begin or end at one thing, the newest first. */
export async function subscriptionsAt(
  db: Db,
  ownerId: string,
  id: string,
  limit: number,
): Promise<FlowSubscription[]> {
  return db
    .selectFrom('subscriptions')
    .select(subscriptionColumns)
    .where((where) =>
      where.or([
        where.and([where('emitter_owner_id', '=', ownerId), where('emitter_id', '=', id)]),
        where.and([where('listener_id', '=', id), where('listener_owner_id', '=', ownerId)]),
      ]),
    )
    .orderBy('created_at_ms', 'desc')
    .limit(limit)
    .execute();
}

export async function subscriptionsByIds(
  db: Db,
  ownerId: string,
  ids: readonly string[],
): Promise<FlowSubscription[]> {
  if (ids.length === 0) return [];
  return db
    .selectFrom('subscriptions')
    .select(subscriptionColumns)
    .where('id', 'in', [...ids])
    .where((where) =>
      where.or([where('listener_owner_id', '=', ownerId), where('emitter_owner_id', '=', ownerId)]),
    )
    .orderBy('id')
    .execute();
}

export interface FlowTotals {
  sources: number;
  workflows: number;
  webhooks: number;
  subscriptions: number;
}

export async function flowTotals(db: Db, ownerId: string): Promise<FlowTotals> {
  const ofTable = async (table: 'sources' | 'workflows' | 'webhooks') => {
    const row = await db
      .selectFrom(table)
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('owner_id', '=', ownerId)
      .executeTakeFirst();
    return Number(row?.count ?? 0);
  };
  const subscriptions = db
    .selectFrom('subscriptions')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where((where) =>
      where.or([where('listener_owner_id', '=', ownerId), where('emitter_owner_id', '=', ownerId)]),
    )
    .executeTakeFirst();
  const [sources, workflows, webhooks, subscribed] = await Promise.all([
    ofTable('sources'),
    ofTable('workflows'),
    ofTable('webhooks'),
    subscriptions,
  ]);
  return { sources, workflows, webhooks, subscriptions: Number(subscribed?.count ?? 0) };
}

/** Sources of an owner that emitted last, then the newest. */
export async function busiestSources(db: Db, ownerId: string, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('sources as s')
    .leftJoin('emitters as e', 'e.id', 's.id')
    .select('s.id')
    .where('s.owner_id', '=', ownerId)
    .orderBy(sql`coalesce(e.last_ms, 0)`, 'desc')
    .orderBy('s.created_at_ms', 'desc')
    .orderBy('s.id')
    .limit(limit)
    .execute();
  return rows.map(({ id }) => id);
}

/** The newest workflows or webhooks of an owner. */
export async function newestIds(
  db: Db,
  table: 'workflows' | 'webhooks',
  ownerId: string,
  limit: number,
): Promise<string[]> {
  const rows = await db
    .selectFrom(table)
    .select('id')
    .where('owner_id', '=', ownerId)
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
  return rows.map(({ id }) => id);
}

export const flowStates = [
  'active',
  'inactive',
  'deploying',
  'paused',
  'disabled',
] as const satisfies readonly (SourceState | WorkflowState | WebhookState)[];

export interface FlowThing {
  id: string;
  /** Null: a webhook without one. */
  name: string | null;
  state: (typeof flowStates)[number];
  /** The project of a workflow. */
  project_id: string | null;
}

/** Sources, workflows and webhooks of an owner by their ids; what is gone or belongs to another owner is missing. */
export async function flowThings(db: Db, ownerId: string, ids: readonly string[]): Promise<FlowThing[]> {
  const of = (prefix: string) => ids.filter((id) => id.startsWith(prefix));
  const nothing = { project_id: null };
  const [sources, workflows, webhooks] = await Promise.all([
    inParts(of('dc_'), (part) =>
      db
        .selectFrom('sources')
        .select(['id', 'name', 'state'])
        .where('id', 'in', part)
        .where('owner_id', '=', ownerId)
        .execute(),
    ),
    inParts(of('p_'), (part) =>
      db
        .selectFrom('workflows')
        .select(['id', 'name', 'state', 'project_id'])
        .where('id', 'in', part)
        .where('owner_id', '=', ownerId)
        .execute(),
    ),
    inParts(of('wh_'), (part) =>
      db
        .selectFrom('webhooks')
        .select(['id', 'name', 'url', 'state'])
        .where('id', 'in', part)
        .where('owner_id', '=', ownerId)
        .execute(),
    ),
  ]);
  return [
    ...sources.map((row) => ({ ...nothing, ...row })),
    ...workflows.map((row) => ({ ...nothing, ...row })),
    ...webhooks.map(({ url, name, ...row }) => ({ ...nothing, ...row, name: name ?? url })),
  ];
}

/** What starts runs of a workflow, apart from subscriptions. */
export const ownTriggerKinds = ['http', 'timer', 'email'] as const satisfies readonly TriggerKind[];
type OwnTriggerKind = (typeof ownTriggerKinds)[number];

export interface FlowTrigger {
  id: string;
  workflow_id: string;
  kind: OwnTriggerKind;
  interval_seconds: number | null;
  cron: string | null;
}

/** What starts runs of these workflows, apart from subscriptions. */
export function flowTriggers(db: Db, workflowIds: readonly string[]): Promise<FlowTrigger[]> {
  return inParts(workflowIds, (part) =>
    db
      .selectFrom('triggers')
      .select(['id', 'workflow_id', 'kind', 'interval_seconds', 'cron'])
      .where('workflow_id', 'in', part)
      .where('kind', 'in', [...ownTriggerKinds])
      .$narrowType<{ kind: OwnTriggerKind }>()
      .orderBy('workflow_id')
      .orderBy('position')
      .execute(),
  );
}

/** When each of these sources and workflows emitted last, whatever it was; epoch ms. */
export async function lastEmitted(db: Db, ids: readonly string[]): Promise<Map<string, number>> {
  const rows = await inParts(ids, (part) =>
    db
      .selectFrom('emitters')
      .select(['id', 'last_ms'])
      .where('id', 'in', part)
      .where('last_ms', '>', 0)
      .execute(),
  );
  return new Map(rows.map(({ id, last_ms }) => [id, Number(last_ms)]));
}

export interface DeadLetters {
  listener_id: string;
  subscription_id: string | null;
  count: number;
}

/** Dead letters of an owner by subscription, among the newest thousand records. */
export async function deadLettersBySubscription(db: Db, ownerId: string): Promise<DeadLetters[]> {
  const newest = db
    .selectFrom('deliveries')
    .select(['listener_id', 'subscription_id', 'state'])
    .where('owner_id', '=', ownerId)
    .where('ended_at_ms', 'is not', null)
    .where('state', '<>', sql.lit('delivered'))
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .limit(deadLettersMax)
    .as('newest');
  const rows = await db
    .selectFrom(newest)
    .select(({ fn }) => ['newest.listener_id', 'newest.subscription_id', fn.countAll<number>().as('count')])
    .where(sql<boolean>`newest.state in (${failedStates})`)
    .groupBy(['newest.listener_id', 'newest.subscription_id'])
    .execute();
  return rows.map((row) => ({ ...row, count: Number(row.count) }));
}

/** How many unhealthy accounts of the owner each source and workflow uses. */
export async function unhealthyAccountsByUser(
  db: Db,
  ownerId: string,
  nowMs: number,
): Promise<Map<string, number>> {
  const accounts = await db
    .selectFrom('accounts')
    .select('id')
    .where('owner_id', '=', ownerId)
    .where(hasHealth('account', 'failing', nowMs))
    .limit(accountsMax)
    .execute();
  if (accounts.length === 0) return new Map();
  const ids = accounts.map(({ id }) => id);
  const [sources, workflows] = await Promise.all([
    db
      .selectFrom('source_accounts')
      .select('source_id as id')
      .where('account_id', 'in', ids)
      .limit(usesMax)
      .execute(),
    db
      .selectFrom('deployment_accounts as used')
      .innerJoin('workflows', 'workflows.deployment_id', 'used.deployment_id')
      .select('workflows.id')
      .where('used.account_id', 'in', ids)
      .limit(usesMax)
      .execute(),
  ]);
  const counts = new Map<string, number>();
  for (const { id } of [...sources, ...workflows]) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}
