import { insertNewJobs } from '#jobs/job-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import type { RunTrigger } from './run.ts';
import { insertRuns } from './run-store.ts';

/** The rows of a new run, and what to call when the transaction that inserts them is on disk. */
export interface PreparedRows {
  run: RunTable;
  job: JobTable;
  stored: () => void;
}

/** What makes them: start-run.ts. */
export interface RunPreparer {
  prepare(trigger: RunTrigger): PreparedRows;
}

/** Inserts new runs with their jobs, many in two statements, and wakes the workers of other processes. */
export async function insertPrepared(
  store: Dialect & Pick<Store, 'defer' | 'notify'>,
  tx: Tx,
  prepared: readonly PreparedRows[],
): Promise<void> {
  if (prepared.length === 0) return;
  await insertRuns(
    store,
    tx,
    prepared.map(({ run }) => run),
  );
  await insertNewJobs(
    store,
    tx,
    prepared.map(({ job }) => job),
  );
  await store.notify(tx, 'millrace_jobs', '');
}
