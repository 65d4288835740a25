import { sql } from 'kysely';
import type { Db } from '#storage/store.ts';
import type { RunSourceType } from '#storage/tables/workflow-tables.ts';

/** Runs of a workflow that events have started. */
export interface RunAmounts {
  /** Those that wait for their turn, and the bytes of their events. */
  queued: number;
  bytes: number;
  /** Those that have begun, and do not wait for anything. */
  running: number;
}

/** Sources and workflows: what came by a subscription. */
const bySubscription: readonly RunSourceType[] = ['COMPONENT', 'WORKFLOW'];

/** How many runs of a workflow that events have started are queued or running; up to `limit` of each are counted. */
export async function countEventRuns(db: Db, workflowId: string, limit: number): Promise<RunAmounts> {
  const amounts: RunAmounts = { queued: 0, bytes: 0, running: 0 };
  for (const state of ['queued', 'running'] as const) {
    const row = await db
      .selectFrom((from) =>
        from
          .selectFrom('runs')
          .select((select) => select.fn<number>('octet_length', ['event']).as('bytes'))
          .where('workflow_id', '=', workflowId)
          .where('state', '=', state)
          .where('source_type', 'in', bySubscription)
          .where('ended_at_ms', 'is', null)
          .limit(limit)
          .as('counted'),
      )
      .select((select) => [
        select.fn.countAll<number>().as('runs'),
        select.fn.coalesce(select.fn.sum<number>('bytes'), sql.lit(0)).as('bytes'),
      ])
      .executeTakeFirst();
    amounts[state] = Number(row?.runs ?? 0);
    if (state === 'queued') amounts.bytes = Number(row?.bytes ?? 0);
  }
  return amounts;
}
