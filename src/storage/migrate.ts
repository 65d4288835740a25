import { sql } from 'kysely';
import { initialMigration } from './migrations/0001-initial.ts';
import type { Db, Store } from './store.ts';

export interface Migration {
  name: string;
  statements: readonly string[];
}

/** In order. A released migration is never edited. */
export const migrations: readonly Migration[] = [initialMigration];

/** The store was written by a newer version, or its history differs: going on could destroy data. */
export class SchemaError extends Error {
  override name = 'SchemaError';
}

/**
 * Brings the tables to this version, all pending migrations in one transaction. `beforeMigrating` is called when
 * there is something to migrate and something to lose (the embedded store takes its snapshot there).
 * Throws `SchemaError` when the store is newer than this version.
 */
export async function migrate(
  store: Pick<Store, 'name' | 'read' | 'transaction'>,
  beforeMigrating: (from: string, to: string) => Promise<void>,
): Promise<void> {
  const applied = await appliedMigrations(store.read);
  const unknown = applied.filter((name) => !migrations.some((migration) => migration.name === name));
  if (unknown.length > 0) {
    throw new SchemaError(
      `this store was written by a newer version of Millrace (it has ${unknown.join(', ')}): start that version, ` +
        'or restore the snapshot taken before the upgrade (backups/ in the data folder)',
    );
  }
  const pending = migrations.filter((migration) => !applied.includes(migration.name));
  const last = pending.at(-1);
  if (last === undefined) return;
  const newest = applied.at(-1);
  if (newest !== undefined) await beforeMigrating(newest, last.name);
  await store.transaction(async (tx) => {
    // Nodes that start together on one PostgreSQL take turns.
    if (store.name === 'postgres') await sql`select pg_advisory_xact_lock(7119264)`.execute(tx);
    await sql`create table if not exists schema_migrations (name text primary key, applied_at text not null)`.execute(
      tx,
    );
    const meanwhile = new Set(
      (await sql<{ name: string }>`select name from schema_migrations`.execute(tx)).rows.map(
        (row) => row.name,
      ),
    );
    for (const migration of pending.filter(({ name }) => !meanwhile.has(name))) {
      for (const statement of migration.statements) await sql.raw(statement).execute(tx);
      await sql`insert into schema_migrations (name, applied_at) values (${migration.name}, ${new Date().toISOString()})`.execute(
        tx,
      );
    }
  });
}

async function appliedMigrations(db: Db): Promise<string[]> {
  const tables = await db.introspection.getTables();
  if (!tables.some((table) => table.name === 'schema_migrations')) return [];
  const { rows } = await sql<{ name: string }>`select name from schema_migrations order by name`.execute(db);
  return rows.map((row) => row.name);
}
