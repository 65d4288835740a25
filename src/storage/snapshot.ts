import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Kysely, sql } from 'kysely';
import { silentLogger } from '#lib/logger.ts';
import type { Db } from './database.ts';
import { appliedMigrations } from './migrate.ts';
import { usualPatience } from './postgres-connection.ts';
import { openPool } from './postgres-store.ts';
import { SqliteConnection } from './sqlite-connection.ts';
import { sqliteDialect } from './sqlite-driver.ts';
import type { Store } from './store.ts';
import { asStoreError } from './store-errors.ts';
import type { Tables } from './tables.ts';

/** Rows read per batch, and its target size in bytes: the memory of a batch. */
const batchRows = { first: 10, max: 100 } as const;
const batchBytes = 2 * 1024 * 1024;

export type Cell = string | number | null | Uint8Array;

/** The store as it was at one moment, while the service continues to write. */
export interface StoreSnapshot {
  readonly name: Store['name'];
  /** For reading only, and consistent with that moment. */
  readonly db: Db;
  /** Names of the migrations that the tables have. */
  readonly migrations: readonly string[];
  columnsOf(table: keyof Tables): Promise<string[]>;
  /** All rows of a table, a bounded batch at a time, cells in the order of `columns`. */
  rows(table: keyof Tables, columns: readonly string[]): AsyncIterable<Cell[][]>;
  close(): Promise<void>;
}

/** Undefined: there is no store yet. Writers are not held up; on SQLite the WAL grows by what they write meanwhile. */
export async function openSnapshot(options: {
  databaseUrl: string;
  folder: string;
}): Promise<StoreSnapshot | undefined> {
  const { databaseUrl, folder } = options;
  return databaseUrl === ''
    ? openSqliteSnapshot(join(folder, 'millrace.sqlite'))
    : openPostgresSnapshot(databaseUrl);
}

async function openSqliteSnapshot(file: string): Promise<StoreSnapshot | undefined> {
  if (!existsSync(file)) return undefined;
  const connection = new SqliteConnection({ file, readOnly: true });
  const db = new Kysely<Tables>({ dialect: sqliteDialect(connection) });
  try {
    // The moment is that of the first statement that reads.
    await connection.run('begin', []);
    return {
      name: 'sqlite',
      db,
      migrations: await appliedMigrations({ name: 'sqlite', read: db }),
      columnsOf: (table) => columnsBy(db, sql`select name from pragma_table_info(${table}) order by cid`),
      rows: (table, columns) => rowsByRowid(db, table, columns),
      close: () => connection.close(),
    };
  } catch (error) {
    await connection.close();
    throw asStoreError(error);
  }
}

async function openPostgresSnapshot(url: string): Promise<StoreSnapshot> {
  const pool = openPool(url, { logger: silentLogger, connectMs: usualPatience.connectMs, max: 1, idleMs: 0 });
  try {
    const tx = await pool
      .startTransaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute();
    return {
      name: 'postgres',
      db: tx,
      migrations: await appliedMigrations({ name: 'postgres', read: tx }),
      columnsOf: (table) =>
        columnsBy(
          tx,
          sql`select column_name as name from information_schema.columns
            where table_schema = current_schema() and table_name = ${table} order by ordinal_position`,
        ),
      rows: (table, columns) => rowsByCursor(tx, table, columns),
      close: async () => {
        await tx
          .rollback()
          .execute()
          .catch(() => {});
        await pool.destroy();
      },
    };
  } catch (error) {
    await pool.destroy();
    throw error;
  }
}

async function columnsBy(db: Db, query: ReturnType<typeof sql>): Promise<string[]> {
  const { rows } = await query.execute(db);
  return rows.map((row) => String((row as { name: unknown }).name));
}

async function* rowsByRowid(db: Db, table: string, columns: readonly string[]): AsyncGenerator<Cell[][]> {
  const size = new BatchSize();
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const { rows } = await sql<Record<string, Cell>>`
      select rowid as "the rowid", ${sql.join(columns.map((name) => sql.ref(name)))} from ${sql.table(table)}
      where rowid > ${after} order by rowid limit ${size.rows}`.execute(db);
    const last = rows.at(-1);
    if (last === undefined) return;
    after = Number(last['the rowid']);
    yield size.measured(rows.map((row) => columns.map((name) => row[name] ?? null)));
  }
}

async function* rowsByCursor(db: Db, table: string, columns: readonly string[]): AsyncGenerator<Cell[][]> {
  const size = new BatchSize();
  await sql`declare backup_rows no scroll cursor for
    select ${sql.join(columns.map((name) => sql.ref(name)))} from ${sql.table(table)}`.execute(db);
  for (;;) {
    const { rows } = await sql<
      Record<string, Cell>
    >`fetch ${sql.raw(String(size.rows))} from backup_rows`.execute(db);
    if (rows.length === 0) break;
    yield size.measured(rows.map((row) => columns.map((name) => row[name] ?? null)));
  }
  await sql`close backup_rows`.execute(db);
}

/** The number of rows to read next, by the size of the previous ones. */
class BatchSize {
  rows: number = batchRows.first;

  measured(batch: Cell[][]): Cell[][] {
    const bytes = batch.reduce((sum, row) => sum + bytesOfRow(row), 0);
    const perRow = Math.max(1, bytes / Math.max(1, batch.length));
    this.rows = Math.max(1, Math.min(batchRows.max, Math.floor(batchBytes / perRow)));
    return batch;
  }
}

/** About. */
export function bytesOfRow(row: readonly Cell[]): number {
  let bytes = 0;
  for (const cell of row) bytes += cell === null || typeof cell === 'number' ? 8 : cell.length;
  return bytes;
}
