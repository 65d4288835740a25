import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { silentLogger } from '#lib/logger.ts';
import { createTestDatabase, postgresSkip, type TestDatabase } from '../../test/support/databases.ts';
import { type PgBouncer, pgbouncerSkip, startPgBouncer } from '../../test/support/pgbouncer.ts';
import { usualPatience } from './postgres-connection.ts';
import { openPostgresStore } from './postgres-store.ts';
import type { Store } from './store.ts';

/** Fewer than the connections of one store, so that each transaction gets one that others have used. */
const poolSize = 3;

describe('a store behind pgbouncer in transaction mode', { skip: postgresSkip() || pgbouncerSkip() }, () => {
  let database: TestDatabase;
  let pooler: PgBouncer;
  let stores: Store[];

  before(async () => {
    database = await createTestDatabase();
    pooler = await startPgBouncer(database.url, { poolSize });
    // A busy machine takes longer than usual to give each writer its turn.
    const patience = { ...usualPatience, connectMs: 60_000 };
    const options = { url: pooler.url, sessionUrl: database.url, logger: silentLogger, patience };
    stores = [await openPostgresStore(options), await openPostgresStore(options)];
  });
  after(async () => {
    for (const store of stores ?? []) await store.close();
    await pooler?.stop();
    await database?.drop();
  });

  test('needs the URL of its sessions: the pooler refuses bounds that a connection begins with', async () => {
    await assert.rejects(
      openPostgresStore({ url: pooler.url, logger: silentLogger }),
      /MILLRACE_DATABASE_URL: found a pooler that refuses \w+, expected MILLRACE_DATABASE_SESSION_URL/,
    );
  });

  test('stores what many write at the same time, and tells the others by notifications', async () => {
    const [one, other] = stores as [Store, Store];
    const count = 40;
    const heard = new Set<string>();
    const all = Promise.withResolvers<void>();
    other.onNotify((channel, payload) => {
      if (channel !== 'millrace_events') return;
      heard.add(payload);
      if (heard.size === count) all.resolve();
    });
    const ids = Array.from({ length: count }, (_, index) => `e_${index}`);
    await Promise.all(
      ids.map((id) =>
        one.transaction(async (tx) => {
          await tx
            .insertInto('emitters')
            .values({ id, owner_id: 'o_1', last_ms: 0, last_seq: 0, dedupe: '' })
            .execute();
          await one.notify(tx, 'millrace_events', id);
        }),
      ),
    );
    await all.promise;
    const rows = await other.read.selectFrom('emitters').select('id').execute();
    assert.deepEqual(rows.map(({ id }) => id).sort(), ids.sort());
    const { rows: used } = await sql<{ count: number }>`select count(*)::int as count from pg_stat_activity
      where application_name = 'millrace' and datname = current_database()`.execute(one.read);
    assert.ok((used[0]?.count ?? 0) <= poolSize, `${used[0]?.count} connections to the database`);
  });

  test('bounds each transaction, and leaves nothing of it to the next user of the connection', async () => {
    const [store] = stores as [Store];
    const bounds = sql<{
      statement: string;
      idle: string;
    }>`select current_setting('statement_timeout') as statement,
      current_setting('idle_in_transaction_session_timeout') as idle`;
    const inside = await store.transaction((tx) => bounds.execute(tx));
    assert.deepEqual(inside.rows, [{ statement: `${usualPatience.statementMs / 1000}s`, idle: '30s' }]);
    const outside = await bounds.execute(store.read);
    assert.deepEqual(outside.rows, [{ statement: '0', idle: '0' }]);
  });

  test('reports the outcome of a transaction that fails, and uses the connection again', async () => {
    const [store] = stores as [Store];
    await assert.rejects(
      store.transaction((tx) => sql`select 1 / 0`.execute(tx)),
      /division by zero/,
    );
    const { rows } = await store.transaction((tx) => sql<{ one: number }>`select 1 as one`.execute(tx));
    assert.deepEqual(rows, [{ one: 1 }]);
  });
});
