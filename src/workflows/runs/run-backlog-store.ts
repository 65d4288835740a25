import { sql } from 'kysely';
import type { Backlog } from '#lib/backlog-limiter.ts';
import type { Db } from '#storage/store.ts';
import type { RunSourceType } from '#storage/tables/workflow-tables.ts';

/**
 * Runs of a workflow that have not begun, and the bytes of their events; at most `limit` are counted. Those that wait for
 * a time or a request have begun, and are no backlog.
 */
export async function runBacklog(
  db: Db,
  workflowId: string,
  limit: number,
): Promise<{ jobs: number; bytes: number }> {
  const { count, bytes } = await countRuns(db, { workflowId, state: 'queued', limit });
  return { jobs: count, bytes };
}

/** Runs of a workflow that events have started: those that wait for their turn, and the bytes of their events. */
export interface EventRuns extends Backlog {
  /** Those that have begun, and do not wait for anything. */
  running: number;
}

/** Sources and workflows: what came by a subscription. */
const bySubscription: readonly RunSourceType[] = ['COMPONENT', 'WORKFLOW'];

/** How many runs of a workflow that events have started are queued or running; up to `limit` of each are counted. */
export async function countEventRuns(db: Db, workflowId: string, limit: number): Promise<EventRuns> {
  const options = { workflowId, sourceTypes: bySubscription, limit };
  const queued = await countRuns(db, { ...options, state: 'queued' });
  const { count: running } = await countRuns(db, { ...options, state: 'running' });
  return { ...queued, running };
}

async function countRuns(
  db: Db,
  options: {
    workflowId: string;
    state: 'queued' | 'running';
    /** Default: any. */
    sourceTypes?: readonly RunSourceType[];
    limit: number;
  },
): Promise<Backlog> {
  const { workflowId, state, sourceTypes, limit } = options;
  const row = await db
    .selectFrom((from) =>
      from
        .selectFrom('runs')
        .select((select) => select.fn<number>('octet_length', ['event']).as('bytes'))
        .where('workflow_id', '=', workflowId)
        .where('state', '=', state)
        .$if(sourceTypes !== undefined, (query) => query.where('source_type', 'in', sourceTypes ?? []))
        .where('ended_at_ms', 'is', null)
        .limit(limit)
        .as('counted'),
    )
    .select((select) => [
      select.fn.countAll<number>().as('runs'),
      select.fn.coalesce(select.fn.sum<number>('bytes'), sql.lit(0)).as('bytes'),
    ])
    .executeTakeFirst();
  return { count: Number(row?.runs ?? 0), bytes: Number(row?.bytes ?? 0) };
}
