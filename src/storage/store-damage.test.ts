import assert from 'node:assert/strict';
import { open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { UnavailableError } from '#lib/errors.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { checkSqliteStore } from './check-store.ts';
import { lockFolder } from './lock-folder.ts';
import { openRestoreTarget } from './restore-target.ts';
import { openSqliteStore } from './sqlite-store.ts';
import type { Store } from './store.ts';

const emitter = (id: string) => ({ id, owner_id: 'o_1', last_ms: 0, last_seq: 0, dedupe: 'x'.repeat(600) });

function insert(store: Store, ...ids: string[]): Promise<unknown> {
  return store.transaction((tx) => tx.insertInto('emitters').values(ids.map(emitter)).execute());
}

async function makeStore(folder: string): Promise<string> {
  const store = await openSqliteStore({ folder });
  await insert(store, ...Array.from({ length: 200 }, (_, n) => `e${n}`));
  await store.close();
  return join(folder, 'millrace.sqlite');
}

async function change(file: string, at: number, bytes: Uint8Array): Promise<void> {
  await using handle = await open(file, 'r+');
  await handle.write(bytes, 0, bytes.length, at);
}

/** How a start on the folder ends. */
async function start(folder: string): Promise<unknown> {
  const store = await openSqliteStore({ folder }).catch((error: unknown) => error);
  if (store instanceof Error) return store;
  await (store as Store).close();
  return undefined;
}

describe('a start on a damaged database', () => {
  // https://www.sqlite.org/fileformat.html#the_database_header
  const cases: [what: string, at: number, bytes: number[]][] = [
    ['no database at all', 0, [...Buffer.alloc(8192, 0x2a)]],
    ['the size of a page', 16, [0x03, 0x01]],
    ['the version that may read', 19, [0x77]],
    ['the number of pages', 28, [0, 0, 0, 9]],
    ['the first unused page', 32, [0, 0, 0, 40]],
    ['the number of unused pages', 36, [0, 1, 0, 0]],
    ['the format of the schema', 44, [0, 0, 0, 0xff]],
    ['the largest root page', 52, [0, 0, 0, 0]],
    ['a page of a table', 40 * 4096, [...Buffer.alloc(4096, 0x77)]],
  ];
  for (const [what, at, bytes] of cases) {
    test(`is refused with one sentence that says what to do: ${what}`, async () => {
      await using folder = await createTempFolder();
      const file = await makeStore(folder.path);
      assert.equal(await start(folder.path), undefined);
      assert.deepEqual(await checkSqliteStore(folder.path), []);
      await change(file, at, Uint8Array.from(bytes));
      const refusal = await start(folder.path);
      assert.ok(refusal instanceof UnavailableError, String(refusal));
      assert.equal(refusal.code, 'store_damaged');
      assert.match(
        refusal.message,
        new RegExp(`^the database ${file} is damaged \\(.+\\): .*millrace restore`),
      );
      assert.ok((await checkSqliteStore(folder.path).catch(() => ['unreadable']))?.length !== 0);
    });
  }

  test('a large one is looked at where its tables begin and end', async () => {
    await using folder = await createTempFolder();
    const file = await makeStore(folder.path);
    const open = async () => (await openSqliteStore({ folder: folder.path, checkedBytesMax: 0 })).close();
    await open();
    const database = new DatabaseSync(file, { readOnly: true });
    const schema = database.prepare("select rootpage from sqlite_schema where name = 'emitters'");
    const page = Number(schema.get()?.rootpage);
    database.close();
    await change(file, (page - 1) * 4096, Buffer.alloc(4096, 0x77));
    await assert.rejects(open(), { code: 'store_damaged' });
  });

  test('can be replaced by a restore, which keeps it', async () => {
    await using folder = await createTempFolder();
    const file = await makeStore(folder.path);
    const garbage = Buffer.alloc(20_000, 0x2a);
    await writeFile(file, garbage);
    const target = await openRestoreTarget({ databaseUrl: '', folder: folder.path });
    assert.equal(target.users, undefined);
    const kept = await target.replace({
      migrations: ['0001-initial'],
      tables: [],
      mayBegin: async () => {},
      fill: async () => {},
      finish: async () => {},
    });
    assert.deepEqual(await readFile(String(kept)), garbage);
    assert.equal(await start(folder.path), undefined);
  });

  test('a lock file that is no lock is reported as such, not as another service', async () => {
    await using folder = await createTempFolder();
    await writeFile(join(folder.path, 'lock.sqlite'), Buffer.alloc(5000, 0x2a));
    assert.throws(() => lockFolder(folder.path), /cannot be locked .*remove .*lock\.sqlite/);
  });
});

describe('a database whose files go away while it is open', () => {
  for (const [what, take] of [
    ['the folder is deleted', (folder: string) => rm(folder, { recursive: true })],
    ['the folder is moved', (folder: string) => rename(folder, `${folder}-moved`)],
    ['the database is deleted', (folder: string) => rm(join(folder, 'millrace.sqlite'))],
    ['its log is deleted', (folder: string) => rm(join(folder, 'millrace.sqlite-wal'))],
    ['the index of its log is deleted', (folder: string) => rm(join(folder, 'millrace.sqlite-shm'))],
    [
      'the database is replaced',
      async (folder: string) => {
        const file = join(folder, 'millrace.sqlite');
        await writeFile(`${file}.new`, await readFile(file));
        await rename(`${file}.new`, file);
      },
    ],
  ] as const) {
    test(`no further write is acknowledged once ${what}`, async () => {
      await using parent = await createTempFolder();
      const folder = join(parent.path, 'data');
      const store = await openSqliteStore({ folder });
      try {
        await insert(store, 'before');
        await store.checkWritable();
        await take(folder);
        for (const id of ['after-1', 'after-2'])
          await assert.rejects(insert(store, id), {
            code: 'store_unavailable',
            message: /removed or replaced/,
          });
        await assert.rejects(store.checkWritable(), { code: 'store_unavailable' });
        const ids = (await store.read.selectFrom('emitters').select('id').execute()).map(({ id }) => id);
        assert.deepEqual(ids, ['before'], 'and what was refused is not stored');
      } finally {
        await store.close();
      }
    });
  }

  test('a commit that meets it halfway is not acknowledged', async () => {
    await using parent = await createTempFolder();
    const folder = join(parent.path, 'data');
    const store = await openSqliteStore({ folder });
    try {
      await assert.rejects(
        store.transaction(async (tx) => {
          await tx.insertInto('emitters').values(emitter('one')).execute();
          await rm(folder, { recursive: true });
        }),
        { code: 'outcome_unknown' },
      );
    } finally {
      await store.close();
    }
  });

  test('it takes writes again when the same files are back', async () => {
    await using parent = await createTempFolder();
    const folder = join(parent.path, 'data');
    const store = await openSqliteStore({ folder });
    try {
      await rename(folder, `${folder}-moved`);
      await assert.rejects(insert(store, 'one'));
      await rename(`${folder}-moved`, folder);
      await store.checkWritable();
      await insert(store, 'two');
    } finally {
      await store.close();
    }
    assert.equal(await start(folder), undefined);
  });
});
