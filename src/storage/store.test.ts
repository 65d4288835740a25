import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import { createTestDatabase, postgresSkip } from '../../test/support/databases.ts';
import { startPostgres } from '../../test/support/postgres-server.ts';
import { programFile } from '../../test/support/program-file.ts';
import { createStoreLocation, forEachStore } from '../../test/support/stores.ts';
import { TcpProxy } from '../../test/support/tcp-proxy.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { patienceMs, waitFor, within } from '../../test/support/wait-for.ts';
import { openPostgresStore } from './postgres-store.ts';
import { openSqliteStore } from './sqlite-store.ts';
import type { Store, Tx } from './store.ts';
import { isUniqueViolation } from './store-errors.ts';

function emitterRow(id: string, dedupe = '{}') {
  return { id, owner_id: 'o_1', last_ms: 0, last_seq: 0, dedupe };
}

function insertEmitter(tx: Tx, id: string): Promise<unknown> {
  return tx.insertInto('emitters').values(emitterRow(id)).execute();
}

async function emitterIds(store: Store): Promise<string[]> {
  const rows = await store.read.selectFrom('emitters').select('id').orderBy('id').execute();
  return rows.map(({ id }) => id);
}

describe('the store', () => {
  forEachStore((fixture) => {
    test('what a transaction wrote is visible to readers as soon as it resolves', async () => {
      await fixture.store.transaction((tx) => insertEmitter(tx, 'a'));
      assert.deepEqual(await emitterIds(fixture.store), ['a']);
    });

    test('a transaction that throws leaves nothing, and the next one works', async () => {
      const failure = new Error('changed my mind');
      await assert.rejects(
        fixture.store.transaction(async (tx) => {
          await insertEmitter(tx, 'a');
          throw failure;
        }),
        failure,
      );
      await assert.rejects(
        fixture.store.transaction(async (tx) => {
          await insertEmitter(tx, 'b');
          await insertEmitter(tx, 'b');
        }),
        isUniqueViolation,
      );
      await fixture.store.transaction((tx) => insertEmitter(tx, 'c'));
      assert.deepEqual(await emitterIds(fixture.store), ['c']);
    });

    test('a deferred statement is done before what follows it, and at the latest with the commit', async () => {
      const insertLater = (tx: Tx, id: string) =>
        fixture.store.defer(tx, tx.insertInto('emitters').values(emitterRow(id)).compile());
      await fixture.store.transaction(async (tx) => {
        await insertLater(tx, 'a');
        assert.deepEqual(await tx.selectFrom('emitters').select('id').execute(), [{ id: 'a' }]);
        await insertLater(tx, 'b');
      });
      assert.deepEqual(await emitterIds(fixture.store), ['a', 'b']);
      await assert.rejects(
        fixture.store.transaction(async (tx) => {
          await insertEmitter(tx, 'c');
          await insertLater(tx, 'a');
        }),
        isUniqueViolation,
      );
      await assert.rejects(
        fixture.store.transaction(async (tx) => {
          await insertLater(tx, 'd');
          throw new Error('changed my mind');
        }),
        /changed my mind/,
      );
      await fixture.store.transaction(async () => {});
      await fixture.store.transaction((tx) => insertEmitter(tx, 'e'));
      assert.deepEqual(await emitterIds(fixture.store), ['a', 'b', 'e']);
    });

    test('a reader is not held up by a transaction under way, and does not see it', async () => {
      await fixture.store.transaction(async (tx) => {
        await insertEmitter(tx, 'a');
        assert.deepEqual(await within(emitterIds(fixture.store), patienceMs, 'a read beside a write'), []);
      });
      assert.deepEqual(await emitterIds(fixture.store), ['a']);
    });

    test('transactions started together all commit', async () => {
      await Promise.all(
        Array.from({ length: 40 }, (_, index) =>
          fixture.store.transaction((tx) => insertEmitter(tx, `e${index}`)),
        ),
      );
      assert.equal((await emitterIds(fixture.store)).length, 40);
    });

    test('numbers, text and absent values come back as they went in', async () => {
      const row: JobTable = {
        id: 'j',
        kind: 'run_source',
        owner_id: 'o_ü',
        lane: null,
        state: 'queued',
        run_at_ms: 1_800_000_000_123,
        attempts: 0,
        losses: 0,
        blames: 0,
        alone: 0,
        lease_node: null,
        payload: '{"text":"\\u0000 naïve 🙂"}',
        error: null,
        created_at_ms: Number.MAX_SAFE_INTEGER,
        updated_at_ms: -1,
      };
      await fixture.store.transaction((tx) => tx.insertInto('jobs').values(row).execute());
      const columns = Object.keys(row) as (keyof typeof row)[];
      assert.deepEqual(
        { ...(await fixture.store.read.selectFrom('jobs').select(columns).executeTakeFirst()) },
        row,
      );
    });

    test('what was written is there after closing and opening again', async () => {
      await fixture.store.transaction((tx) => insertEmitter(tx, 'kept'));
      await fixture.reopen();
      assert.deepEqual(await emitterIds(fixture.store), ['kept']);
    });
  });
});

const writer = programFile('test/support/store-writer.ts');

/** A process that writes without pause and prints each id once its write was acknowledged. */
function startWriter(dialect: string, location: string, prefix: string) {
  const child: ChildProcess = spawn(process.execPath, [writer, dialect, location, prefix], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const acknowledged: string[] = [];
  if (child.stdout === null) throw new Error('no pipe');
  const lines = createInterface({ input: child.stdout });
  lines.on('line', (line) => acknowledged.push(line));
  return { child, acknowledged, ended: Promise.all([once(child, 'exit'), once(lines, 'close')]) };
}

describe('acknowledged means on disk', () => {
  // Each process writes eight things at a time: an early acknowledgement shows in nearly every round.
  const rounds = 5;
  for (const dialect of ['sqlite', 'postgres'] as const) {
    const skip = dialect === 'postgres' && postgresSkip();
    test(`on ${dialect}, every write acknowledged before kill -9 is there afterwards`, { skip }, async () => {
      const place = await createStoreLocation(dialect);
      try {
        const all: string[] = [];
        for (let round = 0; round < rounds; round += 1) {
          const { child, acknowledged, ended } = startWriter(dialect, place.location, `r${round}`);
          // At another moment each round, in the middle of the stream.
          const enough = 1 + Math.floor(Math.random() * 200);
          await waitFor(() => acknowledged.length >= enough, { what: `${enough} acknowledged writes` });
          child.kill('SIGKILL');
          await ended;
          all.push(...acknowledged);
        }
        const store = await place.open();
        try {
          const there = new Set(await emitterIds(store));
          assert.deepEqual(
            all.filter((id) => !there.has(id)),
            [],
          );
          assert.ok(all.length >= rounds);
          if (dialect === 'sqlite') {
            const { rows } = await sql<{ integrity_check: string }>`pragma integrity_check`.execute(
              store.read,
            );
            assert.deepEqual(
              rows.map((row) => row.integrity_check),
              ['ok'],
            );
          }
        } finally {
          await store.close();
        }
      } finally {
        await place.remove();
      }
    });
  }
});

describe('the embedded store', () => {
  let folder: TempFolder;
  let store: Store;
  before(async () => {
    folder = await createTempFolder();
    store = await openSqliteStore({ folder: join(folder.path, 'data') });
  });
  after(async () => {
    await store.close();
    await folder.remove();
  });

  test('runs in WAL mode, syncs every commit, and can give space back', async () => {
    const pragma = async (name: string) =>
      (
        await store.transaction((tx) =>
          sql<Record<string, unknown>>`${sql.raw(`pragma ${name}`)}`.execute(tx),
        )
      ).rows[0]?.[name];
    assert.equal(await pragma('journal_mode'), 'wal');
    assert.equal(await pragma('synchronous'), 2);
    assert.equal(await pragma('auto_vacuum'), 2);
    assert.equal(await pragma('foreign_keys'), 1);
  });

  test('gives the space of deleted rows back to the file system, a bounded part a time', async () => {
    await store.transaction((tx) =>
      tx
        .insertInto('emitters')
        .values(Array.from({ length: 1_200 }, (_, index) => emitterRow(`e${index}`, 'x'.repeat(6_000))))
        .execute(),
    );
    const free = async () =>
      (await sql<{ freelist_count: number }>`pragma freelist_count`.execute(store.read)).rows[0]
        ?.freelist_count ?? 0;
    await store.transaction((tx) => tx.deleteFrom('emitters').execute());
    const before = await free();
    assert.ok(before > 1_500, `only ${before} pages are free`);
    await store.reclaimSpace();
    assert.equal(await free(), before - 1_000);
  });

  test('is in a folder that only its user may enter', async () => {
    assert.equal((await stat(join(folder.path, 'data'))).mode & 0o777, 0o700);
  });
});

describe('PostgreSQL that goes away', { skip: postgresSkip() }, () => {
  test('is reported as store_unavailable, and everything acknowledged is there when it is back', async () => {
    const server = await startPostgres();
    try {
      const store = await openPostgresStore({ url: server.url, logger: silentLogger });
      try {
        const told: string[] = [];
        store.onNotify((channel, payload) => told.push(`${channel} ${payload}`));
        const isUnavailable = (error: unknown): boolean => {
          assert.ok(error instanceof UnavailableError, `not an UnavailableError: ${String(error)}`);
          assert.equal(error.code, 'store_unavailable');
          return true;
        };
        await store.transaction((tx) => insertEmitter(tx, 'kept'));
        // One transaction is open, doing nothing, when the server dies: the process must live on.
        const openNow = Promise.withResolvers<void>();
        const goOn = Promise.withResolvers<void>();
        const interrupted = store.transaction(async (tx) => {
          await insertEmitter(tx, 'lost');
          openNow.resolve();
          await goOn.promise;
          await insertEmitter(tx, 'lost too');
        });
        await openNow.promise;
        await server.kill();
        goOn.resolve();
        await assert.rejects(interrupted, isUnavailable);
        await assert.rejects(
          store.transaction((tx) => insertEmitter(tx, 'refused')),
          isUnavailable,
        );
        await assert.rejects(emitterIds(store), isUnavailable);
        await assert.rejects(
          store.writes.submit({ name: 'insert', run: async (tx) => [await insertEmitter(tx, 'refused')] }, 1),
          isUnavailable,
        );
        await server.restart();
        await waitFor(() => emitterIds(store), { what: 'the store to answer again' });
        assert.deepEqual(await emitterIds(store), ['kept']);
        await store.transaction((tx) => insertEmitter(tx, 'new'));
        assert.deepEqual(await emitterIds(store), ['kept', 'new']);
        // It listens again, and notifies once of what may have been missed.
        await waitFor(() => told.includes('millrace_jobs ') && told.includes('millrace_events '));
        const other = await openPostgresStore({ url: server.url, logger: silentLogger });
        await store.transaction((tx) => store.notify(tx, 'millrace_events', 'to others'));
        await other.transaction((tx) => other.notify(tx, 'millrace_events', 'hello'));
        await other.close();
        await waitFor(() => told.includes('millrace_events hello'), {
          what: 'a notification after the restart',
        });
        assert.ok(!told.includes('millrace_events to others'), 'a process is not told what it told itself');
      } finally {
        await store.close();
      }
    } finally {
      await server.stop();
    }
  });

  test('without a reset is reported as store_unavailable to all callers in time, and found again when it is back', async () => {
    const database = await createTestDatabase();
    try {
      const direct = new URL(database.url);
      await using proxy = await TcpProxy.start({ host: direct.hostname, port: Number(direct.port) });
      const through = new URL(direct);
      through.port = String(proxy.port);
      const store = await openPostgresStore({
        url: through.href,
        logger: silentLogger,
        // Long enough for a server that answers while the machine is busy.
        patience: { connectMs: 2_000, statementMs: 1_500, silenceMs: 2_000, listenerPingMs: 100 },
      });
      try {
        const told: string[] = [];
        store.onNotify((channel, payload) => told.push(`${channel} ${payload}`));
        const insert = (id: string) =>
          store.writes.submit({ name: 'insert', run: async (tx) => [await insertEmitter(tx, id)] }, id);
        const isUnavailable = { name: 'UnavailableError', code: 'store_unavailable' };
        await insert('kept');
        const openNow = Promise.withResolvers<void>();
        const goOn = Promise.withResolvers<void>();
        const interrupted = store.transaction(async (tx) => {
          await insertEmitter(tx, 'lost');
          openNow.resolve();
          await goOn.promise;
          await insertEmitter(tx, 'lost too');
        });
        await openNow.promise;
        proxy.fallSilent();
        goOn.resolve();
        const refused = Promise.all([
          assert.rejects(interrupted, isUnavailable),
          assert.rejects(emitterIds(store), isUnavailable),
          assert.rejects(insert('refused'), isUnavailable),
        ]);
        await within(refused, patienceMs, 'a read and two writes to be refused');
        // Also what has to connect first.
        await within(assert.rejects(insert('refused'), isUnavailable), 30_000, 'another write to be refused');
        proxy.recover();
        const ids = await waitFor(() => emitterIds(store), { what: 'the store to answer again' });
        assert.deepEqual(ids, ['kept']);
        await waitFor(() => told.includes('millrace_jobs '), { what: 'the listener to connect again' });
        const other = await openPostgresStore({ url: direct.href, logger: silentLogger });
        await other.transaction((tx) => other.notify(tx, 'millrace_events', 'hello'));
        await other.close();
        await waitFor(() => told.includes('millrace_events hello'), { what: 'a notification after it' });
      } finally {
        await within(store.close(), patienceMs, 'the store to close');
      }
    } finally {
      await database.drop();
    }
  });

  test('a statement that takes too long is ended by the server, and its connection serves on', async () => {
    const database = await createTestDatabase();
    try {
      const store = await openPostgresStore({
        url: database.url,
        logger: silentLogger,
        patience: { connectMs: 5_000, statementMs: 100, silenceMs: 5_000, listenerPingMs: 5_000 },
      });
      try {
        await assert.rejects(sql`select pg_sleep(20)`.execute(store.read), { code: 'store_unavailable' });
        // Asked again where the machine is too busy to answer in time.
        assert.deepEqual(await waitFor(() => emitterIds(store)), []);
      } finally {
        await store.close();
      }
    } finally {
      await database.drop();
    }
  });

  test('a server that is not there at start is an error at once, and leaves nothing open', async () => {
    await assert.rejects(
      openPostgresStore({ url: 'postgres://nobody@127.0.0.1:1/none', logger: silentLogger }),
      (error: unknown) => error instanceof UnavailableError && error.code === 'store_unavailable',
    );
  });
});
