import { sql } from 'kysely';
import type { Db } from '#storage/store.ts';

/**
 * Runs of a workflow that have not begun, and the bytes of their events; at most `limit` are counted. Those that wait for
 * a time or a request have begun, and are no backlog.
 */
export async function runBacklog(
  db: Db,
  workflowId: string,
  limit: number,
): Promise<{ jobs: number; bytes: number }> {
  const row = await db
    .selectFrom((from) =>
      from
        .selectFrom('runs')
        .select((select) => select.fn<number>('octet_length', ['event']).as('bytes'))
        .where('workflow_id', '=', workflowId)
        .where('state', '=', 'queued')
        .where('ended_at_ms', 'is', null)
        .limit(limit)
        .as('waiting'),
    )
    .select((select) => [
      select.fn.countAll<number>().as('jobs'),
      select.fn.coalesce(select.fn.sum<number>('bytes'), sql.lit(0)).as('bytes'),
    ])
    .executeTakeFirst();
  return { jobs: Number(row?.jobs ?? 0), bytes: Number(row?.bytes ?? 0) };
}
