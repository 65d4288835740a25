import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import pg from 'pg';
import type { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import { postgresSkip } from '../../test/support/databases.ts';
import { type PostgresServer, startPostgres } from '../../test/support/postgres-server.ts';
import { TcpProxy } from '../../test/support/tcp-proxy.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { DatabaseHosts } from './database-hosts.ts';
import { usualPatience } from './postgres-connection.ts';
import { openPostgresStore } from './postgres-store.ts';
import { openSnapshot } from './snapshot.ts';
import type { Store } from './store.ts';

const patience = { ...usualPatience, connectMs: 5_000, silenceMs: 2_000, listenerPingMs: 500 };

describe('a database on two hosts', { skip: postgresSkip() }, () => {
  let servers: [PostgresServer, PostgresServer];
  /** With the password that both have, as two hosts of one database. */
  let urls: string[];
  let url: string;

  before(async () => {
    servers = await Promise.all([startPostgres(), startPostgres()]);
    for (const { url: given } of servers) await execute(given, `alter role postgres password 'shared'`);
    urls = servers.map((server) => String(Object.assign(new URL(server.url), { password: 'shared' })));
    const [one, two] = urls.map((each) => new URL(each).host);
    url = `postgres://postgres:shared@${one},${two}/postgres?target_session_attrs=read-write`;
    await setWritable(1, true);
    await (await openPostgresStore({ url: urls[1] ?? '', logger: silentLogger })).close();
  });
  after(async () => {
    await Promise.all((servers ?? []).map((server) => server.stop()));
  });
  beforeEach(async () => {
    await setWritable(0, true);
    await setWritable(1, false);
  });

  async function execute(on: string | undefined, ...statements: string[]): Promise<void> {
    const client = new pg.Client({ connectionString: on ?? '' });
    await client.connect();
    for (const statement of statements) await client.query(statement);
    await client.end();
  }

  /** What a promotion or a demotion is to those who connect. */
  function setWritable(which: 0 | 1, isWritable: boolean): Promise<void> {
    return execute(
      urls[which],
      'set default_transaction_read_only = off',
      `alter system set default_transaction_read_only = ${isWritable ? 'off' : 'on'}`,
      'select pg_reload_conf()',
    );
  }

  function write(store: Store, id: string): Promise<unknown> {
    const row = { id, owner_id: 'o_1', last_ms: 0, last_seq: 0, dedupe: '' };
    return store.transaction((tx) => tx.insertInto('emitters').values(row).execute());
  }

  const ids = async (store: Store): Promise<string[]> =>
    (await store.read.selectFrom('emitters').select('id').orderBy('id').execute()).map(({ id }) => id);

  const portOf = async (hosts: DatabaseHosts): Promise<string> => new URL(await hosts.find()).port;

  test('is reached at the host that takes writes, whichever place it has', async () => {
    await waitFor(
      async () => (await portOf(new DatabaseHosts(url, patience))) === new URL(servers[0].url).port,
    );
    await setWritable(0, false);
    await setWritable(1, true);
    await waitFor(
      async () => (await portOf(new DatabaseHosts(url, patience))) === new URL(servers[1].url).port,
    );
    const snapshot = await openSnapshot({ databaseUrl: url, folder: '' });
    assert.ok((snapshot?.migrations.length ?? 0) > 0, 'a backup goes there too');
    await snapshot?.close();
  });

  test('a database that takes no writes on any host is unavailable, and a wrong password is reported as one', async () => {
    await setWritable(0, false);
    await waitFor(() =>
      new DatabaseHosts(url, patience).find().then(
        () => false,
        (error: UnavailableError) =>
          error.code === 'store_unavailable' &&
          /takes no writes/.test(String((error.cause as Error).message)),
      ),
    );
    const wrong = new DatabaseHosts(url.replace('shared', 'wrong'), patience);
    await assert.rejects(wrong.find(), { code: '28P01' });
  });

  test('fails over when its host dies: writes, reads and notifications continue on the other, by themselves', async () => {
    const store = await openPostgresStore({ url, logger: silentLogger, patience });
    try {
      await write(store, 'first-0');
      await servers[0].kill();
      await setWritable(1, true);
      await waitFor(() =>
        write(store, 'second-0').then(
          () => true,
          () => false,
        ),
      );
      assert.deepEqual(await ids(store), ['second-0']);
      const heard = Promise.withResolvers<string>();
      store.onNotify((_channel, payload) => {
        if (payload === 'hello') heard.resolve(payload);
      });
      await waitFor(async () => {
        await execute(urls[1], `select pg_notify('millrace_jobs', 'somebody hello')`);
        return Promise.race([heard.promise, new Promise((resolve) => setImmediate(resolve, ''))]);
      });
    } finally {
      await store.close();
      await servers[0].restart();
    }
  });

  test('fails over when its host is demoted and stays up', async () => {
    const store = await openPostgresStore({ url, logger: silentLogger, patience });
    try {
      await write(store, 'first-1');
      await setWritable(0, false);
      await setWritable(1, true);
      await waitFor(() =>
        write(store, 'second-1').then(
          () => true,
          () => false,
        ),
      );
      await waitFor(async () => (await ids(store)).includes('second-1'));
      await store.checkWritable();
    } finally {
      await store.close();
    }
  });

  test('fails over when its host falls silent', async () => {
    const { hostname, port } = new URL(servers[0].url);
    await using proxy = await TcpProxy.start({ host: hostname, port: Number(port) });
    const store = await openPostgresStore({
      url: url.replace(`:${port}`, `:${proxy.port}`),
      logger: silentLogger,
      patience,
    });
    try {
      await write(store, 'first-2');
      proxy.fallSilent();
      await setWritable(1, true);
      await waitFor(() =>
        write(store, 'second-2').then(
          () => true,
          () => false,
        ),
      );
      assert.ok((await ids(store)).includes('second-2'));
    } finally {
      await store.close();
    }
  });
});
