import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { postgresSkip } from '../../test/support/databases.ts';
import { type PostgresServer, startPostgres } from '../../test/support/postgres-server.ts';
import { TcpProxy } from '../../test/support/tcp-proxy.ts';
import type { BatchWrite } from './group-commit.ts';
import { openPostgresStore } from './postgres-store.ts';
import type { Store } from './store.ts';

const insertEmitter: BatchWrite<string, string> = {
  name: 'insert-emitter',
  async run(tx, ids) {
    const rows = ids.map((id) => ({ id, owner_id: 'o_1', last_ms: 0, last_seq: 0, dedupe: '' }));
    await tx.insertInto('emitters').values(rows).execute();
    return ids;
  },
};

describe('a connection that is lost at a commit', { skip: postgresSkip() }, () => {
  let server: PostgresServer;
  let proxy: TcpProxy;
  let store: Store;

  before(async () => {
    server = await startPostgres();
    const url = new URL(server.url);
    proxy = await TcpProxy.start({ host: url.hostname, port: Number(url.port) });
    url.port = String(proxy.port);
    store = await openPostgresStore({ url: String(url), logger: silentLogger });
  });
  after(async () => {
    await store?.close();
    await proxy?.[Symbol.asyncDispose]();
    await server?.stop();
  });

  const isStored = async (id: string): Promise<boolean> =>
    (await store.read.selectFrom('emitters').select('id').where('id', '=', id).execute()).length === 1;

  test('after the commit was done: the write is acknowledged, because it is stored', async () => {
    const cut = proxy.cutAt('commit', 'after');
    assert.equal(await store.writes.submit(insertEmitter, 'one'), 'one');
    await cut;
    assert.ok(await isStored('one'));
    const again = proxy.cutAt('commit', 'after');
    await store.transaction((tx) => insertEmitter.run(tx, ['two']));
    await again;
    assert.ok(await isStored('two'));
  });

  test('before the commit reached the database: the write is refused, and is not stored', async () => {
    const cut = proxy.cutAt('commit', 'before');
    await assert.rejects(store.writes.submit(insertEmitter, 'three'), {
      code: 'store_unavailable',
      message: /nothing was stored/,
    });
    await cut;
    assert.ok(!(await isStored('three')));
    await store.writes.submit(insertEmitter, 'three');
  });

  test('a database that was restarted meanwhile: the outcome is unknown, and nothing is promised', async () => {
    const cut = proxy.cutAt('commit', 'after');
    const write = store.writes.submit(insertEmitter, 'four');
    const refused = assert.rejects(write, { code: 'outcome_unknown', message: /may have been accepted/ });
    await cut.then(() => server.kill());
    await server.restart();
    await refused;
    await store.writes.submit(insertEmitter, 'five');
  });
});
