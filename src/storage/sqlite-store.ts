import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Kysely, sql } from 'kysely';
import { GroupCommit } from './group-commit.ts';
import { migrate } from './migrate.ts';
import { SqliteConnection } from './sqlite-connection.ts';
import { sqliteDialect } from './sqlite-dialect.ts';
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
export async function openSqliteStore(options: { folder: string }): Promise<Store> {
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  const file = join(options.folder, 'millrace.sqlite');
  const writer = new SqliteConnection({ file, readOnly: false });
  // The first answer means the file exists and is in WAL mode, which the read-only connection needs.
  await writer.run('select 1', []);
  const reader = new SqliteConnection({ file, readOnly: true });
  const write = new Kysely<Tables>({ dialect: sqliteDialect(writer) });
  const read = new Kysely<Tables>({ dialect: sqliteDialect(reader) });
  const transaction = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
    try {
      return await write.transaction().execute(work);
    } catch (error) {
      throw asStoreError(error);
    }
  };
  const writes = new GroupCommit(transaction);
  const close = async (): Promise<void> => {
    await writes.drain();
    await reader.close();
    await writer.close();
  };
  try {
    await migrate({ name: 'sqlite', read, transaction }, (from, to) =>
      snapshot(write, options.folder, `${from}-to-${to}`),
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
    notify: async () => {},
    onNotify: () => {},
    reclaimSpace: async () => {
      await sql.raw(`pragma incremental_vacuum(${reclaimPages})`).execute(write);
    },
    close,
  };
}

async function snapshot(db: Kysely<Tables>, folder: string, label: string): Promise<void> {
  const backups = join(folder, 'backups');
  await mkdir(backups, { recursive: true, mode: 0o700 });
  const stamp = new Date().toISOString().replaceAll(/[:.]/g, '-');
  await sql`vacuum into ${join(backups, `${stamp}-before-${label}.sqlite`)}`.execute(db);
  const old = (await readdir(backups))
    .filter((name) => name.endsWith('.sqlite'))
    .sort()
    .slice(0, -snapshotsKept);
  for (const name of old) await rm(join(backups, name));
}
