import type { CompiledQuery } from 'kysely';
import { queued, running } from '#jobs/job-store.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';

/** What happened to a job before it made progress is not held against it. */
const innocent = { losses: 0, blames: 0 };

/** Which of these jobs this node still holds: a run is recorded only by who holds its job. Locks them where there are locks. */
export function heldJobsQuery(
  store: Pick<Store, 'name'>,
  tx: Tx,
  { node, ids }: { node: string; ids: readonly string[] },
): CompiledQuery<{ id: string; attempts: number }> {
  let query = tx
    .selectFrom('jobs')
    .select(['id', 'attempts'])
    .where('id', 'in', [...ids])
    .where('state', '=', running)
    .where('lease_node', '=', node);
  if (store.name === 'postgres') query = query.orderBy('id').forUpdate();
  return query.compile();
}

/** Gives the job of a waiting run back to the queue, to be run again at `runAtMs`. Progress was made: it counts anew. */
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

/** Runs that a throttle does not let in yet go back into the queue: they have not begun, whoever made them. */
export async function postponeRuns(
  tx: Tx,
  node: string,
  jobs: readonly { id: string; attempts: number; runAtMs: number }[],
  nowMs: number,
): Promise<void> {
  const held: string[] = [];
  // A throttle holds many at a time, until the same moment: a statement each would hold up everybody else.
  for (const group of Map.groupBy(jobs, ({ attempts, runAtMs }) => `${attempts} ${runAtMs}`).values()) {
    const [{ attempts, runAtMs } = { attempts: 0, runAtMs: 0 }] = group;
    const rows = await tx
      .updateTable('jobs')
      .set({
        state: 'queued',
        lease_node: null,
        attempts: attempts - 1,
        run_at_ms: runAtMs,
        error: 'waits for its throttle',
        updated_at_ms: nowMs,
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
  if (held.length === 0) return;
  await tx
    .updateTable('runs')
    .set({ state: 'queued', started_at_ms: null })
    .where('id', 'in', held)
    .where('state', '=', 'running')
    .execute();
}

/** Locks the job of a run, where there are locks; undefined when the run has none (any more). */
export async function lockJobOf(
  store: Pick<Store, 'name'>,
  tx: Tx,
  runId: string,
): Promise<Pick<JobTable, 'id' | 'state'> | undefined> {
  let query = tx.selectFrom('jobs').select(['id', 'state']).where('id', '=', runId);
  if (store.name === 'postgres') query = query.forUpdate();
  return query.executeTakeFirst();
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

/** Removes the job of a run that ends from outside, whoever holds it: its holder finds it gone at its next record. */
export async function deleteJobOf(tx: Tx, runId: string): Promise<void> {
  await tx.deleteFrom('jobs').where('id', '=', runId).execute();
}
