import { sql } from 'kysely';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { RunStepTable } from '#storage/tables/workflow-tables.ts';
import type { EndedStep } from './run.ts';
import type { WaitPlace } from './run-link.ts';

const stepColumns = [
  'run_id',
  'owner_id',
  'workflow_id',
  'position',
  'iteration',
  'attempt',
  'try',
  'step_id',
  'namespace',
  'state',
  'input',
  'exports',
  'logs',
  'error',
  'started_at_ms',
  'ended_at_ms',
] as const satisfies readonly (keyof RunStepTable)[];

const stepInsert: RowInsert<'run_steps'> = { table: 'run_steps', columns: stepColumns };

export async function insertSteps(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly RunStepTable[],
): Promise<void> {
  for (const query of insertRows(store, stepInsert, rows)) await store.defer(tx, query);
}

/** The recorded tries of the steps of a run, in the order of the definition. */
export async function stepsOfRun(db: Db, runId: string): Promise<RunStepTable[]> {
  return db
    .selectFrom('run_steps')
    .select(stepColumns)
    .where('run_id', '=', runId)
    .orderBy('position')
    .orderBy('iteration')
    .orderBy('try')
    .execute();
}

/** What a node needs of the recorded steps of a run to continue it. `retried`: positions of blocks with retries. */
export async function endedStepsOf(db: Db, runId: string, retried: readonly number[]): Promise<EndedStep[]> {
  return db
    .selectFrom('run_steps')
    .select([
      ...(['position', 'iteration', 'attempt', 'try', 'namespace'] as const),
      ...(['state', 'exports', 'error', 'started_at_ms'] as const),
    ])
    .where('run_id', '=', runId)
    .where((where) => {
      const isEnded = where('state', 'in', ['succeeded', 'caught']);
      if (retried.length === 0) return isEnded;
      return where.or([isEnded, where('state', '=', 'failed').and('position', 'in', [...retried])]);
    })
    .orderBy('position')
    .orderBy('iteration')
    .orderBy('try')
    .execute();
}

/** The last recorded try of each step of a run, at each place. */
export async function lastTriesOf(
  db: Db,
  runId: string,
): Promise<Pick<RunStepTable, 'position' | 'iteration' | 'try'>[]> {
  const rows = await db
    .selectFrom('run_steps')
    .select(['position', 'iteration'])
    .select(({ fn }) => fn.max('try').as('try'))
    .where('run_id', '=', runId)
    .groupBy(['position', 'iteration'])
    .execute();
  return rows.map((row) => ({ ...row, try: Number(row.try) }));
}

/** How much is recorded of the steps of a run. */
export async function recordedOf(db: Db, runId: string): Promise<{ records: number; bytes: number }> {
  const row = await db
    .selectFrom('run_steps')
    .select(({ fn }) => [
      fn.countAll().as('records'),
      sql<number | null>`sum(length(exports) + length(logs))`.as('bytes'),
    ])
    .where('run_id', '=', runId)
    .executeTakeFirstOrThrow();
  return { records: Number(row.records), bytes: Number(row.bytes ?? 0) };
}

/** The last recorded try of one step. */
export async function lastTryOf(
  db: Db,
  runId: string,
  { position, iteration }: Pick<WaitPlace, 'position' | 'iteration'>,
): Promise<RunStepTable | undefined> {
  return db
    .selectFrom('run_steps')
    .select(stepColumns)
    .where('run_id', '=', runId)
    .where('position', '=', position)
    .where('iteration', '=', iteration)
    .orderBy('try', 'desc')
    .limit(1)
    .executeTakeFirst();
}

/** Records of steps in maps that one answer shows: a map of 10,000 items has tens of thousands. */
const shownInMapsMax = 1_000;

/**
 * What an answer shows of the steps of a run: all that are in no map, and of those in maps the first 1,000, what did not succeed first. With
 * `iteration` those of this item alone, and of the maps in it. `left_out`: how many more there are.
 */
export async function shownStepsOf(
  db: Db,
  runId: string,
  iteration: string | undefined,
): Promise<{ steps: RunStepTable[]; left_out: number }> {
  const all = db.selectFrom('run_steps').where('run_id', '=', runId);
  const inMaps =
    iteration === undefined
      ? all.where('iteration', '!=', '')
      : all.where((where) =>
          where.or([where('iteration', '=', iteration), where('iteration', 'like', `${iteration}-%`)]),
        );
  const shown = await inMaps
    .select(stepColumns)
    .orderBy((order) => order.case().when('state', '=', 'succeeded').then(1).else(0).end())
    .orderBy('position')
    .orderBy('iteration')
    .orderBy('try')
    .limit(shownInMapsMax + 1)
    .execute();
  const rest =
    iteration === undefined ? await all.select(stepColumns).where('iteration', '=', '').execute() : [];
  const steps = [...rest, ...shown.slice(0, shownInMapsMax)].sort(inOrder);
  if (shown.length <= shownInMapsMax) return { steps, left_out: 0 };
  const { count } = await inMaps.select(({ fn }) => fn.countAll().as('count')).executeTakeFirstOrThrow();
  return { steps, left_out: Number(count) - shownInMapsMax };
}

/** By the definition, then by item, then by try. */
function inOrder(a: RunStepTable, b: RunStepTable): number {
  return a.position - b.position || byItem(a.iteration, b.iteration) || a.try - b.try;
}

function byItem(a: string, b: string): number {
  const [left, right] = [a.split('-').map(Number), b.split('-').map(Number)];
  for (const [index, number] of left.entries()) {
    const other = right[index];
    if (other === undefined) return 1;
    if (number !== other) return number - other;
  }
  return left.length - right.length;
}

/** The tries of one step of a run that have ended. */
export async function endedTriesOf(
  db: Db,
  runId: string,
  { position, iteration }: Pick<WaitPlace, 'position' | 'iteration'>,
): Promise<number[]> {
  const rows = await db
    .selectFrom('run_steps')
    .select('try')
    .where('run_id', '=', runId)
    .where('position', '=', position)
    .where('iteration', '=', iteration)
    .execute();
  return rows.map((row) => row.try);
}
