import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { type PostgresServer, PostgresUnavailableError, startPostgres } from './postgres-server.ts';

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
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    drop: () => execute(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
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

async function execute(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
