import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Kysely, sql } from 'kysely';
import { UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { sqlite } from './dialect.ts';
import { GroupCommit, type WriteShares } from './group-commit.ts';
import { type Migration, migrate, migrations } from './migrate.ts';
import { rowsByName } from './named-statements.ts';
import { faultText, SqliteConnection, SqliteError } from './sqlite-connection.ts';
import { SqliteThreadDriver, sqliteDialect } from './sqlite-driver.ts';
import type { Store } from './store.ts';
import { asStoreError, restoreAdvice } from './store-errors.ts';
import type { Tables } from './tables.ts';
import { WriteProbe } from './write-probe.ts';

/** Snapshots kept in `<data>/backups`; older ones are removed when a new one is taken. */
const snapshotsKept = 5;
/** Pages given back per `reclaimSpace`: about 4 MB, a few milliseconds. */
const reclaimPages = 1000;
/** Stores up to this size are read whole before a start: 0.3 seconds where they are in memory. `millrace verify` reads any. */
const checkedBytesMax = 64 * 1024 * 1024;
const sqliteCorrupt = 11;
const sqlitePlainError = 1;

/**
 * The embedded store: `<folder>/millrace.sqlite`. One writing connection and one reading connection, each in its own
 * thread; WAL lets the reader see the last commit while a write is under way.
 */
export async function openSqliteStore(options: {
  folder: string;
  logger?: Logger;
  shares?: WriteShares | undefined;
  /** For tests of migrations. */
  migrations?: readonly Migration[];
  /** For tests of large stores. */
  checkedBytesMax?: number;
}): Promise<Store> {
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  const file = join(options.folder, 'millrace.sqlite');
  const writer = new SqliteConnection({ file, readOnly: false });
  const refuse = async (error: unknown): Promise<never> => {
    await writer.close();
    throw damageOf(file, error, { opening: true }) ?? asStoreError(error);
  };
  // The first answer means the file exists and is in WAL mode, which the read-only connection needs. On a full disk
  // this fails, because readers need the file of the WAL index too.
  await writer.run('select 1', []).catch(refuse);
  await checkAtStart(writer, file, options.checkedBytesMax ?? checkedBytesMax).catch(refuse);
  const reader = new SqliteConnection({ file, readOnly: true });
  const driver = new SqliteThreadDriver(writer);
  const write = new Kysely<Tables>({ dialect: sqliteDialect(writer, driver) });
  const read = new Kysely<Tables>({ dialect: sqliteDialect(reader) });
  const probe = new WriteProbe({ dialect: sqlite, damage: () => asError(writer.damage ?? reader.damage) });
  const transaction = probe.observe((work) => write.transaction().execute(work));
  const writes = new GroupCommit(transaction, options);
  const close = async (): Promise<void> => {
    await writes.drain();
    await reader.close();
    await writer.close();
  };
  try {
    await migrate(
      { ...sqlite, read, transaction },
      {
        migrations: options.migrations ?? migrations,
        beforeMigrating: (from, to) => snapshot(write, options.folder, `${from}-to-${to}`),
      },
    );
  } catch (error) {
    await close();
    throw damageOf(file, error) ?? error;
  }
  return {
    ...sqlite,
    read,
    transaction,
    writes,
    // There is one writing connection, and the transaction that asks has it.
    defer: async (_tx, query) => driver.defer(query),
    ask: (_tx, statements) => rowsByName(statements, (queries) => driver.ask(queries)),
    // No other process has the store open, so there is none to notify.
    notify: async () => {},
    onNotify: () => {},
    reclaimSpace: async () => {
      await sql.raw(`pragma incremental_vacuum(${reclaimPages})`).execute(write);
    },
    checkWritable: () => probe.check(),
    failedTransactions: () => probe.failedCount,
    close,
  };
}

/** Throws what is wrong with the file. A large one is looked at where damage is most likely to matter to a start. */
async function checkAtStart(
  connection: SqliteConnection,
  file: string,
  wholeBytesMax: number,
): Promise<void> {
  const { size } = await stat(file);
  const found = size <= wholeBytesMax ? await quickCheck(connection) : await lookAround(connection);
  if (found !== undefined) throw new SqliteError(found, sqliteCorrupt);
}

async function quickCheck(connection: SqliteConnection): Promise<string | undefined> {
  const { rows } = await connection.run('pragma quick_check(1)', []);
  const fault = faultText(rows[0] ?? {});
  return fault === 'ok' ? undefined : fault;
}

/** The schema, and the way to the first and the last row of every table; damage throws by itself. */
async function lookAround(connection: SqliteConnection): Promise<string | undefined> {
  const count = async (name: string) =>
    Number(Object.values((await connection.run(`pragma ${name}`, [])).rows[0] ?? {})[0]);
  if ((await count('freelist_count')) > (await count('page_count'))) return 'more unused pages than pages';
  const { rows } = await connection.run("select name from sqlite_schema where type = 'table'", []);
  for (const { name } of rows) await connection.run(edges(String(name)), []);
  return undefined;
}

function edges(table: string): string {
  const end = (order: string) => `(select rowid from "${table}" not indexed order by rowid ${order} limit 1)`;
  return `select ${end('asc')}, ${end('desc')}`;
}

/** Undefined: the error says nothing about the file. */
function damageOf(file: string, error: unknown, { opening = false } = {}): UnavailableError | undefined {
  const cause = error instanceof UnavailableError ? error.cause : error;
  // While it is opened, no statement of ours causes SQLite's plain error: the format of the file does.
  const isDamage =
    cause instanceof SqliteError && (cause.isDamage || (opening && cause.resultCode === sqlitePlainError));
  if (!isDamage) return undefined;
  return new UnavailableError(
    'store_damaged',
    `the database ${file} is damaged (${cause.message}): ${restoreAdvice}. Copies from before upgrades are in backups/ beside it`,
    { cause },
  );
}

function asError(damage: SqliteError | undefined): Error | undefined {
  return damage === undefined ? undefined : (asStoreError(damage) as Error);
}

/**
 * A copy of the store from before a migration, whole and on disk when it resolves. It replaces the one that an earlier
 * try of the same upgrade left, so that an upgrade that fails at every start does not fill the disk.
 */
async function snapshot(db: Kysely<Tables>, folder: string, upgrade: string): Promise<void> {
  const backups = join(folder, 'backups');
  await mkdir(backups, { recursive: true, mode: 0o700 });
  const ending = `-before-${upgrade}.sqlite`;
  const file = join(backups, `${new Date().toISOString().replaceAll(/[:.]/g, '-')}${ending}`);
  const unfinished = join(backups, 'unfinished');
  await rm(unfinished, { force: true });
  try {
    await sql`vacuum into ${unfinished}`.execute(db);
    await syncFile(unfinished);
    await rename(unfinished, file);
    await syncFile(backups);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
  const snapshots = (await readdir(backups)).filter((name) => name.endsWith('.sqlite')).sort();
  const replaced = snapshots.filter((name) => name.endsWith(ending) && join(backups, name) !== file);
  const others = snapshots.filter((name) => !replaced.includes(name)).slice(0, -snapshotsKept);
  for (const name of [...replaced, ...others]) await rm(join(backups, name));
}

async function syncFile(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
