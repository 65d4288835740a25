import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import { createTestDatabase, postgresSkip, type TestDatabase } from '../../test/support/databases.ts';
import { freePort } from '../../test/support/guarded-process.ts';
import { openStore } from './open-store.ts';

describe('a database that cannot be opened', { skip: postgresSkip() }, () => {
  let database: TestDatabase;
  let place: string;

  before(async () => {
    database = await createTestDatabase();
    place = new URL(database.url).host;
  });
  after(() => database?.drop());

  /** The message of a start with this URL. */
  async function failureOf(url: string): Promise<string> {
    try {
      const store = await openStore({ databaseUrl: url, folder: '/nowhere', logger: silentLogger });
      await store.close();
    } catch (error) {
      assert.ok(error instanceof UnavailableError, String(error));
      return error.message;
    }
    return 'it was opened';
  }

  function changed(change: (url: URL) => void): string {
    const url = new URL(database.url);
    change(url);
    return url.href;
  }

  test('is named with its setting, its place, what it said and what to do', async () => {
    const wrongPassword = changed((url) => {
      url.password = 'wrong';
    });
    assert.match(
      await failureOf(wrongPassword),
      new RegExp(
        `^MILLRACE_DATABASE_URL: ${place} refuses user or password: "password authentication failed`,
      ),
    );
    const noDatabase = changed((url) => {
      url.pathname = '/missing';
    });
    assert.match(
      await failureOf(noDatabase),
      /has no such database: .*missing.*; make it with CREATE DATABASE/,
    );
    const tls = changed((url) => url.searchParams.set('sslmode', 'verify-full'));
    assert.match(await failureOf(tls), /takes no TLS: leave out sslmode/);
  });

  test('one whose user may make no tables says which rights it needs', async () => {
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    const role = `role_${process.pid}`;
    try {
      await client.query(`create role ${role} login password 'secret'`);
      const url = changed((one) => {
        one.username = role;
        one.password = 'secret';
      });
      assert.match(await failureOf(url), /does not let this user make tables: .*; make the user the owner/);
    } finally {
      await client.query(`drop role if exists ${role}`);
      await client.end();
    }
  });

  test('one that is not there, or is something else, is told from one that refuses', async () => {
    const port = await freePort();
    const nothing = changed((url) => {
      url.port = String(port);
    });
    assert.match(
      await failureOf(nothing),
      new RegExp(`^MILLRACE_DATABASE_URL: [^ ]+:${port} refuses the connection: is PostgreSQL running there`),
    );
    const other = createServer((socket) =>
      socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')),
    );
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    try {
      const web = changed((url) => {
        url.port = String((other.address() as { port: number }).port);
      });
      assert.match(await failureOf(web), /is it PostgreSQL that listens there\?$/);
    } finally {
      other.close();
    }
  });
});
