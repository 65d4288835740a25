import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { type PostgresServer, PostgresUnavailableError, startPostgres } from './postgres-server.ts';

/** How long PostgreSQL may take to end a connection. */
const terminateTimeoutMs = 10_000;

export interface TestDatabase {
  /** `postgres://…` of an empty database that belongs to the caller alone. */
  readonly url: string;
  /** Ends what is still connected and removes the database. May be called twice. */
  drop(): Promise<void>;
}

/**
 * A new, empty PostgreSQL database. `npm test` provides the server through `MILLRACE_TEST_DATABASE_URL`; a file that is
 * run alone (`node --test src/…/x.test.ts`) gets a server of its own, which ends with the process.
 * Ask `postgresSkip` first: it throws `PostgresUnavailableError` where PostgreSQL cannot run.
 */
export async function createTestDatabase(): Promise<TestDatabase> {
  const serverUrl = await testServerUrl();
  const name = `millrace_test_${randomBytes(8).toString('hex')}`;
  await execute(serverUrl, `CREATE DATABASE ${name}`);
  return testDatabase(serverUrl, name);
}

function testDatabase(serverUrl: string, name: string): TestDatabase {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    drop: () => execute(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

/**
 * A PostgreSQL database whose tables are empty, as a service or a store meets it at a first start; its tables are there already when
 * another test had it before. To make a database and its tables costs a second of a busy disk, to empty one costs nothing.
 * For tests that change no table: these take `createTestDatabase`.
 */
export async function borrowTestDatabase(): Promise<TestDatabase> {
  const serverUrl = await testServerUrl();
  const known = await withClient(serverUrl, takeReturned);
  const database = known === undefined ? await createTestDatabase() : testDatabase(serverUrl, known);
  let isReturned = false;
  return {
    url: database.url,
    drop: async () => {
      if (isReturned) return;
      isReturned = true;
      await giveBack(serverUrl, database);
    },
  };
}

async function giveBack(serverUrl: string, database: TestDatabase): Promise<void> {
  await withClient(serverUrl, async (client) => {
    if (!(await areReturnedKept(client))) return database.drop();
    const name = new URL(database.url).pathname.slice(1);
    // Whatever still writes there belongs to a test that has ended.
    await client.query(
      `select pg_terminate_backend(pid, ${terminateTimeoutMs}) from pg_stat_activity where datname = $1`,
      [name],
    );
    await withClient(database.url, emptyTables);
    await client.query(`insert into ${returned} values ($1)`, [name]);
  });
}

/** Names of databases that can be borrowed again; a table in the database that the server's URL names. */
const returned = 'millrace_test_returned';

/**
 * From now on databases that are returned to this server can be borrowed again; otherwise they are removed. Called once for a run of
 * all tests; the answer removes them, for a server that outlives the run.
 */
export async function keepReturnedDatabases(serverUrl: string): Promise<() => Promise<void>> {
  await execute(serverUrl, `create table if not exists ${returned} (name text primary key)`);
  return () =>
    withClient(serverUrl, async (client) => {
      const { rows } = await client.query<{ name: string }>(`select name from ${returned}`);
      for (const { name } of rows) await client.query(`drop database if exists ${name} with (force)`);
      await client.query(`drop table ${returned}`);
    });
}

async function areReturnedKept(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ kept: boolean }>(
    `select to_regclass('${returned}') is not null as kept`,
  );
  return rows[0]?.kept === true;
}

async function takeReturned(client: Client): Promise<string | undefined> {
  if (!(await areReturnedKept(client))) return undefined;
  const { rows } = await client.query<{ name: string }>(
    `delete from ${returned} where name = (select name from ${returned} limit 1 for update skip locked) returning name`,
  );
  return rows[0]?.name;
}

/** Rows that refer to others go with them (on delete cascade), in whichever order. Truncating would take ten times longer. */
async function emptyTables(client: Client): Promise<void> {
  await client.query(`do $$ declare found record; begin
    for found in select tablename from pg_tables where schemaname = 'public' and tablename <> 'schema_migrations'
    loop execute format('delete from %I', found.tablename); end loop; end $$`);
}

/**
 * For the `skip` option of tests that need PostgreSQL: the reason where it cannot run, else false. A reason makes
 * `npm test` say so in its last line, and fail when `MILLRACE_TEST_REQUIRE_POSTGRES=1`.
 */
export function postgresSkip(): string | false {
  const reason = process.env.MILLRACE_TEST_POSTGRES_UNAVAILABLE;
  return reason ? `PostgreSQL cannot run here: ${reason.split('\n', 1)[0]}` : false;
}

let ownServer: Promise<PostgresServer> | undefined;

async function testServerUrl(): Promise<string> {
  const given = process.env.MILLRACE_TEST_DATABASE_URL;
  if (given) return given;
  const skip = postgresSkip();
  if (skip !== false) throw new PostgresUnavailableError(skip);
  ownServer ??= startPostgres();
  return (await ownServer).url;
}

async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

async function execute(url: string, statement: string): Promise<void> {
  await withClient(url, (client) => client.query(statement));
}
