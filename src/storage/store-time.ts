import { type RawBuilder, sql } from 'kysely';
import type { Clock } from '#lib/clock.ts';
import type { Dialect } from './dialect.ts';
import type { Db } from './store.ts';

/**
 * The time that due times are compared with, in epoch milliseconds, as an expression of a statement. Several nodes
 * share one store, and each has a clock of its own: their common clock is that of the database. Inside a statement it
 * is also a time that cannot have grown old on the way to the database.
 */
export type StoreTime = () => RawBuilder<number>;

/** The clock of the PostgreSQL server; a statement that waits or takes long sees it advance. */
export const databaseTime: StoreTime = () =>
  sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`;

/** The clock of this process, for a store that no other process has open. */
export function processTime(clock: Clock): StoreTime {
  return () => sql<number>`cast(${clock.now()} as bigint)`;
}

export function storeTime(store: Pick<Dialect, 'isShared'>, clock: Clock): StoreTime {
  return store.isShared ? databaseTime : processTime(clock);
}

export async function readTimeMs(db: Db, time: StoreTime): Promise<number> {
  const { rows } = await sql<{ ms: number }>`select ${time()} as ms`.execute(db);
  return Number(rows[0]?.ms);
}
