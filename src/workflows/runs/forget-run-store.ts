import type { RemoveOfOwner } from '#identity/retention-pruner.ts';
import { isNotHeld } from '#identity/retention-store.ts';
import { deleteJobsOf } from '#jobs/run-job-store.ts';
import type { Db, Tx } from '#storage/store.ts';

/** Removes runs that are not to be kept. What they still have to send stays until it was sent (workflows/sends/send-store.ts). */
export async function forgetRuns(tx: Tx, ids: readonly string[]): Promise<void> {
  await deletePartsOf(tx, ids, ['run_steps', 'run_resumes', 'run_waits']);
  await tx
    .deleteFrom('run_sends')
    .where('run_id', 'in', [...ids])
    .where((where) => where.or([where('kind', '=', 'emit'), where('state', '!=', 'queued')]))
    .execute();
  await tx
    .deleteFrom('runs')
    .where('id', 'in', [...ids])
    .execute();
}

/** Rows of some runs, but their own. */
async function deletePartsOf(
  tx: Tx,
  ids: readonly string[],
  tables: readonly ('run_steps' | 'run_resumes' | 'run_waits' | 'run_sends')[],
): Promise<void> {
  for (const table of tables)
    await tx
      .deleteFrom(table)
      .where('run_id', 'in', [...ids])
      .execute();
}

export async function deleteRuns(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await deletePartsOf(tx, ids, ['run_steps', 'run_resumes', 'run_waits', 'run_sends']);
  await tx
    .deleteFrom('runs')
    .where('id', 'in', [...ids])
    .execute();
}

/** Ended runs of a workflow beyond the `keep` newest, oldest first, at most `limit`. */
export async function runsToPrune(
  db: Db,
  workflowId: string,
  { keep, limit }: { keep: number; limit: number },
): Promise<string[]> {
  const edge = await db
    .selectFrom('runs')
    .select(['created_at_ms', 'id'])
    .where('workflow_id', '=', workflowId)
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .where('ended_at_ms', 'is not', null)
    .where(isNotHeld)
    .offset(keep)
    .limit(1)
    .executeTakeFirst();
  if (edge === undefined) return [];
  const rows = await db
    .selectFrom('runs')
    .select('id')
    .where('workflow_id', '=', workflowId)
    .where((where) =>
      where.or([
        where('created_at_ms', '<', edge.created_at_ms),
        where.and([where('created_at_ms', '=', edge.created_at_ms), where('id', '<=', edge.id)]),
      ]),
    )
    .where('ended_at_ms', 'is not', null)
    .orderBy('created_at_ms')
    .orderBy('id')
    .limit(limit)
    .execute();
  return rows.map((row) => row.id);
}

/** Removes runs of an owner's workflows that ended before a time. */
export const removeRunsBefore: RemoveOfOwner = async (tx, { ownerId, beforeMs, limit }) => {
  const rows = await tx
    .selectFrom('runs')
    .select('id')
    .where('workflow_id', 'in', (from) =>
      from.selectFrom('workflows').select('id').where('owner_id', '=', ownerId),
    )
    // What began later has not ended earlier: so this is a range of the index.
    .where('created_at_ms', '<', beforeMs)
    .where('ended_at_ms', '<', beforeMs)
    .limit(limit)
    .execute();
  if (rows.length > 0)
    await forgetRuns(
      tx,
      rows.map(({ id }) => id),
    );
  return rows.length;
};

/** Workflows that may have more than `keep` runs, for a look over all of them at start. */
export async function workflowsWithRuns(db: Db, keep: number): Promise<string[]> {
  const rows = await db
    .selectFrom('runs')
    .select('workflow_id')
    .groupBy('workflow_id')
    .having((having) => having(having.fn.countAll(), '>', keep))
    .execute();
  return rows.map((row) => row.workflow_id);
}

/** Removes runs of a removed workflow with all that is theirs, at most `limit`. True when none is left. */
export async function deleteRunsOf(tx: Tx, workflowId: string, limit: number): Promise<boolean> {
  const runs = await tx
    .selectFrom('runs')
    .select('id')
    .where('workflow_id', '=', workflowId)
    .orderBy('created_at_ms')
    .limit(limit)
    .execute();
  const ids = runs.map((run) => run.id);
  if (ids.length > 0) {
    // The jobs first: who runs one of them finds out that it is gone before it finds its run gone.
    await deleteJobsOf(tx, ids);
    await deleteRuns(tx, ids);
  }
  return ids.length < limit;
}
