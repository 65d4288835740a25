import { sql } from 'kysely';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type {
  FlowGroupTable,
  FlowQueueTable,
  FlowRunState,
  FlowRunTable,
} from '#storage/tables/flow-tables.ts';

/** Keys and ids in one statement. */
const chunkMax = 400;

/** As literals, so that partial indexes are used (see jobs/job-store.ts). */
const collected = sql.lit<FlowRunState>('collected');
const waiting = sql.lit<FlowRunState>('waiting');
const started = sql.lit<FlowRunState>('started');

const flowRunColumns = [
  'run_id',
  'workflow_id',
  'owner_id',
  'state',
  'group_key',
  'concurrency_key',
  'throttle_key',
  'singleton_key',
  'coalesce_key',
  'rate_key',
  'place_ms',
  'arrived_ms',
  'first_ms',
  'due_ms',
  'bytes',
  'started_ms',
  'warning',
] as const satisfies readonly (keyof FlowRunTable)[];
const flowRunInsert: RowInsert<'flow_runs'> = { table: 'flow_runs', columns: flowRunColumns };
const flowGroupInsert: RowInsert<'flow_groups'> = {
  table: 'flow_groups',
  columns: [
    ...['workflow_id', 'group_key', 'concurrency_key', 'throttle_key'],
    ...['rate_key', 'blocked_by', 'wake_ms', 'served_ms'],
  ] as (keyof FlowGroupTable)[],
  ending: 'on conflict (workflow_id, group_key) do nothing',
};

const flowQueueColumns = [
  'workflow_id',
  'owner_id',
  'flow_control',
  'rate_key',
  'rate_limit',
  'rate_seconds',
  'wake_ms',
  'started',
  'skipped',
  'replaced',
  'debounced',
  'batched',
] as const satisfies readonly (keyof FlowQueueTable)[];

/**
 * The queue of a workflow, locked until the end of the transaction: one node at a time decides over its runs. Made when it is
 * not there yet.
 */
export async function lockQueue(
  store: Dialect,
  tx: Tx,
  workflow: { id: string; ownerId: string },
): Promise<FlowQueueTable> {
  await tx
    .insertInto('flow_queues')
    .values({
      workflow_id: workflow.id,
      owner_id: workflow.ownerId,
      ...{ flow_control: null, rate_key: null, rate_limit: null, rate_seconds: null, wake_ms: null },
      ...{ started: 0, skipped: 0, replaced: 0, debounced: 0, batched: 0 },
    })
    .onConflict((conflict) => conflict.column('workflow_id').doNothing())
    .execute();
  const query = tx.selectFrom('flow_queues').select(flowQueueColumns).where('workflow_id', '=', workflow.id);
  return store.lockRows(query).executeTakeFirstOrThrow();
}

export async function findQueue(db: Db, workflowId: string): Promise<FlowQueueTable | undefined> {
  return db
    .selectFrom('flow_queues')
    .select(flowQueueColumns)
    .where('workflow_id', '=', workflowId)
    .executeTakeFirst();
}

export async function updateQueue(tx: Tx, queue: FlowQueueTable): Promise<void> {
  const { workflow_id, owner_id: _, ...set } = queue;
  await tx.updateTable('flow_queues').set(set).where('workflow_id', '=', workflow_id).execute();
}

/** Workflows whose queues are to be looked at, at most `limit`. */
export async function dueQueues(db: Db, nowMs: number, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('flow_queues')
    .select('workflow_id')
    .where('wake_ms', '<=', nowMs)
    .orderBy('wake_ms')
    .limit(limit)
    .execute();
  return rows.map(({ workflow_id }) => workflow_id);
}

export async function nextQueueDueMs(db: Db): Promise<number | undefined> {
  const row = await db
    .selectFrom('flow_queues')
    .select(({ fn }) => fn.min('wake_ms').as('wake_ms'))
    .where('wake_ms', 'is not', null)
    .executeTakeFirst();
  return row?.wake_ms === null || row?.wake_ms === undefined ? undefined : Number(row.wake_ms);
}

/** Workflows with runs under flow control. */
export async function queuedWorkflows(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('flow_queues').select('workflow_id').execute();
  return rows.map(({ workflow_id }) => workflow_id);
}

/** What all workflows allow that share an account. */
export async function rateLimitsOf(db: Db, rateKey: string): Promise<{ limit: number; seconds: number }[]> {
  const rows = await db
    .selectFrom('flow_queues')
    .select(['rate_limit', 'rate_seconds'])
    .distinct()
    .where('rate_key', '=', rateKey)
    .execute();
  return rows.flatMap(({ rate_limit: limit, rate_seconds: seconds }) =>
    limit === null || seconds === null ? [] : [{ limit, seconds }],
  );
}

/** Other workflows that wait for the same account, by when they were served last. */
export async function rateContenders(
  db: Db,
  rateKey: string,
  workflowId: string,
): Promise<{ workflowId: string; servedMs: number }[]> {
  const rows = await db
    .selectFrom('flow_groups')
    .select('workflow_id')
    .select(({ fn }) => fn.max('served_ms').as('served_ms'))
    .where('rate_key', '=', rateKey)
    .where('blocked_by', '=', sql.lit('rate_limit'))
    .where('workflow_id', '!=', workflowId)
    .groupBy('workflow_id')
    .execute();
  return rows.map((row) => ({ workflowId: row.workflow_id, servedMs: Number(row.served_ms) }));
}

export async function insertFlowRuns(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly FlowRunTable[],
): Promise<void> {
  for (const query of insertRows(store, flowRunInsert, rows)) await store.defer(tx, query);
}

/** A group that is there already stays as it is. */
export async function insertGroups(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly FlowGroupTable[],
): Promise<void> {
  for (const query of insertRows(store, flowGroupInsert, rows)) await store.defer(tx, query);
}

/** Runs that hold a place although they have ended, or were removed. */
export async function endedRuns(tx: Tx, workflowId: string, limit: number): Promise<FlowRunTable[]> {
  return tx
    .selectFrom('flow_runs')
    .select(flowRunColumns)
    .where('workflow_id', '=', workflowId)
    .where('state', '=', started)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('runs')
            .select('runs.id')
            .whereRef('runs.id', '=', 'flow_runs.run_id')
            .where('runs.ended_at_ms', 'is', null),
        ),
      ),
    )
    .limit(limit)
    .execute();
}

/** They count for a throttle or rate limit until `keepUntilMs`; without it they are removed. */
export async function freePlaces(tx: Tx, ids: readonly string[], keepMs: number | undefined): Promise<void> {
  for (const part of chunks(ids)) {
    if (keepMs === undefined) await tx.deleteFrom('flow_runs').where('run_id', 'in', part).execute();
    else
      await tx
        .updateTable('flow_runs')
        .set(({ eb }) => ({ state: 'ended', due_ms: eb('started_ms', '+', keepMs) }))
        .where('run_id', 'in', part)
        .execute();
  }
}

export async function pruneEnded(tx: Tx, workflowId: string, nowMs: number): Promise<void> {
  await tx
    .deleteFrom('flow_runs')
    .where('workflow_id', '=', workflowId)
    .where('state', '=', 'ended')
    .where('due_ms', '<=', nowMs)
    .execute();
}

/** Runs that are collected for one of these keys. */
export async function collectedRuns(
  tx: Tx,
  workflowId: string,
  keys: readonly string[],
): Promise<FlowRunTable[]> {
  const rows: FlowRunTable[] = [];
  for (const part of chunks(keys))
    rows.push(
      ...(await tx
        .selectFrom('flow_runs')
        .select(flowRunColumns)
        .where('workflow_id', '=', workflowId)
        .where('state', '=', collected)
        .where('coalesce_key', 'in', part)
        .orderBy('arrived_ms')
        .orderBy('run_id')
        .execute()),
    );
  return rows;
}

/** How much is collected for each of these keys. */
export async function collectedSums(
  tx: Tx,
  workflowId: string,
  keys: readonly string[],
): Promise<Map<string, { count: number; bytes: number; firstMs: number }>> {
  const sums = new Map<string, { count: number; bytes: number; firstMs: number }>();
  for (const part of chunks(keys)) {
    const rows = await tx
      .selectFrom('flow_runs')
      .select('coalesce_key')
      .select(({ fn }) => [
        fn.countAll<number>().as('count'),
        fn.sum<number>('bytes').as('bytes'),
        fn.min('first_ms').as('first_ms'),
      ])
      .where('workflow_id', '=', workflowId)
      .where('state', '=', collected)
      .where('coalesce_key', 'in', part)
      .groupBy('coalesce_key')
      .execute();
    for (const { coalesce_key, count, bytes, first_ms } of rows)
      sums.set(coalesce_key ?? '', { count: Number(count), bytes: Number(bytes), firstMs: Number(first_ms) });
  }
  return sums;
}

/** Keys whose collected runs are due. */
export async function dueKeys(
  tx: Tx,
  workflowId: string,
  { nowMs, limit }: { nowMs: number; limit: number },
): Promise<string[]> {
  const rows = await tx
    .selectFrom('flow_runs')
    .select('coalesce_key')
    .distinct()
    .where('workflow_id', '=', workflowId)
    .where('state', '=', collected)
    .where('due_ms', '<=', nowMs)
    .limit(limit)
    .execute();
  return rows.flatMap(({ coalesce_key }) => (coalesce_key === null ? [] : [coalesce_key]));
}

/** Unfinished runs with one of these singleton keys that hold it. */
export async function singletonHolders(
  tx: Tx,
  workflowId: string,
  keys: readonly string[],
): Promise<Pick<FlowRunTable, 'run_id' | 'singleton_key' | 'state'>[]> {
  const rows = [];
  for (const part of chunks(keys))
    rows.push(
      ...(await tx
        .selectFrom('flow_runs')
        .innerJoin('runs', 'runs.id', 'flow_runs.run_id')
        .select(['flow_runs.run_id', 'flow_runs.singleton_key', 'flow_runs.state'])
        .where('flow_runs.workflow_id', '=', workflowId)
        .where('flow_runs.singleton_key', 'in', part)
        .where('flow_runs.state', 'in', ['waiting', 'started'])
        .where('runs.ended_at_ms', 'is', null)
        .execute()),
    );
  return rows;
}

export async function deleteFlowRuns(tx: Tx, ids: readonly string[]): Promise<void> {
  for (const part of chunks(ids)) await tx.deleteFrom('flow_runs').where('run_id', 'in', part).execute();
}

export async function updateFlowRun(tx: Tx, id: string, set: Partial<FlowRunTable>): Promise<void> {
  await tx.updateTable('flow_runs').set(set).where('run_id', '=', id).execute();
}

export async function setFlowRuns(tx: Tx, ids: readonly string[], set: Partial<FlowRunTable>): Promise<void> {
  for (const part of chunks(ids))
    await tx.updateTable('flow_runs').set(set).where('run_id', 'in', part).execute();
}

const flowGroupColumns = [
  'workflow_id',
  'group_key',
  'concurrency_key',
  'throttle_key',
  'rate_key',
  'blocked_by',
  'wake_ms',
  'served_ms',
] as const satisfies readonly (keyof FlowGroupTable)[];

/** Groups to look at, those that were served longest ago first. */
export async function awakeGroups(
  tx: Tx,
  workflowId: string,
  { nowMs, limit }: { nowMs: number; limit: number },
): Promise<FlowGroupTable[]> {
  return tx
    .selectFrom('flow_groups')
    .select(flowGroupColumns)
    .where('workflow_id', '=', workflowId)
    .where('wake_ms', '<=', nowMs)
    .orderBy('served_ms')
    .orderBy('group_key')
    .limit(limit)
    .execute();
}

/** Wakes groups that wait for a place of a concurrency key: `places` of each, those that were served longest ago first. */
export async function wakeBlocked(
  tx: Tx,
  workflowId: string,
  { key, places, nowMs }: { key: string; places: number; nowMs: number },
): Promise<void> {
  const groups = await tx
    .selectFrom('flow_groups')
    .select('group_key')
    .where('workflow_id', '=', workflowId)
    .where('concurrency_key', '=', key)
    .where('wake_ms', 'is', null)
    .orderBy('served_ms')
    .limit(places)
    .execute();
  if (groups.length === 0) return;
  await tx
    .updateTable('flow_groups')
    .set({ wake_ms: nowMs })
    .where('workflow_id', '=', workflowId)
    .where(
      'group_key',
      'in',
      groups.map(({ group_key }) => group_key),
    )
    .execute();
}

/** The same where each concurrency key has one group. */
export async function wakeGroupsOf(
  tx: Tx,
  workflowId: string,
  keys: readonly string[],
  nowMs: number,
): Promise<void> {
  for (const part of chunks(keys))
    await tx
      .updateTable('flow_groups')
      .set({ wake_ms: nowMs })
      .where('workflow_id', '=', workflowId)
      .where('concurrency_key', 'in', part)
      .where('wake_ms', 'is', null)
      .execute();
}

/** When a run of the workflow last used the account; 0: never. */
export async function lastStartOnAccount(db: Db, rateKey: string, workflowId: string): Promise<number> {
  const row = await db
    .selectFrom('flow_runs')
    .select(({ fn }) => fn.max('started_ms').as('started_ms'))
    .where('rate_key', '=', rateKey)
    .where('workflow_id', '=', workflowId)
    .where('started_ms', 'is not', null)
    .executeTakeFirst();
  return Number(row?.started_ms ?? 0);
}

/** The settings have changed: everything is looked at again. */
export async function wakeAll(tx: Tx, workflowId: string, nowMs: number): Promise<void> {
  await tx.updateTable('flow_groups').set({ wake_ms: nowMs }).where('workflow_id', '=', workflowId).execute();
  await tx
    .updateTable('flow_runs')
    .set({ due_ms: nowMs })
    .where('workflow_id', '=', workflowId)
    .where('state', '=', collected)
    .execute();
}

/** What groups are like after a look: the same change for all of `keys`. */
export async function updateGroups(
  tx: Tx,
  workflowId: string,
  keys: readonly string[],
  set: Partial<Pick<FlowGroupTable, 'blocked_by' | 'wake_ms' | 'served_ms'>>,
): Promise<void> {
  for (const part of chunks(keys))
    await tx
      .updateTable('flow_groups')
      .set(set)
      .where('workflow_id', '=', workflowId)
      .where('group_key', 'in', part)
      .execute();
}

export async function deleteGroups(tx: Tx, workflowId: string, keys: readonly string[]): Promise<void> {
  for (const part of chunks(keys))
    await tx
      .deleteFrom('flow_groups')
      .where('workflow_id', '=', workflowId)
      .where('group_key', 'in', part)
      .execute();
}

/** Runs that hold a place, by concurrency key. */
export async function placesHeld(
  db: Db,
  workflowId: string,
  keys: readonly string[],
): Promise<Map<string, number>> {
  const held = new Map<string, number>();
  for (const part of chunks(keys)) {
    const rows = await db
      .selectFrom('flow_runs')
      .select('concurrency_key')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('workflow_id', '=', workflowId)
      .where('state', '=', started)
      .where('concurrency_key', 'in', part)
      .groupBy('concurrency_key')
      .execute();
    for (const { concurrency_key, count } of rows) held.set(concurrency_key, Number(count));
  }
  return held;
}

/** How many runs of each throttle key have begun after `sinceMs`. */
export async function startedSince(
  db: Db,
  workflowId: string,
  keys: readonly string[],
  sinceMs: number,
): Promise<Map<string, number>> {
  const begun = new Map<string, number>();
  for (const part of chunks(keys)) {
    const rows = await db
      .selectFrom('flow_runs')
      .select('throttle_key')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('workflow_id', '=', workflowId)
      .where('throttle_key', 'in', part)
      .where('started_ms', '>', sinceMs)
      .groupBy('throttle_key')
      .execute();
    for (const { throttle_key, count } of rows) begun.set(throttle_key, Number(count));
  }
  return begun;
}

/** When the `limit`th run before now began: with it out of the period, one more may begin. */
export async function nthStartMs(
  db: Db,
  of: { workflowId: string; throttleKey: string } | { rateKey: string },
  limit: number,
): Promise<number | undefined> {
  const query = db.selectFrom('flow_runs').select('started_ms').where('started_ms', 'is not', null);
  const row = await ('rateKey' in of
    ? query.where('rate_key', '=', of.rateKey)
    : query.where('workflow_id', '=', of.workflowId).where('throttle_key', '=', of.throttleKey)
  )
    .orderBy('started_ms', 'desc')
    .offset(limit - 1)
    .limit(1)
    .executeTakeFirst();
  return row?.started_ms ?? undefined;
}

export async function startedOnAccount(db: Db, rateKey: string, sinceMs: number): Promise<number> {
  const row = await db
    .selectFrom('flow_runs')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('rate_key', '=', rateKey)
    .where('started_ms', '>', sinceMs)
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

export interface QueueHead {
  runId: string;
  groupKey: string;
}

/** The first runs of groups, in their order, at most `limit` of each. */
export async function queueHeads(
  tx: Tx,
  workflowId: string,
  wanted: readonly { groupKey: string; limit: number }[],
): Promise<QueueHead[]> {
  const heads: QueueHead[] = [];
  // One statement for many groups: each has a few in an index.
  const perStatement = 50;
  for (let at = 0; at < wanted.length; at += perStatement) {
    const parts = wanted.slice(at, at + perStatement).map(
      ({ groupKey, limit }) => sql<{ run_id: string; group_key: string; place_ms: number }>`
        select * from (select run_id, group_key, place_ms from flow_runs
          where workflow_id = ${workflowId} and state = 'waiting' and group_key = ${groupKey}
          order by place_ms, run_id limit ${limit}) as part`,
    );
    const { rows } = await sql<{ run_id: string; group_key: string }>`
      ${sql.join(parts, sql` union all `)} order by place_ms, run_id`.execute(tx);
    for (const row of rows) heads.push({ runId: row.run_id, groupKey: row.group_key });
  }
  return heads;
}

/** When the queue is to be looked at next, as its rows say; undefined: when something happens to it. */
export async function nextWakeMs(tx: Tx, workflowId: string): Promise<number | undefined> {
  const { rows } = await sql<{ wake_ms: number | null }>`
    select min(wake_ms) as wake_ms from (
      select min(wake_ms) as wake_ms from flow_groups where workflow_id = ${workflowId} and wake_ms is not null
      union all
      select min(due_ms) from flow_runs where workflow_id = ${workflowId} and due_ms is not null) as wakes`.execute(
    tx,
  );
  const [row] = rows;
  return row?.wake_ms === null || row?.wake_ms === undefined ? undefined : Number(row.wake_ms);
}

/** True when runs of the workflow wait for their turn, and when some hold a place. */
export async function unfinished(
  tx: Tx,
  workflowId: string,
): Promise<{ isWaiting: boolean; isStarted: boolean }> {
  const one = (state: typeof waiting) =>
    tx
      .selectFrom('flow_runs')
      .select('run_id')
      .where('workflow_id', '=', workflowId)
      .where('state', '=', state)
      .limit(1)
      .executeTakeFirst();
  return { isWaiting: (await one(waiting)) !== undefined, isStarted: (await one(started)) !== undefined };
}

/** Everything of a workflow that was removed. */
export async function deleteFlowOf(tx: Tx, workflowId: string): Promise<void> {
  await tx.deleteFrom('flow_groups').where('workflow_id', '=', workflowId).execute();
  await tx.deleteFrom('flow_runs').where('workflow_id', '=', workflowId).execute();
  await tx.deleteFrom('flow_queues').where('workflow_id', '=', workflowId).execute();
}

function chunks<T>(values: readonly T[]): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < values.length; at += chunkMax) parts.push(values.slice(at, at + chunkMax));
  return parts;
}
