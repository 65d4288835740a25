import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { sql } from 'kysely';
import { migrations } from '#storage/migrate.ts';
import { openRestoreTarget } from '#storage/restore-target.ts';
import { openSnapshot } from '#storage/snapshot.ts';
import { openSqliteStore } from '#storage/sqlite-store.ts';
import type { Store } from '#storage/store.ts';
import type { Tables } from '#storage/tables.ts';
import { claimOf } from '#user-data/files/file-bucket-store.ts';
import { insertFile } from '#user-data/files/file-store.ts';
import { checkMasterKey, takeMasterKey } from '#vault/check-master-key.ts';
import { Vault } from '#vault/vault.ts';
import { postgresSkip } from '../../../test/support/databases.ts';
import { expectedSecrets, openSealed, storeSealed } from '../../../test/support/sealed-store.ts';
import { createStoreLocation, type Dialect, type StoreLocation } from '../../../test/support/stores.ts';
import { createTempFolder, type TempFolder } from '../../../test/support/temp-folder.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { encodeHeader, newDerivation, readHeader } from './backup-header.ts';
import { type BackupSecret, deriveKeys, type ScryptCost } from './backup-key.ts';
import { rowLine, tableLine } from './backup-records.ts';
import { backupTables, keptTables } from './backup-tables.ts';
import { checkBackup, openBackup } from './read-backup.ts';
import { type RestoredBackup, restoreBackup } from './restore-backup.ts';
import { sealFrames } from './sealed-frames.ts';
import { writeBackup } from './write-backup.ts';

const secret: BackupSecret & { kind: 'passphrase' } = {
  kind: 'passphrase',
  text: 'four words that nobody guesses',
};
const recoveryKey: BackupSecret = { kind: 'key', key: randomBytes(32) };
const oldVault = new Vault(Buffer.alloc(32, 1));
const newVault = new Vault(Buffer.alloc(32, 2));
const clock = new TestClock(Date.parse('2026-11-21T10:00:00Z'));
const never = new AbortController().signal;
/** A guess at the passphrase of these backups is cheap: nothing guesses, and the tests derive dozens of keys. */
const cheapGuess: ScryptCost = { n: 16, r: 8, p: 1 };
/** What a text of a user may hold. */
const nasty = `"'\\ \n\r\t \u2028 \u202e <b> 😀 ${'é'.repeat(20)}`;

const whereOf = ({ dialect, location }: StoreLocation) =>
  dialect === 'sqlite' ? { databaseUrl: '', folder: location } : { databaseUrl: location, folder: '' };

async function backupOf(
  place: StoreLocation,
  target: string,
  more: { secret?: BackupSecret; migrations?: readonly { name: string }[]; claims?: readonly string[] } = {},
): Promise<string> {
  const snapshot = await openSnapshot(whereOf(place));
  assert.ok(snapshot);
  const { claims, ...job } = more;
  try {
    const { file } = await writeBackup({
      ...{ vault: oldVault, secret, target, clock, version: '0.1.0', signal: never, ...job },
      scryptCost: cheapGuess,
      snapshot: claims === undefined ? snapshot : { ...snapshot, migrations: claims },
      onProgress: () => {},
    });
    return file;
  } finally {
    await snapshot.close();
  }
}

async function restoreInto(
  place: StoreLocation,
  file: string,
  more: { secret?: BackupSecret; mayReplace?: boolean } = {},
) {
  const backup = await openBackup(file, async () => more.secret ?? secret);
  await checkBackup(backup);
  const target = await openRestoreTarget(whereOf(place));
  return restoreBackup({
    ...{ backup, target, clock, signal: never },
    vault: newVault,
    mayReplace: more.mayReplace === true,
    onProgress: () => {},
  });
}

/** Three rows in each table, where ids of one are ids of the others; data keys and what they seal apart. */
async function fillEveryTable(store: Store): Promise<void> {
  const found = await store.read.introspection.getTables();
  const rowsByTable = new Map<string, Record<string, unknown>[]>();
  for (const name of Object.keys(backupTables)) {
    if (name === 'data_keys' || name === 'key_rotations' || name === 'nodes') continue;
    const columns = (found.find((table) => table.name === name)?.columns ?? []).map((column) => ({
      ...column,
      // SQLite says of its primary keys that they may be null.
      isNullable: column.isNullable && !/(^|_)id$|^kind$/.test(column.name),
    }));
    assert.ok(columns.length > 0, name);
    const rows = [0, 1, 2].map((n) =>
      Object.fromEntries(
        columns.map(({ name: column, dataType, isNullable }) => [
          column,
          /text/i.test(dataType)
            ? isNullable && n === 2
              ? null
              : /^(event|payload|code|content|name|db|value|error)$/.test(column)
                ? `${n} ${nasty}`
                : `t${n}`
            : /bytea/i.test(dataType)
              ? Buffer.from([0, 255, n])
              : isNullable && n === 2
                ? null
                : /bigint|int8/i.test(dataType)
                  ? 1_795_000_000_000 + n
                  : n,
        ]),
      ),
    );
    rowsByTable.set(name, rows);
  }
  await store.transaction(async (tx) => {
    for (const [name, rows] of rowsByTable)
      await tx
        .insertInto(name as keyof Tables)
        .values(rows as never)
        .execute();
  });
}

type Row = Record<string, unknown>;

async function rowsOf(store: Store, table: keyof Tables): Promise<Row[]> {
  const { rows } = await sql<Row>`select * from ${sql.table(table)}`.execute(store.read);
  return rows;
}

/** Rows in a form that does not depend on their order, on that of their columns, or on the store. */
function comparable(rows: readonly Row[]): string[] {
  return rows
    .map((row) =>
      JSON.stringify(
        Object.entries(row)
          .map(([name, value]) => [name, value instanceof Uint8Array ? [...value] : value])
          .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
      ),
    )
    .sort();
}

const pairs: [Dialect, Dialect][] = [
  ['sqlite', 'postgres'],
  ['postgres', 'sqlite'],
  ['sqlite', 'sqlite'],
  ['postgres', 'postgres'],
];

for (const [from, to] of pairs) {
  const skip = (from === 'postgres' || to === 'postgres') && postgresSkip();
  describe(`a backup from ${from} into ${to}`, { skip }, () => {
    let source: StoreLocation;
    let target: StoreLocation;
    let folder: TempFolder;
    let store: Store;
    let file: string;
    let done: RestoredBackup;
    let restored: Store;
    before(async () => {
      source = await createStoreLocation(from);
      target = await createStoreLocation(to);
      folder = await createTempFolder('backup');
      store = await source.open();
      await takeMasterKey(store, oldVault, clock);
      for (const owner of ['o_1', 'u_2']) await storeSealed(store, { vault: oldVault, clock }, owner);
      await fillEveryTable(store);
      await store.transaction(async (tx) => {
        await tx
          .updateTable('jobs')
          .set({ state: 'running', lease_node: 'node_x', attempts: 2 })
          .where('id', '=', 't0')
          .execute();
        await tx
          .updateTable('jobs')
          .set({ state: 'quarantined', lease_node: null })
          .where('id', '=', 't1')
          .execute();
        await tx.updateTable('accounts').set({ lease_node: 'node_x', lease_until_ms: 5 }).execute();
      });
      // Beside a service that has the store open.
      file = await backupOf(source, folder.path);
      done = await restoreInto(target, file);
      restored = await target.open();
    });
    after(async () => {
      await restored?.close();
      await store?.close();
      await source?.remove();
      await target?.remove();
      await folder?.remove();
    });

    test('is one file, named by its time, that only its user may read, and shows no secret', async () => {
      assert.match(file, /millrace-2026-11-21T10-00-00Z\.backup$/);
      if (process.platform !== 'win32') assert.equal((await stat(file)).mode & 0o777, 0o600);
      assert.deepEqual(await readdir(folder.path), [file.slice(folder.path.length + 1)]);
      const bytes = await readFile(file);
      for (const text of [nasty, 'data_keys', 'secret of']) assert.ok(!bytes.includes(text), text);
    });

    test('has every row of every table that is kept, and opens what was sealed', async () => {
      assert.equal(done.dataKeys, 2);
      await checkMasterKey(restored.read, newVault);
      for (const table of Object.keys(backupTables) as (keyof Tables)[]) {
        const rows = await rowsOf(restored, table);
        const stored = await rowsOf(store, table);
        // The lease that a restore ends, and the attempt that it does not count.
        const expected = stored.map((row) =>
          table === 'jobs' && row.state === 'running'
            ? {
                ...row,
                state: 'queued',
                lease_node: null,
                attempts: Number(row.attempts) - 1,
                updated_at_ms: clock.now(),
              }
            : row,
        );
        if (!keptTables.includes(table)) assert.deepEqual([table, rows], [table, []]);
        else if (
          table !== 'data_keys' &&
          table !== 'key_rotations' &&
          table !== 'deliveries' &&
          table !== 'accounts'
        )
          assert.deepEqual([table, comparable(rows)], [table, comparable(expected)]);
        else assert.equal(rows.length, stored.length, table);
      }
      // Connections under way start over, so their rows are not kept; the helper needs them to open what else is sealed.
      const flows = await store.read.selectFrom('connect_flows').selectAll().execute();
      await restored.transaction((tx) => tx.insertInto('connect_flows').values(flows).execute());
      for (const owner of ['o_1', 'u_2'])
        assert.deepEqual(await openSealed(restored, newVault, owner), expectedSecrets(owner));
    });

    test('has no lease: work that was under way is queued again, and its attempt is not counted', async () => {
      const jobs = await restored.read
        .selectFrom('jobs')
        .select(['id', 'state', 'lease_node', 'attempts'])
        .orderBy('id')
        .execute();
      assert.deepEqual(jobs.slice(0, 2), [
        { id: 't0', state: 'queued', lease_node: null, attempts: 1 },
        { id: 't1', state: 'quarantined', lease_node: null, attempts: 1 },
      ]);
      for (const table of ['deliveries', 'accounts'] as const) {
        const leased = await restored.read
          .selectFrom(table)
          .select('id')
          .where('lease_node', 'is not', null)
          .execute();
        assert.deepEqual(leased, []);
      }
    });
  });
}

describe('a backup', () => {
  let source: StoreLocation;
  let folder: TempFolder;
  let file: string;
  before(async () => {
    source = await createStoreLocation('sqlite');
    folder = await createTempFolder('backup');
    const store = await source.open();
    await takeMasterKey(store, oldVault, clock);
    await storeSealed(store, { vault: oldVault, clock }, 'o_1');
    await fillEveryTable(store);
    await store.transaction((tx) =>
      tx
        .insertInto('file_chunks')
        .values(
          Array.from({ length: 4 }, (_, number) => ({
            file_id: 'f',
            number,
            owner_id: 'o_1',
            bytes: randomBytes(300_000),
          })),
        )
        .execute(),
    );
    await store.close();
    file = await backupOf(source, join(folder.path, 'whole'));
  });
  after(async () => {
    await source.remove();
    await folder.remove();
  });

  for (const dialect of ['sqlite', 'postgres'] as const) {
    describe(`refused, on ${dialect}`, { skip: dialect === 'postgres' && postgresSkip() }, () => {
      let target: StoreLocation;
      before(async () => {
        target = await createStoreLocation(dialect);
      });
      after(() => target.remove());
      const refused = async (path: string, expected: RegExp, use: BackupSecret = secret) => {
        await assert.rejects(restoreInto(target, path, { secret: use }), expected);
        if (dialect === 'sqlite') assert.deepEqual(await readdir(target.location), []);
        else {
          const snapshot = await openSnapshot(whereOf(target));
          assert.deepEqual(snapshot?.migrations, [], 'no table was made');
          await snapshot?.close();
        }
      };

      test('with a wrong passphrase, a key where a passphrase is needed, or the other way round', async () => {
        await refused(file, /this is not the passphrase/, { kind: 'passphrase', text: 'something else' });
        await refused(file, /made with a passphrase, not with a recovery key/, recoveryKey);
        const keyed = await backupOf(source, join(folder.path, `keyed ${dialect}`), { secret: recoveryKey });
        await refused(keyed, /made with a recovery key: give it with --key-file/);
        await refused(keyed, /this is not the recovery key/, { kind: 'key', key: randomBytes(32) });
        await checkBackup(await openBackup(keyed, async () => recoveryKey));
      });

      test('when it was changed anywhere, cut off, or is something else', async () => {
        const whole = await readFile(file);
        const body = whole.indexOf(10, whole.indexOf(10) + 1) + 1;
        for (const [at, expected] of [
          [3, /is not a backup of Millrace/],
          [16, /restore it with a newer version|is not a backup/],
          [whole.indexOf('"salt":"') + 12, /not the passphrase/],
          [whole.indexOf('"created_at_ms":') + 20, /the file is damaged: part 1 /],
          [body + 100, /the file is damaged: part 1 /],
          [body + 600_000, /the file is damaged: part 3 /],
          [whole.length - 1, /the file is damaged/],
        ] as const) {
          const changed = Buffer.from(whole);
          changed[at] = (changed[at] ?? 0) ^ 1;
          const path = join(folder.path, 'changed');
          await writeFile(path, changed);
          await refused(path, expected);
        }
        const path = join(folder.path, 'cut');
        for (const length of [0, 10, 100, body, body + 50, body + 700_000, whole.length - 1]) {
          await writeFile(path, whole.subarray(0, length));
          await refused(path, /is not a backup|cut off|damaged/);
        }
        await refused(folder.path, /is not a file/);
        await refused(join(folder.path, 'none'), /there is no file/);
      });

      test('when it was made by hand, with a table that is in no backup or a line that is no record', async () => {
        const header = { created_at_ms: clock.now(), millrace: '0.1.0', store: 'sqlite' as const };
        const key = newDerivation(recoveryKey);
        const { body, check } = await deriveKeys(recoveryKey, key);
        const names = migrations.map(({ name }) => name);
        const start = encodeHeader({ ...header, migrations: names, key, check });
        const bound = createHash('sha256').update(start).digest();
        const path = join(folder.path, `by hand ${dialect}`);
        for (const [lines, expected] of [
          [tableLine('schema_migrations', ['name']) + rowLine(['0999-of-tomorrow']), /a table that is in no/],
          [tableLine('sessions', ['id']) + rowLine(['ses_1']), /a table that is in no backup/],
          [tableLine('pg_catalog.pg_authid', ['rolname']), /a table that is in no backup/],
          ['null\n', /a number of rows is not what it was/],
        ] as const) {
          const packed = async function* () {
            yield zstdCompressSync(lines);
          };
          const frames = await Array.fromAsync(sealFrames(packed(), { key: body, bound }));
          await writeFile(path, Buffer.concat([start, ...frames]));
          await refused(path, expected, recoveryKey);
        }
        // The header is not authenticated yet and is printed: a terminal would interpret these characters.
        for (const more of [{ millrace: '\u001b]0;title\u0007' }, { migrations: ['\u001b[2J'] }]) {
          await writeFile(path, encodeHeader({ ...header, migrations: names, key, check, ...more }));
          await refused(path, /its header is not as it was written$/, recoveryKey);
        }
      });

      test('when a newer version made it', async () => {
        const names = [...migrations.map(({ name }) => name), '0999-of-tomorrow'];
        const newer = await backupOf(source, join(folder.path, `newer ${dialect}`), {
          claims: names,
          migrations: names.map((name) => ({ name })),
        });
        await refused(newer, /made by a newer version of Millrace \(0\.1\.0; it has 0999-of-tomorrow\)/);
      });
    });
  }

  test('is not made of a store that is not there, is empty, of another version, or sealed under another key', async () => {
    await using empty = await createTempFolder('empty');
    assert.equal(await openSnapshot({ databaseUrl: '', folder: empty.path }), undefined);
    await assert.rejects(backupOf(source, file), /is there already/);
    await assert.rejects(backupOf(source, join(folder.path, 'no', 'such')), /there is no folder/);
    await assert.rejects(
      backupOf(source, `${folder.path}/nightly/`),
      /there is no folder .*nightly\/: make it first/,
    );
    await assert.rejects(
      backupOf(source, join(folder.path, 'x'), { migrations: migrations.slice(0, -1) }),
      /of another version of Millrace than this program/,
    );
    const snapshot = await openSnapshot(whereOf(source));
    assert.ok(snapshot);
    const job = { snapshot, secret, clock, version: '0.1.0', signal: never, onProgress: () => {} };
    await assert.rejects(
      writeBackup({ ...job, vault: newVault, target: join(folder.path, 'y') }),
      /sealed under another encryption key/,
    );
    const stopped = AbortSignal.abort();
    await assert.rejects(
      writeBackup({ ...job, vault: oldVault, target: join(folder.path, 'z'), signal: stopped }),
      /interrupted: no backup was made/,
    );
    await snapshot.close();
    assert.deepEqual(
      (await readdir(folder.path)).filter((name) => /^[xyz]/.test(name)),
      [],
    );
  });

  test('of a passphrase costs 128 MB of memory per guess, unless its maker chooses another cost', async () => {
    const snapshot = await openSnapshot(whereOf(source));
    assert.ok(snapshot);
    const target = join(folder.path, 'at its real cost');
    await writeBackup({
      ...{ snapshot, vault: oldVault, secret, target, clock, version: '0.1.0', signal: never },
      onProgress: () => {},
    });
    await snapshot.close();
    const { key } = (await readHeader(target)).header;
    assert.deepEqual({ ...key, salt: '' }, { kind: 'scrypt', salt: '', n: 131_072, r: 8, p: 1 });
    await checkBackup(await openBackup(target, async () => secret));
    assert.deepEqual(
      { ...(await readHeader(file)).header.key, salt: '' },
      { kind: 'scrypt', salt: '', ...cheapGuess },
    );
  });

  test('of an older version is brought to this one', async () => {
    await using older = await createTempFolder('older');
    const known = migrations.slice(0, 6);
    const store = await openSqliteStore({ folder: older.path, migrations: known });
    await store.transaction(async (tx) => {
      await sql`insert into users (id, username, email, is_admin, created_at_ms) values ('u_1', 'ann', 'a@b', 1, 5)`.execute(
        tx,
      );
      await sql`insert into bundles (owner_id, hash, format, code, created_at_ms) values ('u_1', 'h', 'f', 'c', 5)`.execute(
        tx,
      );
    });
    await store.close();
    const place = { dialect: 'sqlite', location: older.path } as StoreLocation;
    const made = await backupOf(place, join(folder.path, 'older'), { migrations: known });
    for (const dialect of ['sqlite', ...(postgresSkip() === false ? (['postgres'] as const) : [])] as const) {
      const target = await createStoreLocation(dialect);
      await restoreInto(target, made);
      const restored = await target.open();
      assert.deepEqual(await restored.read.selectFrom('bundles').select(['code', 'packages']).execute(), [
        { code: 'c', packages: null },
      ]);
      assert.deepEqual(await restored.read.selectFrom('sessions').selectAll().execute(), []);
      await restored.close();
      await target.remove();
    }
  });

  for (const dialect of ['sqlite', 'postgres'] as const) {
    test(`replaces a ${dialect} store that was used only when that is wanted`, {
      skip: dialect === 'postgres' && postgresSkip(),
    }, async () => {
      const target = await createStoreLocation(dialect);
      const store = await target.open();
      await store.transaction((tx) =>
        tx
          .insertInto('users')
          .values({
            id: 'u_9',
            username: 'nine',
            email: 'n@b',
            is_admin: 1,
            kind: 'person',
            workspace_id: null,
            created_by: null,
            disabled_at_ms: null,
            created_at_ms: 5,
          })
          .execute(),
      );
      await store.close();
      await assert.rejects(restoreInto(target, file), /this instance is in use: it has 1 user\./);
      const { kept } = await restoreInto(target, file, { mayReplace: true });
      const restored = await target.open();
      const ids = async (from: Store) =>
        (await from.read.selectFrom('users').select('id').orderBy('id').execute()).map(({ id }) => id);
      assert.deepEqual(await ids(restored), ['t0', 't1', 't2']);
      await restored.close();
      if (dialect === 'sqlite') {
        assert.ok(kept !== undefined && existsSync(kept));
        await using back = await createTempFolder('kept');
        await writeFile(join(back.path, 'millrace.sqlite'), await readFile(kept));
        const old = await openSqliteStore({ folder: back.path });
        assert.deepEqual(await ids(old), ['u_9'], 'the store that was there is kept whole');
        await old.close();
      }
      await target.remove();
    });
  }

  test('a damaged data key is in it as it is, and is reported', async () => {
    const place = await createStoreLocation('sqlite');
    const store = await place.open();
    await takeMasterKey(store, oldVault, clock);
    await storeSealed(store, { vault: oldVault, clock }, 'o_1');
    await storeSealed(store, { vault: oldVault, clock }, 'o_2');
    await store.transaction(async (tx) => {
      const { wrapped } = await tx
        .selectFrom('data_keys')
        .select('wrapped')
        .where('owner_id', '=', 'o_2')
        .executeTakeFirstOrThrow();
      await tx
        .updateTable('data_keys')
        .set({ wrapped: `${wrapped.slice(0, -3)}AAA` })
        .where('owner_id', '=', 'o_2')
        .execute();
    });
    await store.close();
    const made = await backupOf(place, join(folder.path, 'lost'));
    const { lost, dataKeys } = await checkBackup(await openBackup(made, async () => secret));
    assert.deepEqual([lost.length, dataKeys], [1, 1]);
    assert.match(lost[0] ?? '', / of o_2$/);
    await place.remove();
  });

  test('files in a bucket are counted when it is restored, and the bucket stays with the original', async () => {
    for (const dialect of ['sqlite', ...(postgresSkip() === false ? (['postgres'] as const) : [])] as const) {
      const original = await createStoreLocation(dialect);
      const store = await original.open();
      await takeMasterKey(store, oldVault, clock);
      const nowMs = clock.now();
      const file = { owner_id: 'o_1', folder: 'files', content_type: 'text/plain', size: 1, sha256: '' };
      const times = { expires_at_ms: null, created_at_ms: nowMs, updated_at_ms: nowMs };
      await store.transaction(async (tx) => {
        for (const [id, place] of [['file_1', 'store'] as const, ['file_2', 's3'] as const])
          await insertFile(tx, { ...file, ...times, id, path: id, complete: 1, content_in: place });
        await claimOf(tx, { bucket: 'bucket/', claim: 'claim', nowMs });
      });
      await store.close();
      const made = await backupOf(original, join(folder.path, `bucket-${dialect}`));
      const copy = await createStoreLocation(dialect);
      const { filesOutside } = await restoreInto(copy, made);
      assert.equal(filesOutside, 1);
      const restored = await copy.open();
      const claims = await restored.read.selectFrom('file_buckets').select('claim').execute();
      assert.deepEqual(claims, []);
      await restored.close();
      await original.remove();
      await copy.remove();
    }
  });

  test('shows one moment of a store that is written to meanwhile', async () => {
    for (const dialect of ['sqlite', ...(postgresSkip() === false ? (['postgres'] as const) : [])] as const) {
      const place = await createStoreLocation(dialect);
      const store = await place.open();
      const add = (...numbers: number[]) =>
        store.transaction((tx) =>
          tx
            .insertInto('component_dbs')
            .values(
              numbers.map((n) => ({
                source_id: `s${String(n).padStart(6, '0')}`,
                owner_id: 'u_1',
                db: '{}',
              })),
            )
            .execute(),
        );
      await add(...Array.from({ length: 300 }, (_, n) => n));
      const snapshot = await openSnapshot(whereOf(place));
      assert.ok(snapshot);
      const seen: unknown[] = [];
      for await (const batch of snapshot.rows('component_dbs', ['source_id'])) {
        seen.push(...batch);
        await add(300 + seen.length);
        await store.transaction((tx) =>
          tx
            .deleteFrom('component_dbs')
            .where('source_id', '=', `s000${String(299 - (seen.length % 100)).padStart(3, '0')}`)
            .execute(),
        );
      }
      assert.equal(seen.length, 300);
      await snapshot.close();
      await store.close();
      await place.remove();
    }
  });

  test('files of keys and passphrases that others may read are refused', {
    skip: process.platform === 'win32',
  }, async () => {
    const { secretOf } = await import('./backup-secret.ts');
    const settings = { backupPassphrase: '' } as never;
    const tools = { settings, folder: folder.path, isInteractive: false };
    const path = join(folder.path, 'words');
    await writeFile(path, 'four words of mine\n', { mode: 0o600 });
    assert.deepEqual(await secretOf(tools, { 'passphrase-file': 'words' }, 'new'), {
      kind: 'passphrase',
      text: 'four words of mine',
    });
    await chmod(path, 0o644);
    await assert.rejects(secretOf(tools, { 'passphrase-file': path }, 'new'), /others may read/);
    await assert.rejects(secretOf(tools, { 'key-file': path }, 'new'), /mode 0644, so others may read it/);
    await assert.rejects(secretOf(tools, {}, 'existing'), /there is no passphrase: give --passphrase-file/);
    await assert.rejects(
      secretOf({ ...tools, settings: { backupPassphrase: 'short' } as never }, {}, 'new'),
      /has 5 characters; expected at least 12/,
    );
  });
});
