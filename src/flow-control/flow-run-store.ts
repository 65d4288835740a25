import { type RawBuilder, sql } from 'kysely';
import { chunks } from '#lib/chunks.ts';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { FlowRunState, FlowRunTable } from '#storage/tables/flow-tables.ts';

/** As literals, so that partial indexes are used (see jobs/job-store.ts). */
const collected = sql.lit<FlowRunState>('collected');
const started = sql.lit<FlowRunState>('started');

const flowRunColumns = [
  'run_id',
  'subject_id',
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

export async function insertFlowRuns(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly FlowRunTable[],
): Promise<void> {
  for (const query of insertRows(store, flowRunInsert, rows)) await store.defer(tx, query);
}

/** Runs that hold a place although they have ended, or were removed. */
export async function endedRuns(
  tx: Tx,
  subjectId: string,
  { isUnfinished, limit }: { isUnfinished: RawBuilder<boolean>; limit: number },
): Promise<FlowRunTable[]> {
  return tx
    .selectFrom('flow_runs')
    .select(flowRunColumns)
    .where('subject_id', '=', subjectId)
    .where('state', '=', started)
    .where(sql<boolean>`not ${isUnfinished}`)
    .limit(limit)
    .execute();
}

/**
 * They count for a throttle or rate limit for `keepMs`; without it they are removed. They leave their id to the next: all ticks of a
 * timer have one.
 */
export async function freePlaces(tx: Tx, ids: readonly string[], keepMs: number | undefined): Promise<void> {
  for (const part of chunks(ids)) {
    if (keepMs === undefined) await tx.deleteFrom('flow_runs').where('run_id', 'in', part).execute();
    else
      await tx
        .updateTable('flow_runs')
        .set(({ eb }) => ({
          run_id: sql<string>`run_id || '~' || started_ms`,
          state: 'ended',
          due_ms: eb('started_ms', '+', keepMs),
        }))
        .where('run_id', 'in', part)
        .execute();
  }
}

export async function pruneEnded(tx: Tx, subjectId: string, nowMs: number): Promise<void> {
  await tx
    .deleteFrom('flow_runs')
    .where('subject_id', '=', subjectId)
    .where('state', '=', 'ended')
    .where('due_ms', '<=', nowMs)
    .execute();
}

/** Runs that are collected for one of these keys. */
export async function collectedRuns(
  tx: Tx,
  subjectId: string,
  keys: readonly string[],
): Promise<FlowRunTable[]> {
  const rows: FlowRunTable[] = [];
  for (const part of chunks(keys))
    rows.push(
      ...(await tx
        .selectFrom('flow_runs')
        .select(flowRunColumns)
        .where('subject_id', '=', subjectId)
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
  subjectId: string,
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
      .where('subject_id', '=', subjectId)
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
  subjectId: string,
  { nowMs, limit }: { nowMs: number; limit: number },
): Promise<string[]> {
  const rows = await tx
    .selectFrom('flow_runs')
    .select('coalesce_key')
    .distinct()
    .where('subject_id', '=', subjectId)
    .where('state', '=', collected)
    .where('due_ms', '<=', nowMs)
    .limit(limit)
    .execute();
  return rows.flatMap(({ coalesce_key }) => (coalesce_key === null ? [] : [coalesce_key]));
}

/** Unfinished runs with one of these singleton keys that hold it. */
export async function singletonHolders(
  tx: Tx,
  subjectId: string,
  keys: readonly string[],
  isUnfinished: RawBuilder<boolean>,
): Promise<Pick<FlowRunTable, 'run_id' | 'singleton_key' | 'state'>[]> {
  const rows = [];
  for (const part of chunks(keys))
    rows.push(
      ...(await tx
        .selectFrom('flow_runs')
        .select(['run_id', 'singleton_key', 'state'])
        .where('subject_id', '=', subjectId)
        .where('singleton_key', 'in', part)
        .where('state', 'in', ['waiting', 'started'])
        .where(isUnfinished)
        .execute()),
    );
  return rows;
}

export async function deleteFlowRuns(tx: Tx, ids: readonly string[]): Promise<void> {
  for (const part of chunks(ids)) await tx.deleteFrom('flow_runs').where('run_id', 'in', part).execute();
}

export async function setFlowRuns(tx: Tx, ids: readonly string[], set: Partial<FlowRunTable>): Promise<void> {
  for (const part of chunks(ids))
    await tx.updateTable('flow_runs').set(set).where('run_id', 'in', part).execute();
}

export interface QueueHead {
  runId: string;
  groupKey: string;
}

/** The first runs of groups, in their order, at most `limit` of each. */
export async function queueHeads(
  tx: Tx,
  subjectId: string,
  wanted: readonly { groupKey: string; limit: number }[],
): Promise<QueueHead[]> {
  const heads: QueueHead[] = [];
  // One statement for many groups: each has a few in an index.
  const perStatement = 50;
  for (let at = 0; at < wanted.length; at += perStatement) {
    const parts = wanted.slice(at, at + perStatement).map(
      ({ groupKey, limit }) => sql<{ run_id: string; group_key: string; place_ms: number }>`
        select * from (select run_id, group_key, place_ms from flow_runs
          where subject_id = ${subjectId} and state = 'waiting' and group_key = ${groupKey}
          order by place_ms, run_id limit ${limit}) as part`,
    );
    const { rows } = await sql<{ run_id: string; group_key: string }>`
      ${sql.join(parts, sql` union all `)} order by place_ms, run_id`.execute(tx);
    for (const row of rows) heads.push({ runId: row.run_id, groupKey: row.group_key });
  }
  return heads;
}
