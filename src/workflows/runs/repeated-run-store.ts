import type { Db, Tx } from '#storage/store.ts';

/** Those of these runs of which there is a replay or restart. */
export async function repeatedAmong(tx: Tx, runIds: readonly string[]): Promise<Set<string>> {
  if (runIds.length === 0) return new Set();
  const rows = await tx
    .selectFrom('runs')
    .select('replay_of')
    .where('replay_of', 'in', [...runIds])
    .execute();
  return new Set(rows.flatMap(({ replay_of }) => replay_of ?? []));
}

/**
 * True when a request may continue after this run: the workflow has it, or it comes before all ended runs that are kept, as a run does
 * that was removed since. The answer says nothing of runs of others.
 */
export async function isPlaceAmongRuns(db: Db, workflowId: string, runId: string): Promise<boolean> {
  if (!/^[0-9A-Za-z]{27}$/.test(runId)) return false;
  const own = await db
    .selectFrom('runs')
    .select('id')
    .where('workflow_id', '=', workflowId)
    .where('id', '=', runId)
    .executeTakeFirst();
  if (own !== undefined) return true;
  const oldest = await db
    .selectFrom('runs')
    .select(({ fn }) => fn.min('id').as('id'))
    .where('workflow_id', '=', workflowId)
    .where('ended_at_ms', 'is not', null)
    .executeTakeFirst();
  return oldest?.id != null && runId < oldest.id;
}
