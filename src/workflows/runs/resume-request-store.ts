import type { CompiledQuery } from 'kysely';
import type { Db, Tx } from '#storage/store.ts';
import type { RunResumeTable } from '#storage/tables/workflow-tables.ts';
import type { WaitPlace } from './run-link.ts';

/** Requests to resume or cancel that came while their step was still running, and that no run has yet. */
export async function waitingResumesOf(
  tx: Tx,
  runIds: readonly string[],
): Promise<Pick<RunResumeTable, 'run_id' | 'position' | 'iteration' | 'try' | 'kind' | 'request'>[]> {
  return tx
    .selectFrom('run_resumes')
    .select(['run_id', 'position', 'iteration', 'try', 'kind', 'request'])
    .where('run_id', 'in', [...runIds])
    .where('request', 'is not', null)
    .execute();
}

/** How the wait of a try was answered; undefined: it was not. */
export async function findResume(
  db: Db,
  runId: string,
  wait: WaitPlace,
): Promise<Pick<RunResumeTable, 'kind' | 'created_at_ms'> | undefined> {
  return db
    .selectFrom('run_resumes')
    .select(['kind', 'created_at_ms'])
    .where('run_id', '=', runId)
    .where('position', '=', wait.position)
    .where('iteration', '=', wait.iteration)
    .where('try', '=', wait.try)
    .executeTakeFirst();
}

/** With the run locked, after `findResume`. */
export async function insertResume(tx: Tx, row: RunResumeTable): Promise<void> {
  await tx.insertInto('run_resumes').values(row).execute();
}

/** The run has the request, or no longer needs it. Only the fact that the wait was answered, and how, remains. */
export function clearResumeQuery(tx: Tx, runId: string, wait: WaitPlace): CompiledQuery {
  return tx
    .updateTable('run_resumes')
    .set({ request: null })
    .where('run_id', '=', runId)
    .where('position', '=', wait.position)
    .where('iteration', '=', wait.iteration)
    .where('try', '=', wait.try)
    .compile();
}

/** The wait was not answered after all. */
export function deleteResumeQuery(tx: Tx, runId: string, wait: WaitPlace): CompiledQuery {
  return tx
    .deleteFrom('run_resumes')
    .where('run_id', '=', runId)
    .where('position', '=', wait.position)
    .where('iteration', '=', wait.iteration)
    .where('try', '=', wait.try)
    .compile();
}
