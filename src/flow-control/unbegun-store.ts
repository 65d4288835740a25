import type { Db, Tx } from '#storage/store.ts';
import type { UnbegunEnd } from './flow-target.ts';

/** Runs of one source that never began whose reasons are kept. The totals of the queue count all of them. */
const unbegunKept = 100;

/** Keeps the last of these reasons, for runs that are jobs and nothing else. */
export async function recordUnbegun(
  tx: Tx,
  subject: { id: string; ownerId: string },
  ends: readonly UnbegunEnd[],
  nowMs: number,
): Promise<void> {
  const rows = ends.slice(-unbegunKept).map(({ runId, reason }) => ({
    subject_id: subject.id,
    run_id: runId,
    owner_id: subject.ownerId,
    reason,
    ended_ms: nowMs,
  }));
  if (rows.length === 0) return;
  await tx
    .insertInto('flow_unbegun')
    .values(rows)
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  const first = await tx
    .selectFrom('flow_unbegun')
    .select(['ended_ms', 'run_id'])
    .where('subject_id', '=', subject.id)
    .orderBy('ended_ms', 'desc')
    .orderBy('run_id', 'desc')
    .offset(unbegunKept)
    .limit(1)
    .executeTakeFirst();
  if (first === undefined) return;
  await tx
    .deleteFrom('flow_unbegun')
    .where('subject_id', '=', subject.id)
    .where((where) =>
      where.or([
        where('ended_ms', '<', first.ended_ms),
        where.and([where('ended_ms', '=', first.ended_ms), where('run_id', '<=', first.run_id)]),
      ]),
    )
    .execute();
}

/** The runs of a source that never began, the last first. */
export async function lastUnbegun(
  db: Db,
  subjectId: string,
): Promise<{ runId: string; reason: string; endedMs: number }[]> {
  const rows = await db
    .selectFrom('flow_unbegun')
    .select(['run_id', 'reason', 'ended_ms'])
    .where('subject_id', '=', subjectId)
    .orderBy('ended_ms', 'desc')
    .orderBy('run_id', 'desc')
    .limit(unbegunKept)
    .execute();
  return rows.map(({ run_id, reason, ended_ms }) => ({ runId: run_id, reason, endedMs: Number(ended_ms) }));
}
