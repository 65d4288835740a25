import type { Db } from '#storage/store.ts';
import type { RunStepTable } from '#storage/tables/workflow-tables.ts';

export type CurrentStep = Pick<RunStepTable, 'run_id' | 'namespace' | 'error'>;

/** The records of the steps at which these runs are, the later tries last. */
export async function currentStepsOf(db: Db, runIds: readonly string[]): Promise<CurrentStep[]> {
  if (runIds.length === 0) return [];
  return db
    .selectFrom('run_steps')
    .innerJoin('runs', (join) =>
      join.onRef('runs.id', '=', 'run_steps.run_id').onRef('runs.position', '=', 'run_steps.position'),
    )
    .select(['run_steps.run_id', 'run_steps.namespace', 'run_steps.error'])
    .where('run_steps.run_id', 'in', [...runIds])
    .where('run_steps.iteration', '=', '')
    .orderBy('run_steps.try')
    .execute();
}

/** How many branches of each run wait. */
export async function waitingBranchesOf(db: Db, runIds: readonly string[]): Promise<Map<string, number>> {
  if (runIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('run_waits')
    .select('run_id')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('run_id', 'in', [...runIds])
    .groupBy('run_id')
    .execute();
  return new Map(rows.map(({ run_id, count }) => [run_id, Number(count)]));
}
