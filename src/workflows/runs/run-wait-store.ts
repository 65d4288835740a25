import type { CompiledQuery } from 'kysely';
import type { Db, Tx } from '#storage/store.ts';
import type { RunTable, RunWaitTable, WaitKind } from '#storage/tables/workflow-tables.ts';

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

/** Ends the waits at steps of a block, `from` to before `to`: those of one place in the maps around the block, or of all. */
export function deleteWaitsInQuery(
  tx: Tx,
  { runId, from, to, iteration }: { runId: string; from: number; to: number; iteration: string },
): CompiledQuery {
  const query = tx
    .deleteFrom('run_waits')
    .where('run_id', '=', runId)
    .where('position', '>=', from)
    .where('position', '<', to);
  if (iteration === '') return query.compile();
  return query
    .where((where) =>
      where.or([where('iteration', '=', iteration), where('iteration', 'like', `${iteration}-%`)]),
    )
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

/** What a run that has not ended waits for, at most `limit` waits: the step with its last recorded try, and until when (epoch ms). */
export async function shownWaitsOf(
  db: Db,
  run: Pick<RunTable, 'id' | 'state' | 'wait_kind' | 'wait_until_ms' | 'position'>,
  limit: number,
): Promise<
  { namespace: string; position: number; iteration: string; try: number; kind: WaitKind; untilMs: number }[]
> {
  const lastTries = db
    .selectFrom('run_steps')
    .select(['position', 'iteration', 'namespace'])
    .select(({ fn }) => fn.max('try').as('try'))
    .where('run_id', '=', run.id)
    .groupBy(['position', 'iteration', 'namespace']);
  const { wait_kind: kind, wait_until_ms: untilMs, position } = run;
  if (run.state === 'waiting' && kind !== null && kind !== 'branches' && untilMs !== null) {
    const rows = await lastTries.where('position', '=', position).where('iteration', '=', '').execute();
    return rows.map((row) => ({ ...row, kind, untilMs }));
  }
  const rows = await db
    .selectFrom('run_waits as w')
    .innerJoin(lastTries.as('s'), (join) =>
      join.onRef('s.position', '=', 'w.position').onRef('s.iteration', '=', 'w.iteration'),
    )
    .select(['s.namespace', 's.try', 'w.position', 'w.iteration', 'w.kind', 'w.until_ms as untilMs'])
    .where('w.run_id', '=', run.id)
    .orderBy('w.until_ms')
    .orderBy('w.position')
    .orderBy('w.iteration')
    .limit(limit)
    .execute();
  return rows.map((row) => ({ ...row, try: Number(row.try), untilMs: Number(row.untilMs) }));
}
