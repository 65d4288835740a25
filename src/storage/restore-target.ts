import { existsSync } from 'node:fs';
import { link, mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sql } from 'kysely';
import { toError, UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Db } from './database.ts';
import { type Dialect, postgres } from './dialect.ts';
import { appliedMigrations, migrate, migrations, SchemaError } from './migrate.ts';
import { usualPatience } from './postgres-connection.ts';
import { openPool } from './postgres-store.ts';
import { bytesOfRow, type Cell, openSnapshot } from './snapshot.ts';
import { SqliteError } from './sqlite-connection.ts';
import { openSqliteStore } from './sqlite-store.ts';
import type { Store, Tx } from './store.ts';
import { asStoreError } from './store-errors.ts';

/** Parameters of one statement; SQLite takes 32,766. */
const parametersMax = 30_000;
/** A transaction of a restore into SQLite, about. */
const transactionBytes = 8 * 1024 * 1024;

/** Where a backup is brought back to. */
export interface RestoreTarget {
  readonly name: Store['name'];
  /** Rows of users there are: 0 in an unused store, undefined where damage makes the number unknown. */
  readonly users: number | undefined;
  /**
   * Puts a store with the tables of these migrations, filled by `fill` and then brought to this version and finished by
   * `finish`, in the place of the present store. All of it is replaced or, whatever happens, nothing. Returns where the store that was
   * replaced is kept; undefined: nowhere.
   */
  replace(work: RestoreWork): Promise<string | undefined>;
}

export interface RestoreWork {
  migrations: readonly string[];
  /** Every table of this version. */
  tables: readonly string[];
  /** On PostgreSQL, where others may have the store: throws before anything is changed, when it must not be. */
  mayBegin(db: Db): Promise<void>;
  fill(insert: InsertRows): Promise<void>;
  finish(tx: Tx): Promise<void>;
}

export type InsertRows = (
  table: string,
  columns: readonly string[],
  rows: readonly Cell[][],
) => Promise<void>;

/** For SQLite, who calls holds the folder. Throws `SchemaError` where a newer version has been. */
export async function openRestoreTarget(options: {
  databaseUrl: string;
  folder: string;
}): Promise<RestoreTarget> {
  const { databaseUrl, folder } = options;
  const users = await usersOf(options);
  if (databaseUrl === '') return { name: 'sqlite', users, replace: (work) => replaceSqlite(folder, work) };
  return { name: 'postgres', users, replace: (work) => replacePostgres(databaseUrl, work) };
}

function isDamaged(error: unknown): boolean {
  return error instanceof UnavailableError && error.code === 'store_damaged';
}

function usersOf(options: { databaseUrl: string; folder: string }): Promise<number | undefined> {
  return countUsers(options).catch((error: unknown) => {
    if (isDamaged(error)) return undefined;
    throw error;
  });
}

async function countUsers(options: { databaseUrl: string; folder: string }): Promise<number> {
  const snapshot = await openSnapshot(options);
  if (snapshot === undefined) return 0;
  try {
    const unknown = snapshot.migrations.filter((name) => !migrations.some((one) => one.name === name));
    if (unknown.length > 0) {
      throw new SchemaError(
        `the store was written by a newer version of Millrace (it has ${unknown.join(', ')}): nothing of it is replaced by this one`,
      );
    }
    if (snapshot.migrations.length === 0) return 0;
    const { rows } = await sql<{ count: number }>`select count(*) as count from users`.execute(snapshot.db);
    return Number(rows[0]?.count ?? 0);
  } finally {
    await snapshot.close();
  }
}

/** A file beside the store is filled, and takes its place by being renamed. */
async function replaceSqlite(folder: string, work: RestoreWork): Promise<string | undefined> {
  const draftFolder = join(folder, 'restoring');
  // Removes the draft of a restore that was killed.
  await rm(draftFolder, { recursive: true, force: true });
  try {
    const first = await openSqliteStore({ folder: draftFolder, migrations: known(work.migrations) });
    try {
      await fillSqlite(first, work);
    } finally {
      await first.close();
    }
    const second = await openSqliteStore({ folder: draftFolder });
    try {
      await second.transaction((tx) => work.finish(tx));
    } finally {
      await second.close();
    }
    const draft = join(draftFolder, 'millrace.sqlite');
    await sync(draft);
    return await swap(folder, draft);
  } finally {
    await rm(draftFolder, { recursive: true, force: true });
  }
}

async function fillSqlite(store: Store, work: RestoreWork): Promise<void> {
  let waiting: Parameters<InsertRows>[] = [];
  let bytes = 0;
  const flush = async () => {
    const batches = waiting;
    waiting = [];
    bytes = 0;
    if (batches.length === 0) return;
    await store.transaction(async (tx) => {
      for (const [table, columns, rows] of batches) await insert(tx, table, columns, rows);
    });
  };
  await work.fill(async (table, columns, rows) => {
    waiting.push([table, columns, rows]);
    bytes += rows.reduce((sum, row) => sum + bytesOfRow(row), 0);
    if (bytes >= transactionBytes) await flush();
  });
  await flush();
}

/** Takes the embedded store away, for an older version that does not know its tables. Who calls holds the folder. */
export async function setStoreAside(folder: string): Promise<{ file: string; putBack(): Promise<void> }> {
  const file = join(folder, 'millrace.sqlite');
  const kept = await keepStore(folder, 'back');
  if (kept === undefined) throw new Error(`there is no store in ${folder}`);
  await rm(file);
  await sync(folder);
  return {
    file: kept,
    putBack: async () => {
      await rename(kept, file);
      await sync(folder);
    },
  };
}

async function swap(folder: string, draft: string): Promise<string | undefined> {
  const kept = await keepStore(folder, 'restore');
  await rename(draft, join(folder, 'millrace.sqlite'));
  await sync(folder);
  return kept;
}

/** The store that is there is kept with the snapshots of upgrades. */
async function keepStore(folder: string, before: 'restore' | 'back'): Promise<string | undefined> {
  const file = join(folder, 'millrace.sqlite');
  let kept: string | undefined;
  if (existsSync(file)) {
    // What is in its log has to be in the file: the log of one store must never stand beside another.
    const isWhole = emptyLog(file);
    if (isWhole && existsSync(`${file}-wal`))
      throw new Error(`${file}-wal is still there: another process has the store open`);
    const backups = join(folder, 'backups');
    await mkdir(backups, { recursive: true, mode: 0o700 });
    kept = join(backups, `${new Date().toISOString().replaceAll(/[:.]/g, '-')}-before-${before}.sqlite`);
    await link(file, kept);
    // Its log cannot be put into a file that is damaged: it is kept beside it.
    if (existsSync(`${file}-wal`)) await rename(`${file}-wal`, `${kept}-wal`);
    await rm(`${file}-shm`, { force: true });
    await sync(backups);
  }
  return kept;
}

/** False when the file is damaged, and its log stays what it is. */
function emptyLog(file: string): boolean {
  const old = new DatabaseSync(file);
  try {
    old.exec('pragma journal_mode = delete');
    return true;
  } catch (error) {
    if (isDamaged(asStoreError(new SqliteError(toError(error).message, codeOf(error))))) return false;
    throw error;
  } finally {
    old.close();
  }
}

function codeOf(error: unknown): number {
  return (error as { errcode?: number }).errcode ?? 0;
}

/** One transaction. */
async function replacePostgres(url: string, work: RestoreWork): Promise<undefined> {
  const pool = openPool(url, { logger: silentLogger, connectMs: usualPatience.connectMs, max: 1, idleMs: 0 });
  try {
    await pool.transaction().execute(async (tx) => {
      const inside: Dialect & Pick<Store, 'read' | 'transaction'> = {
        ...postgres,
        read: tx,
        transaction: (then) => then(tx),
      };
      const has = await appliedMigrations(inside);
      if (has.length > 0) await work.mayBegin(tx);
      // In one statement, since the tables refer to each other; any other table that refers to them is not ours, and makes the statement fail.
      const tables = [...work.tables, 'schema_migrations'].map((name) => sql.table(name));
      await sql`set local lock_timeout = '10s'`.execute(tx);
      if (has.length > 0) await sql`drop table if exists ${sql.join(tables)}`.execute(tx);
      const beforeMigrating = async () => {};
      await migrate(inside, { migrations: known(work.migrations), beforeMigrating });
      await work.fill((table, columns, rows) => insert(tx, table, columns, rows.map(withoutNul)));
      await migrate(inside, { migrations, beforeMigrating });
      await work.finish(tx);
    });
  } finally {
    await pool.destroy();
  }
}

function known(names: readonly string[]) {
  return migrations.filter(({ name }) => names.includes(name));
}

async function insert(
  tx: Tx,
  table: string,
  columns: readonly string[],
  rows: readonly Cell[][],
): Promise<void> {
  const perStatement = Math.max(1, Math.floor(parametersMax / columns.length));
  for (let at = 0; at < rows.length; at += perStatement) {
    const values = rows
      .slice(at, at + perStatement)
      .map((row) => sql`(${sql.join(row.map((cell) => sql`${cell}`))})`);
    await sql`insert into ${sql.table(table)} (${sql.join(columns.map((name) => sql.ref(name)))})
      values ${sql.join(values)}`.execute(tx);
  }
}

/** PostgreSQL has no U+0000 in texts; the API takes none, and this is for what may have come otherwise. */
function withoutNul(row: Cell[]): Cell[] {
  return row.some((cell) => typeof cell === 'string' && cell.includes('\u0000'))
    ? row.map((cell) => (typeof cell === 'string' ? cell.replaceAll('\u0000', '\ufffd') : cell))
    : row;
}

async function sync(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
