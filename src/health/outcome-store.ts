import { type CompiledQuery, sql } from 'kysely';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { StatementTexts } from '#storage/statement-texts.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { HealthTable } from '#storage/tables/health-tables.ts';

/** What one run, delivery or test came to. */
export interface Outcome {
  subjectId: string;
  ownerId: string;
  /** The error, without secrets; null: it succeeded. */
  failure: string | null;
  atMs: number;
  /** Changes with the code, props or deployment of the subject: a success of another one says nothing about this one. */
  version?: string;
}

/** Reasons are one line on a page; the whole error is in the run, the delivery or on `$errors`. */
const reasonCharactersMax = 500;
/** A success of a subject that this process recorded as healthy is not written again for so long, nor after a transaction has failed. */
const knownMs = 30_000;
const knownMax = 20_000;

/**
 * Records outcomes in the transaction that stores what they caused. Successes of subjects that are known to be healthy are not
 * written; all others of a transaction are one statement. The knowledge ends with any transaction that fails, since it may be the one that recorded
 * it: a source was shown as failing after its run had succeeded, until it ran again half a minute later.
 * Where other nodes are there, one of them may have recorded a failure, so the store is asked: a success that was left out
 * because of what this node remembers would leave its subject failing until it runs again.
 */
export class OutcomeRecorder {
  readonly #store: Dialect & Pick<Store, 'defer' | 'failedTransactions'>;
  readonly #hasOthers: () => boolean;
  readonly #healthy = new Map<string, { version: string | undefined; untilMs: number }>();
  /** As many transactions had failed when the knowledge began. */
  #failedBefore = 0;

  /** `hasOthers`: whether other nodes may record outcomes too. */
  constructor(store: Dialect & Pick<Store, 'defer' | 'failedTransactions'>, hasOthers: () => boolean) {
    this.#store = store;
    this.#hasOthers = hasOthers;
  }

  /** Outcomes in the order in which they came about. */
  async record(tx: Tx, outcomes: readonly Outcome[]): Promise<void> {
    this.#forgetAfterFailure();
    const rows = new Map<string, HealthTable>();
    const leftOut = new Map<string, Outcome>();
    for (const outcome of outcomes) {
      const { subjectId, failure } = outcome;
      const before = rows.get(subjectId);
      if (failure === null) {
        if (before === undefined && this.#isKnown(outcome)) {
          leftOut.set(subjectId, outcome);
          continue;
        }
        this.#know(outcome);
      } else this.#healthy.delete(subjectId);
      leftOut.delete(subjectId);
      rows.set(subjectId, healthRow(outcome, before));
    }
    if (leftOut.size > 0 && this.#hasOthers()) {
      const failing = await failingAmong(this.#store, tx, [...leftOut.keys()]);
      for (const [id, outcome] of leftOut) if (failing.has(id)) rows.set(id, healthRow(outcome, undefined));
    }
    for (const query of outcomeQueries(this.#store, [...rows.values()])) await this.#store.defer(tx, query);
  }

  #forgetAfterFailure(): void {
    const failed = this.#store.failedTransactions();
    if (failed === this.#failedBefore) return;
    this.#failedBefore = failed;
    this.#healthy.clear();
  }

  #isKnown({ subjectId, version, atMs }: Outcome): boolean {
    const known = this.#healthy.get(subjectId);
    // A clock that stepped back does not make knowledge last longer.
    return (
      known !== undefined &&
      known.version === version &&
      atMs < known.untilMs &&
      atMs >= known.untilMs - knownMs
    );
  }

  #know({ subjectId, version, atMs }: Outcome): void {
    this.#healthy.delete(subjectId);
    this.#healthy.set(subjectId, { version, untilMs: atMs + knownMs });
    if (this.#healthy.size <= knownMax) return;
    const [oldest] = this.#healthy.keys();
    if (oldest !== undefined) this.#healthy.delete(oldest);
  }
}

/** Returns those of `ids` whose last recorded outcome is a failure. */
async function failingAmong(store: Dialect, tx: Tx, ids: readonly string[]): Promise<Set<string>> {
  const query = failingTexts.query(store, ids.length, ids, () =>
    tx
      .selectFrom('health')
      .select('subject_id')
      .where('subject_id', 'in', [...ids])
      .where('failing', '=', sql.lit(1))
      .compile(),
  );
  const { rows } = await tx.executeQuery(query);
  return new Set(rows.map(({ subject_id }) => subject_id));
}

const failingTexts = new StatementTexts();

/** Records a single outcome, where that is rare. */
export async function recordOutcome(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  outcome: Outcome,
): Promise<void> {
  for (const query of outcomeQueries(store, [healthRow(outcome, undefined)])) await store.defer(tx, query);
}

/** Nothing that was recorded says anything about the subject as it is now, or it is gone. */
export async function forgetOutcomes(tx: Tx, subjectId: string): Promise<void> {
  await tx.deleteFrom('health').where('subject_id', '=', subjectId).execute();
}

/** The failures of a subject that starts over do not count; a success before does. */
export async function forgetFailures(tx: Tx, subjectId: string): Promise<void> {
  await tx.deleteFrom('health').where('subject_id', '=', subjectId).where('failing', '=', 1).execute();
}

function healthRow(
  { subjectId, ownerId, failure, atMs }: Outcome,
  before: HealthTable | undefined,
): HealthTable {
  const isFailing = failure !== null;
  const goesOn = before?.failing === 1 && isFailing;
  return {
    subject_id: subjectId,
    owner_id: ownerId,
    failing: isFailing ? 1 : 0,
    since_ms: goesOn ? before.since_ms : atMs,
    failures: isFailing ? (goesOn ? before.failures : 0) + 1 : 0,
    // PostgreSQL has no NUL in text.
    reason: failure === null ? null : failure.slice(0, reasonCharactersMax).replaceAll('\0', ''),
  };
}

function outcomeQueries(store: Dialect, rows: HealthTable[]): CompiledQuery[] {
  // Always in one order, since rows are locked.
  rows.sort((a, b) => (a.subject_id < b.subject_id ? -1 : 1));
  return insertRows(store, healthUpsert, rows);
}

/** A success writes nothing where a success is recorded; a failure adds to those before it. */
const healthUpsert: RowInsert<'health'> = {
  table: 'health',
  columns: ['subject_id', 'owner_id', 'failing', 'since_ms', 'failures', 'reason'],
  ending: `on conflict (subject_id) do update set
    failing = excluded.failing, reason = excluded.reason,
    since_ms = case when health.failing = excluded.failing then health.since_ms else excluded.since_ms end,
    failures = case when excluded.failing = 1 then health.failures + excluded.failures else 0 end
    where health.failing = 1 or excluded.failing = 1`,
};
