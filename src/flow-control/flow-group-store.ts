import { sql } from 'kysely';
import { chunks } from '#lib/chunks.ts';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { FlowGroupTable, FlowRunState } from '#storage/tables/flow-tables.ts';

/** As literals, so that partial indexes are used (see jobs/job-store.ts). */
const collected = sql.lit<FlowRunState>('collected');

const flowGroupInsert: RowInsert<'flow_groups'> = {
  table: 'flow_groups',
  columns: [
    ...['subject_id', 'group_key', 'concurrency_key', 'throttle_key'],
    ...['rate_key', 'blocked_by', 'wake_ms', 'served_ms'],
  ] as (keyof FlowGroupTable)[],
  ending: 'on conflict (subject_id, group_key) do nothing',
};

/** A group that is there already stays as it is. */
export async function insertGroups(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly FlowGroupTable[],
): Promise<void> {
  for (const query of insertRows(store, flowGroupInsert, rows)) await store.defer(tx, query);
}

const flowGroupColumns = [
  'subject_id',
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
  subjectId: string,
  { nowMs, limit }: { nowMs: number; limit: number },
): Promise<FlowGroupTable[]> {
  return tx
    .selectFrom('flow_groups')
    .select(flowGroupColumns)
    .where('subject_id', '=', subjectId)
    .where('wake_ms', '<=', nowMs)
    .orderBy('served_ms')
    .orderBy('group_key')
    .limit(limit)
    .execute();
}

/** Wakes groups that wait for a place of a concurrency key: `places` of each, those that were served longest ago first. */
export async function wakeBlocked(
  tx: Tx,
  subjectId: string,
  { key, places, nowMs }: { key: string; places: number; nowMs: number },
): Promise<void> {
  const groups = await tx
    .selectFrom('flow_groups')
    .select('group_key')
    .where('subject_id', '=', subjectId)
    .where('concurrency_key', '=', key)
    .where('wake_ms', 'is', null)
    .orderBy('served_ms')
    .limit(places)
    .execute();
  if (groups.length === 0) return;
  await tx
    .updateTable('flow_groups')
    .set({ wake_ms: nowMs })
    .where('subject_id', '=', subjectId)
    .where(
      'group_key',
      'in',
      groups.map(({ group_key }) => group_key),
    )
    .execute();
}

/** Wakes groups that wait for any place of a source, those that were served longest ago first. */
export async function wakeBlockedBySource(
  tx: Tx,
  subjectId: string,
  { places, nowMs }: { places: number; nowMs: number },
): Promise<void> {
  if (places <= 0) return;
  const groups = tx
    .selectFrom('flow_groups')
    .select('group_key')
    .where('subject_id', '=', subjectId)
    .where('blocked_by', '=', 'source_concurrency')
    .orderBy('served_ms')
    .limit(places);
  await tx
    .updateTable('flow_groups')
    .set({ wake_ms: nowMs, blocked_by: null })
    .where('subject_id', '=', subjectId)
    .where('group_key', 'in', groups)
    .execute();
}

/** As `wakeBlocked`, where each concurrency key has only one group, so that all are woken. */
export async function wakeGroupsOf(
  tx: Tx,
  subjectId: string,
  keys: readonly string[],
  nowMs: number,
): Promise<void> {
  for (const part of chunks(keys))
    await tx
      .updateTable('flow_groups')
      .set({ wake_ms: nowMs })
      .where('subject_id', '=', subjectId)
      .where('concurrency_key', 'in', part)
      .where('wake_ms', 'is', null)
      .execute();
}

/** The settings have changed: everything is looked at again. */
export async function wakeAll(tx: Tx, subjectId: string, nowMs: number): Promise<void> {
  await tx.updateTable('flow_groups').set({ wake_ms: nowMs }).where('subject_id', '=', subjectId).execute();
  await tx
    .updateTable('flow_runs')
    .set({ due_ms: nowMs })
    .where('subject_id', '=', subjectId)
    .where('state', '=', collected)
    .execute();
}

/** What groups are like after a look: the same change for all of `keys`. */
export async function updateGroups(
  tx: Tx,
  subjectId: string,
  keys: readonly string[],
  set: Partial<Pick<FlowGroupTable, 'blocked_by' | 'wake_ms' | 'served_ms'>>,
): Promise<void> {
  for (const part of chunks(keys))
    await tx
      .updateTable('flow_groups')
      .set(set)
      .where('subject_id', '=', subjectId)
      .where('group_key', 'in', part)
      .execute();
}

export async function deleteGroups(tx: Tx, subjectId: string, keys: readonly string[]): Promise<void> {
  for (const part of chunks(keys))
    await tx
      .deleteFrom('flow_groups')
      .where('subject_id', '=', subjectId)
      .where('group_key', 'in', part)
      .execute();
}
