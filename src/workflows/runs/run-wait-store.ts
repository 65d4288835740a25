import type { CompiledQuery } from 'kysely';
import type { Db, Tx } from '#storage/store.ts';
import type { RunWaitTable } from '#storage/tables/workflow-tables.ts';

type WaitKey = Pick<RunWaitTable, 'run_id' | 'position' | 'iteration'>;

const waitColumns = [
  'run_id',
  'owner_id',
  'position',
  'iteration',
  'kind',
  'until_ms',
  'failures',
  'resumption',
] as const satisfies readonly (keyof RunWaitTable)[];

/** Waits of the strands of a run. */
export async function waitsOfRun(db: Db, runId: string): Promise<RunWaitTable[]> {
  return db.selectFrom('run_waits').select(waitColumns).where('run_id', '=', runId).execute();
}

export async function findWait(db: Db, key: WaitKey): Promise<RunWaitTable | undefined> {
  return db
    .selectFrom('run_waits')
    .select(waitColumns)
    .where('run_id', '=', key.run_id)
    .where('position', '=', key.position)
    .where('iteration', '=', key.iteration)
    .executeTakeFirst();
}

/** A step that waits again has one row. */
export function putWaitQuery(tx: Tx, row: RunWaitTable): CompiledQuery {
  const { kind, until_ms, failures, resumption } = row;
  return tx
    .insertInto('run_waits')
    .values(row)
    .onConflict((conflict) =>
      conflict
        .columns(['run_id', 'position', 'iteration'])
        .doUpdateSet({ kind, until_ms, failures, resumption }),
    )
    .compile();
}

/** The wait was answered: it is over now. */
export function answerWaitQuery(
  tx: Tx,
  key: WaitKey,
  answer: { resumption: string; nowMs: number },
): CompiledQuery {
  return tx
    .updateTable('run_waits')
    .set({ resumption: answer.resumption, until_ms: answer.nowMs })
    .where('run_id', '=', key.run_id)
    .where('position', '=', key.position)
    .where('iteration', '=', key.iteration)
    .compile();
}

export function deleteWaitQuery(tx: Tx, key: WaitKey): CompiledQuery {
  return tx
    .deleteFrom('run_waits')
    .where('run_id', '=', key.run_id)
    .where('position', '=', key.position)
    .where('iteration', '=', key.iteration)
    .compile();
}

/** When the first wait of a run is over, epoch ms; undefined: there is none. */
export async function firstWaitOf(db: Db, runId: string): Promise<number | undefined> {
  const row = await db
    .selectFrom('run_waits')
    .select((select) => select.fn.min('until_ms').as('until_ms'))
    .where('run_id', '=', runId)
    .executeTakeFirst();
  return row === undefined || row.until_ms === null ? undefined : Number(row.until_ms);
}
