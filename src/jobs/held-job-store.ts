import { sql } from 'kysely';
import type { Db, Tx } from '#storage/store.ts';
import { arrivalLane, arrivedMs, heldMs } from './held-jobs.ts';
import type { JobPayloads } from './job-kinds.ts';
import { queued, rowsPerStatement } from './job-store.ts';
import { sharedLane } from './shared-lane.ts';

export interface ArrivedJob {
  id: string;
  payload: JobPayloads['run_workflow' | 'run_source'];
  createdAtMs: number;
}

/** Lanes in which jobs have arrived, at most `limit`. */
export async function arrivalLanes(db: Db, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('jobs')
    .select('lane')
    .distinct()
    .where('state', '=', queued)
    .where('run_at_ms', '=', arrivedMs)
    .limit(limit)
    .execute();
  return rows.flatMap(({ lane }) => (lane === null ? [] : [lane]));
}

/** Jobs that have arrived in a lane, oldest first. */
export async function arrivedJobs(db: Db, lane: string, limit: number): Promise<ArrivedJob[]> {
  const rows = await db
    .selectFrom('jobs')
    .select(['id', 'payload', 'created_at_ms'])
    .where('lane', '=', lane)
    .where('state', '=', queued)
    .where('run_at_ms', '=', arrivedMs)
    .orderBy('created_at_ms')
    .orderBy('id')
    .limit(limit)
    .execute();
  return rows.map(({ id, payload, created_at_ms }) => ({
    id,
    payload: JSON.parse(payload) as ArrivedJob['payload'],
    createdAtMs: created_at_ms,
  }));
}

/** The keys of an arrived job are known now. */
export async function setArrivedPayload(
  tx: Tx,
  { id, subject, payload }: { id: string; subject: string; payload: ArrivedJob['payload'] },
): Promise<void> {
  await tx
    .updateTable('jobs')
    .set({ lane: arrivalLane(subject, { isEvaluated: true }), payload: JSON.stringify(payload) })
    .where('id', '=', id)
    .where('lane', '=', arrivalLane(subject, { isEvaluated: false }))
    .execute();
}

/** Flow control has taken them in. */
export async function holdJobs(
  tx: Tx,
  { ids, subject, nowMs }: { ids: readonly string[]; subject: string; nowMs: number },
): Promise<void> {
  for (let at = 0; at < ids.length; at += rowsPerStatement)
    await tx
      .updateTable('jobs')
      .set({ lane: sharedLane(subject), run_at_ms: heldMs, updated_at_ms: nowMs })
      .where('id', 'in', ids.slice(at, at + rowsPerStatement))
      .where('state', '=', queued)
      .where('run_at_ms', '=', arrivedMs)
      .execute();
}

/** They may run now, in this lane. Returns the ids of those that were still held: others were removed. */
export async function releaseJobs(
  tx: Tx,
  { ids, lane, nowMs }: { ids: readonly string[]; lane: string; nowMs: number },
): Promise<Set<string>> {
  const released = new Set<string>();
  for (let at = 0; at < ids.length; at += rowsPerStatement) {
    const rows = await tx
      .updateTable('jobs')
      .set({ lane, run_at_ms: nowMs, updated_at_ms: nowMs })
      .where('id', 'in', ids.slice(at, at + rowsPerStatement))
      .where('state', '=', queued)
      .where('run_at_ms', '=', sql.lit(heldMs))
      .returning('id')
      .execute();
    for (const { id } of rows) released.add(id);
  }
  return released;
}

/** True for a row of `flow_runs` whose job is there: a job of the same id that has just arrived is the next one. */
export const isUnfinishedJob = sql<boolean>`exists (select 1 from jobs
  where jobs.id = flow_runs.run_id and jobs.run_at_ms <> ${sql.lit(arrivedMs)})`;

/** Payloads of those of these jobs that are still there. */
export async function heldPayloads(
  tx: Tx,
  ids: readonly string[],
): Promise<Map<string, ArrivedJob['payload']>> {
  const payloads = new Map<string, ArrivedJob['payload']>();
  for (let at = 0; at < ids.length; at += rowsPerStatement) {
    const rows = await tx
      .selectFrom('jobs')
      .select(['id', 'payload'])
      .where('id', 'in', ids.slice(at, at + rowsPerStatement))
      .execute();
    for (const { id, payload } of rows) payloads.set(id, JSON.parse(payload) as ArrivedJob['payload']);
  }
  return payloads;
}

export async function setHeldPayload(tx: Tx, id: string, payload: ArrivedJob['payload']): Promise<void> {
  await tx
    .updateTable('jobs')
    .set({ payload: JSON.stringify(payload) })
    .where('id', '=', id)
    .execute();
}

/** Jobs of a subject that flow control has not looked at yet. */
export async function countArrived(db: Db, subject: string): Promise<number> {
  const row = await db
    .selectFrom('jobs')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where(
      'lane',
      'in',
      [true, false].map((isEvaluated) => arrivalLane(subject, { isEvaluated })),
    )
    .where('state', '=', queued)
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}
