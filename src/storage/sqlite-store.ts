import { mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Kysely, sql } from 'kysely';
import { GroupCommit } from './group-commit.ts';
import { type Migration, migrate, migrations } from './migrate.ts';
import { SqliteConnection } from './sqlite-connection.ts';
import { SqliteThreadDriver, sqliteDialect } from './sqlite-dialect.ts';
import type { Store, Tx } from './store.ts';
import { asStoreError } from './store-errors.ts';
import type { Tables } from './tables.ts';

/** Snapshots kept in `<data>/backups`; older ones are removed when a new one is taken. */
const snapshotsKept = 5;
/** Pages given back per `reclaimSpace`: about 4 MB, a few milliseconds. */
const reclaimPages = 1000;

/**
 * The embedded store: `<folder>/millrace.sqlite`. One writing connection and one reading connection, each in its own
 * thread; WAL lets the reader see the last commit while a write is under way.
 */
export async function openSqliteStore(options: {
  folder: string;
  /** For tests of migrations. */
  migrations?: readonly Migration[];
}): Promise<Store> {
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  const file = join(options.folder, 'millrace.sqlite');
  const writer = new SqliteConnection({ file, readOnly: false });
  // The first answer means the file exists and is in WAL mode, which the read-only connection needs. On a disk without
  // a free page that fails: also readers need the file of the WAL index.
  await writer.run('select 1', []).catch(async (error: unknown) => {
    await writer.close();
    throw asStoreError(error);
  });
  const reader = new SqliteConnection({ file, readOnly: true });
  const driver = new SqliteThreadDriver(writer);
  const write = new Kysely<Tables>({ dialect: sqliteDialect(writer, driver) });
  const read = new Kysely<Tables>({ dialect: sqliteDialect(reader) });
  const transaction = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => write.transaction().execute(work);
  const writes = new GroupCommit(transaction);
  const close = async (): Promise<void> => {
    await writes.drain();
    await reader.close();
    await writer.close();
  };
  try {
    await migrate(
      { name: 'sqlite', read, transaction },
      {
        migrations: options.migrations ?? migrations,
        beforeMigrating: (from, to) => snapshot(write, options.folder, `${from}-to-${to}`),
      },
    );
  } catch (error) {
    await close();
    throw error;
  }
  return {
    name: 'sqlite',
    read,
    transaction,
    writes,
    lockRows: (query) => query,
    // There is one writing connection, and the transaction that asks has it.
    defer: async (_tx, query) => driver.defer(query),
    ask: (_tx, queries) => driver.ask(queries) as Promise<never>,
    notify: async () => {},
    onNotify: () => {},
    reclaimSpace: async () => {
      await sql.raw(`pragma incremental_vacuum(${reclaimPages})`).execute(write);
    },
    close,
  };
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
