import { after, before, beforeEach, describe } from 'node:test';
import { sql } from 'kysely';
import { silentLogger } from '#lib/logger.ts';
import { openPostgresStore } from '#storage/postgres-store.ts';
import { openSqliteStore } from '#storage/sqlite-store.ts';
import type { Store } from '#storage/store.ts';
import { borrowTestDatabase, createTestDatabase, postgresSkip, type TestDatabase } from './databases.ts';
import { createTempFolder, type TempFolder } from './temp-folder.ts';

export type Dialect = Store['name'];

export interface StoreFixture {
  readonly dialect: Dialect;
  /** Empty at the start of each test. Only inside tests and hooks. */
  readonly store: Store;
  /** One more store on the same data, as another process has it; closed with the suite. Not for SQLite writers. */
  open(): Promise<Store>;
  /** Closes `store` and opens it again, as a restart does. */
  reopen(): Promise<void>;
  /** What names the data: a folder for SQLite, a URL for PostgreSQL. */
  readonly location: string;
}

/** Runs `suite` once on each dialect: SQLite in a temporary folder, PostgreSQL in a database of its own. */
export function forEachStore(suite: (fixture: StoreFixture) => void): void {
  describe('on SQLite', () => suite(fixtureFor('sqlite')));
  describe('on PostgreSQL', { skip: postgresSkip() }, () => suite(fixtureFor('postgres')));
}

/** An empty place for a store; `open` may be called again and again. */
export interface StoreLocation {
  readonly dialect: Dialect;
  readonly location: string;
  open(options?: Pick<Parameters<typeof openSqliteStore>[0], 'migrations'>): Promise<Store>;
  remove(): Promise<void>;
}

export async function createStoreLocation(
  dialect: Dialect,
  createDatabase: () => Promise<TestDatabase> = createTestDatabase,
): Promise<StoreLocation> {
  if (dialect === 'sqlite') {
    const folder: TempFolder = await createTempFolder('store');
    return {
      dialect,
      location: folder.path,
      open: (options = {}) => openSqliteStore({ folder: folder.path, ...options }),
      remove: () => folder.remove(),
    };
  }
  const database = await createDatabase();
  return {
    dialect,
    location: database.url,
    open: (options = {}) => openPostgresStore({ url: database.url, logger: silentLogger, ...options }),
    remove: () => database.drop(),
  };
}

function fixtureFor(dialect: Dialect): StoreFixture {
  let place: StoreLocation | undefined;
  let store: Store | undefined;
  const others: Store[] = [];
  const opened = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('the store is only there inside tests and hooks');
    return value;
  };
  before(async () => {
    place = await createStoreLocation(dialect, borrowTestDatabase);
    store = await place.open();
  });
  beforeEach(() => emptyTables(opened(store)));
  after(async () => {
    for (const other of others) await other.close();
    await store?.close();
    await place?.remove();
  });
  return {
    dialect,
    get store() {
      return opened(store);
    },
    get location() {
      return opened(place).location;
    },
    async open() {
      const other = await opened(place).open();
      others.push(other);
      return other;
    },
    async reopen() {
      await opened(store).close();
      store = await opened(place).open();
    },
  };
}

/** Asks first which tables have rows at all: of the sixty, most tests fill few. */
async function emptyTables(store: Store): Promise<void> {
  tableNames ??= (await store.read.introspection.getTables())
    .map(({ name }) => name)
    .filter((name) => name !== 'schema_migrations');
  const questions = tableNames.map(
    (name) => sql`select ${sql.lit(name)} as name where exists (select 1 from ${sql.table(name)})`,
  );
  const { rows } = await sql<{ name: string }>`${sql.join(questions, sql` union all `)}`.execute(store.read);
  if (rows.length === 0) return;
  await store.transaction(async (tx) => {
    // Rows that refer to others go with them (on delete cascade), in whichever order; truncate would take ten times longer.
    for (const { name } of rows) await sql`delete from ${sql.table(name)}`.execute(tx);
  });
}

/** The same in both dialects. */
let tableNames: string[] | undefined;
