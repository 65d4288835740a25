import type { CompiledQuery } from 'kysely';
import type { Dialect } from '#storage/dialect.ts';
import type { Tx } from '#storage/store.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import { queued, running } from './job-store.ts';

/** What happened to a job before it made progress is not held against it. */
const innocent = { losses: 0, blames: 0 };

/** Which of these jobs this node still holds: a run is recorded only by who holds its job. Locks them where there are locks. */
export function heldJobsQuery(
  store: Dialect,
  tx: Tx,
  { node, ids }: { node: string; ids: readonly string[] },
): CompiledQuery<{ id: string; attempts: number }> {
  const query = tx
    .selectFrom('jobs')
    .select(['id', 'attempts'])
    .where('id', 'in', [...ids])
    .where('state', '=', running)
    .where('lease_node', '=', node)
    .orderBy('id');
  return store.lockRows(query).compile();
}

/** Gives the job of a waiting run back to the queue, to be run again at `runAtMs`. The run made progress, so its attempts count from zero. */
export function parkJobQuery(tx: Tx, job: { id: string; runAtMs: number; nowMs: number }): CompiledQuery {
  return tx
    .updateTable('jobs')
    .set({
      state: 'queued',
      lease_node: null,
      attempts: 0,
      ...innocent,
      alone: 0,
      run_at_ms: job.runAtMs,
      error: null,
      updated_at_ms: job.nowMs,
    })
    .where('id', '=', job.id)
    .compile();
}

/** Losses, blames and attempts of a job are counted as long as it makes no progress: a finished step is progress. */
export function resetAttemptsQuery(tx: Tx, ids: readonly string[]): CompiledQuery {
  return tx
    .updateTable('jobs')
    .set({ attempts: 1, ...innocent })
    .where('id', 'in', [...ids])
    .compile();
}

/** Gives jobs that this node holds back to the queue as if they had not begun. Returns the ids of those that it held. */
export async function postponeJobs(
  tx: Tx,
  node: string,
  jobs: readonly { id: string; attempts: number; runAtMs: number }[],
  options: { error: string; nowMs: number },
): Promise<string[]> {
  const held: string[] = [];
  // Many are put off at a time, until the same moment: a statement each would delay all other writers.
  for (const group of Map.groupBy(jobs, ({ attempts, runAtMs }) => `${attempts} ${runAtMs}`).values()) {
    const [{ attempts, runAtMs } = { attempts: 0, runAtMs: 0 }] = group;
    const rows = await tx
      .updateTable('jobs')
      .set({
        state: 'queued',
        lease_node: null,
        attempts: attempts - 1,
        run_at_ms: runAtMs,
        error: options.error,
        updated_at_ms: options.nowMs,
      })
      .where(
        'id',
        'in',
        group.map(({ id }) => id),
      )
      .where('state', '=', running)
      .where('lease_node', '=', node)
      .where('attempts', '=', attempts)
      .returning('id')
      .execute();
    for (const { id } of rows) held.push(id);
  }
  return held;
}

/** Locks the job of a run, where there are locks; undefined when the run has none. */
export async function lockJobOf(
  store: Dialect,
  tx: Tx,
  runId: string,
): Promise<Pick<JobTable, 'id' | 'state'> | undefined> {
  const query = tx.selectFrom('jobs').select(['id', 'state']).where('id', '=', runId);
  return store.lockRows(query).executeTakeFirst();
}

/** Has a queued job run now. */
export async function wakeJob(tx: Tx, runId: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('jobs')
    .set({ run_at_ms: nowMs, updated_at_ms: nowMs })
    .where('id', '=', runId)
    .where('state', '=', queued)
    .execute();
}

/** Removes the jobs of runs that end from outside, whichever node holds them: it finds them gone at its next record. */
export async function deleteJobsOf(tx: Tx, runIds: readonly string[]): Promise<void> {
  await tx
    .deleteFrom('jobs')
    .where('id', 'in', [...runIds])
    .execute();
}
