import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { UnavailableError } from '#lib/errors.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import type { BatchWrite } from './group-commit.ts';
import { openSqliteStore } from './sqlite-store.ts';
import type { Store } from './store.ts';

const mayMount = process.platform === 'linux' && process.getuid?.() === 0;

const insertEmitter: BatchWrite<string, string> = {
  name: 'insert-emitter',
  async run(tx, ids) {
    const rows = ids.map((id) => ({
      id,
      owner_id: 'o_1',
      last_ms: 0,
      last_seq: 0,
      dedupe: 'x'.repeat(4_000),
    }));
    await tx.insertInto('emitters').values(rows).execute();
    return ids;
  },
};

async function emitterIds(store: Store): Promise<string[]> {
  return (await store.read.selectFrom('emitters').select('id').execute()).map(({ id }) => id);
}

/** Writes until the store refuses; returns what was acknowledged and the refusal. */
async function writeUntilRefused(store: Store, prefix: string): Promise<{ ids: string[]; refusal: unknown }> {
  const ids: string[] = [];
  for (let index = 0; index < 10_000; index += 1) {
    try {
      ids.push(await store.writes.submit(insertEmitter, `${prefix}${index}`));
    } catch (refusal) {
      return { ids, refusal };
    }
  }
  throw new Error('the disk never became full');
}

test('on a full disk writes are refused as storage_full, what was acknowledged is intact, and it works again once space returns', {
  skip: mayMount ? false : 'only root may mount a small file system',
}, async () => {
  await using folder = await createTempFolder();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=6m', 'tmpfs', folder.path]);
  try {
    const filler = join(folder.path, 'filler');
    await writeFile(filler, Buffer.alloc(2 * 1024 * 1024));
    const data = join(folder.path, 'data');
    const store = await openSqliteStore({ folder: data });
    const acknowledged: string[] = [];
    try {
      const { ids, refusal } = await writeUntilRefused(store, 'first-');
      acknowledged.push(...ids);
      assert.ok(ids.length > 50, `only ${ids.length} writes before the disk was full`);
      assert.ok(refusal instanceof UnavailableError, String(refusal));
      assert.equal(refusal.code, 'storage_full');
      // The store continues to refuse every way of writing, and reads still work.
      await assert.rejects(
        store.transaction((tx) => insertEmitter.run(tx, ['refused'])),
        { code: 'storage_full' },
      );
      assert.deepEqual((await emitterIds(store)).sort(), [...acknowledged].sort());

      await rm(filler);
      acknowledged.push(await store.writes.submit(insertEmitter, 'after-1'));
      await store.transaction((tx) => insertEmitter.run(tx, ['after-2']));
      acknowledged.push('after-2');
      const second = await writeUntilRefused(store, 'second-');
      acknowledged.push(...second.ids);
      assert.ok(second.refusal instanceof UnavailableError);
    } finally {
      await store.close();
    }
    // Not a page is free: a start now works (where the log of the store has room left) or is refused for the same reason,
    // and does no harm.
    const rest = join(folder.path, 'rest');
    await writeFile(rest, Buffer.alloc(8 * 1024 * 1024)).catch(() => {});
    const started = await openSqliteStore({ folder: data }).catch((error: unknown) => error);
    if (started instanceof UnavailableError) assert.equal(started.code, 'storage_full');
    else await (started as Awaited<ReturnType<typeof openSqliteStore>>).close();
    execFileSync('mount', ['-o', 'remount,size=12m', folder.path]);
    const reopened = await openSqliteStore({ folder: data });
    try {
      assert.deepEqual((await emitterIds(reopened)).sort(), acknowledged.sort());
    } finally {
      await reopened.close();
    }
  } finally {
    execFileSync('umount', [folder.path]);
  }
});
