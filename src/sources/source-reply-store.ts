import type { Db, Tx } from '#storage/store.ts';

/** Keeps what a run answered for the node where the caller waits; the first answer counts. */
export async function insertReply(
  tx: Tx,
  row: { job_id: string; node: string; reply: string | null; created_at_ms: number },
): Promise<void> {
  await tx
    .insertInto('source_replies')
    .values(row)
    .onConflict((conflict) => conflict.column('job_id').doNothing())
    .execute();
}

/** Which of these runs have answered, and what. */
export async function findReplies(
  db: Db,
  jobIds: readonly string[],
): Promise<{ job_id: string; reply: string | null }[]> {
  if (jobIds.length === 0) return [];
  return db
    .selectFrom('source_replies')
    .select(['job_id', 'reply'])
    .where('job_id', 'in', [...jobIds])
    .execute();
}

/** Those of these jobs that are neither waiting nor running, nor set aside. */
export async function goneJobs(db: Db, jobIds: readonly string[]): Promise<Set<string>> {
  if (jobIds.length === 0) return new Set();
  const rows = await db
    .selectFrom('jobs')
    .select('id')
    .where('id', 'in', [...jobIds])
    .execute();
  return new Set(jobIds).difference(new Set(rows.map(({ id }) => id)));
}

export async function deleteReplies(tx: Tx, jobIds: readonly string[]): Promise<void> {
  if (jobIds.length === 0) return;
  await tx
    .deleteFrom('source_replies')
    .where('job_id', 'in', [...jobIds])
    .execute();
}

/** Removes replies that no caller fetched: those older than `beforeMs`, at most `limit`. */
export async function pruneReplies(tx: Tx, beforeMs: number, limit: number): Promise<void> {
  const old = tx
    .selectFrom('source_replies')
    .select('job_id')
    .where('created_at_ms', '<', beforeMs)
    .limit(limit);
  await tx.deleteFrom('source_replies').where('job_id', 'in', old).execute();
}
