import { sql } from 'kysely';
import type { Db } from '#storage/store.ts';
import type { FlowGroupTable, FlowRunState, FlowRunTable } from '#storage/tables/flow-tables.ts';

export async function findFlowRuns(db: Db, runIds: readonly string[]): Promise<FlowRunTable[]> {
  if (runIds.length === 0) return [];
  return db
    .selectFrom('flow_runs')
    .selectAll()
    .where('run_id', 'in', [...runIds])
    .execute();
}

export async function findGroup(
  db: Db,
  subjectId: string,
  groupKey: string,
): Promise<FlowGroupTable | undefined> {
  return db
    .selectFrom('flow_groups')
    .selectAll()
    .where('subject_id', '=', subjectId)
    .where('group_key', '=', groupKey)
    .executeTakeFirst();
}

export async function countCollected(db: Db, subjectId: string, key: string): Promise<number> {
  const row = await db
    .selectFrom('flow_runs')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('subject_id', '=', subjectId)
    .where('state', '=', sql.lit<FlowRunState>('collected'))
    .where('coalesce_key', '=', key)
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

export async function countByState(db: Db, subjectId: string): Promise<Map<FlowRunState, number>> {
  const rows = await db
    .selectFrom('flow_runs')
    .select('state')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('subject_id', '=', subjectId)
    .groupBy('state')
    .execute();
  return new Map(rows.map(({ state, count }) => [state, Number(count)]));
}

/** The groups with the most waiting runs. */
export async function longestGroups(
  db: Db,
  subjectId: string,
  limit: number,
): Promise<(FlowGroupTable & { waiting: number })[]> {
  const rows = await db
    .selectFrom((from) =>
      from
        .selectFrom('flow_runs')
        .select('group_key')
        .select(({ fn }) => fn.countAll<number>().as('waiting'))
        .where('subject_id', '=', subjectId)
        .where('state', '=', sql.lit<FlowRunState>('waiting'))
        .groupBy('group_key')
        .orderBy('waiting', 'desc')
        .orderBy('group_key')
        .limit(limit)
        .as('longest'),
    )
    .innerJoin('flow_groups', (join) =>
      join
        .onRef('flow_groups.group_key', '=', 'longest.group_key')
        .on('flow_groups.subject_id', '=', subjectId),
    )
    .selectAll('flow_groups')
    .select('longest.waiting')
    .orderBy('longest.waiting', 'desc')
    .orderBy('flow_groups.group_key')
    .execute();
  return rows.map((row) => ({ ...row, waiting: Number(row.waiting) }));
}

/** The concurrency keys with the most runs under way. */
export async function startedCounts(
  db: Db,
  subjectId: string,
  limit: number,
): Promise<{ key: string; count: number }[]> {
  const rows = await db
    .selectFrom('flow_runs')
    .select('concurrency_key')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('subject_id', '=', subjectId)
    .where('state', '=', sql.lit<FlowRunState>('started'))
    .groupBy('concurrency_key')
    .orderBy('count', 'desc')
    .orderBy('concurrency_key')
    .limit(limit)
    .execute();
  return rows.map(({ concurrency_key, count }) => ({ key: concurrency_key, count: Number(count) }));
}
