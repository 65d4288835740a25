import { randomUUID } from 'node:crypto';
import { UnavailableError } from '#lib/errors.ts';
import type { Tx } from './database.ts';
import type { Dialect } from './dialect.ts';
import type { Store } from './store.ts';

/** A commit proves for this long that the store takes writes. */
const provenMs = 2_000;
/** Bytes of a probe after the disk was full: small writes still fit into the files when large ones do not. */
const fullProbeBytes = 256 * 1024;
/** Probes of processes that are gone are removed after this time, at most this many together. */
const staleMs = 3_600_000;
const removedMax = 100;

/**
 * Tells if a store takes writes, which only committed writes prove: those of the service, or one of its own in
 * `write_probes`. After a transaction has failed because of the store, only a probe proves it.
 */
export class WriteProbe {
  readonly #dialect: Dialect;
  readonly #damage: () => Error | undefined;
  readonly #monotonicMs: () => number;
  readonly #id = randomUUID();
  #provenAtMs = Number.NEGATIVE_INFINITY;
  #failure: UnavailableError | undefined;
  #transaction: Store['transaction'] | undefined;
  #probing: Promise<void> | undefined;
  #failedCount = 0;

  constructor(options: {
    dialect: Dialect;
    /** What a connection found wrong with the file of the database; for good. */
    damage?: () => Error | undefined;
    monotonicMs?: () => number;
  }) {
    this.#dialect = options.dialect;
    this.#damage = options.damage ?? (() => undefined);
    this.#monotonicMs = options.monotonicMs ?? (() => performance.now());
  }

  /** The same transactions, observed. */
  observe(transaction: Store['transaction']): Store['transaction'] {
    this.#transaction = transaction;
    return async (work) => {
      const failure = this.#failure;
      try {
        const result = await transaction(work);
        if (failure === undefined) this.#provenAtMs = this.#monotonicMs();
        return result;
      } catch (error) {
        this.#failedCount += 1;
        if (error instanceof UnavailableError) this.#failure = error;
        throw error;
      }
    };
  }

  /** Transactions that were not committed, for whatever reason. */
  get failedCount(): number {
    return this.#failedCount;
  }

  /** Resolves when the store takes writes; rejects with the reason when it does not. */
  async check(): Promise<void> {
    const damage = this.#damage();
    if (damage !== undefined) throw damage;
    if (this.#failure === undefined && this.#monotonicMs() - this.#provenAtMs < provenMs) return;
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = undefined;
    });
    await this.#probing;
  }

  async #probe(): Promise<void> {
    const before = this.#failure;
    const fill = before?.code === 'storage_full' ? 'x'.repeat(fullProbeBytes) : '';
    try {
      await this.#transaction?.((tx) => this.#write(tx, fill));
    } catch (error) {
      if (error instanceof UnavailableError) this.#failure = error;
      throw error;
    }
    this.#provenAtMs = this.#monotonicMs();
    // One that came meanwhile is newer than the probe.
    if (this.#failure === before) this.#failure = undefined;
  }

  async #write(tx: Tx, fill: string): Promise<void> {
    const nowMs = Date.now();
    const stale = tx
      .selectFrom('write_probes')
      .select('id')
      .where((where) => where.or([where('id', '=', this.#id), where('at_ms', '<', nowMs - staleMs)]))
      .limit(removedMax);
    // Rows that another process has locked are left to it, so that this query does not wait for a lock.
    const rows = await this.#dialect.lockRows(stale, { skipLocked: true }).execute();
    const ids = rows.map(({ id }) => id);
    if (ids.length > 0) await tx.deleteFrom('write_probes').where('id', 'in', ids).execute();
    await tx.insertInto('write_probes').values({ id: this.#id, at_ms: nowMs, fill }).execute();
  }
}
