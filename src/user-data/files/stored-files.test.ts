import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { type ContentFixture, forEachContent } from '../../../test/support/file-contents.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { chunkBytes } from './file-content.ts';
import type { FileRow } from './file-store.ts';
import { type FileTarget, replacedMs, uploadIdleMs } from './file-upload.ts';
import { FilePruner } from './prune-files.ts';
import { StoredFiles } from './stored-files.ts';

const mb = 1024 * 1024;

function target(path: string, other: Partial<FileTarget> = {}): FileTarget {
  return { ownerId: 'o_1', folder: 'files', path, contentType: 'text/plain', expiresAtMs: null, ...other };
}

function partsOf(fixture: ContentFixture, bytesPerOwnerMax = 1024 * mb) {
  const clock = new TestClock();
  const { store, contents } = fixture;
  const files = new StoredFiles({ store, contents, clock, bytesPerOwnerMax });
  const pruner = new FilePruner({ store, contents, clock, logger: silentLogger });
  return { clock, files, pruner };
}

async function contentOf(
  files: StoredFiles,
  file: FileRow,
  first = 0,
  last = file.size - 1,
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of files.read(file, { first, last })) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe('stored files', () => {
  forEachContent((fixture) => {
    const rowCount = async () =>
      (await fixture.store.read.selectFrom('files').select('owner_id').execute()).length;
    const left = async () => [await rowCount(), await fixture.chunkCount()];

    test('come out as they went in, whole and in part, whatever the pieces', async () => {
      const { files } = partsOf(fixture);
      const content = randomBytes(3 * chunkBytes + 12_345);
      const pieces: Buffer[] = [];
      for (let at = 0, size = 1; at < content.length; at += size, size = Math.min(size * 7, 2.5 * mb))
        pieces.push(content.subarray(at, at + size));
      const file = await files.put(target('a/b.bin'), pieces);
      assert.equal(file.size, content.length);
      assert.equal(file.sha256, createHash('sha256').update(content).digest('hex'));
      const found = await files.find(target('a/b.bin'));
      assert.deepEqual({ ...found }, file);
      assert.ok((await contentOf(files, file)).equals(content));
      for (const [first, last] of [
        [0, 0],
        [chunkBytes - 1, chunkBytes],
        [chunkBytes, chunkBytes],
        [5, 3 * chunkBytes + 5],
        [content.length - 1, content.length - 1],
      ] as const) {
        const part = await contentOf(files, file, first, last);
        assert.ok(part.equals(content.subarray(first, last + 1)), `${first} to ${last}`);
      }
      const empty = await files.put(target('empty'), []);
      assert.equal(empty.size, 0);
      assert.equal((await contentOf(files, empty)).length, 0);
      const exact = await files.put(target('exact'), [content.subarray(0, 2 * chunkBytes)]);
      assert.ok((await contentOf(files, exact)).equals(content.subarray(0, 2 * chunkBytes)));
    });

    test('are not there before they are finished, and take the place of the old one in one moment', async () => {
      const { files, clock, pruner } = partsOf(fixture);
      const old = await files.put(target('report'), [Buffer.from('old')]);
      const upload = await files.begin(target('report'));
      await upload.append(Buffer.alloc(2 * mb, 'n'));
      assert.equal((await files.find(target('report')))?.id, old.id);
      const now = await upload.finish();
      assert.equal((await files.find(target('report')))?.id, now.id);
      assert.equal(await files.findById(old.id), undefined);
      // A reader of the old one may finish.
      assert.equal((await contentOf(files, old)).toString(), 'old');
      clock.step(replacedMs + 1);
      await pruner.prune();
      await assert.rejects(contentOf(files, old), { code: 'not_found' });
      assert.equal((await contentOf(files, now)).length, 2 * mb);
      assert.deepEqual(await left(), [1, 2]);
    });

    test('of one path finished at the same time: one of them is there afterwards, and the others are none', async () => {
      const { files } = partsOf(fixture);
      const puts = Array.from({ length: 20 }, (_, i) => files.put(target('same'), [Buffer.from(`${i}`)]));
      const ids = (await Promise.all(puts)).map(({ id }) => id);
      const found = await files.find(target('same'));
      assert.ok(found !== undefined && ids.includes(found.id));
      const complete = await fixture.store.read
        .selectFrom('files')
        .select('id')
        .where('complete', '=', 1)
        .execute();
      assert.equal(complete.length, 1);
    });

    test('whose content breaks off are not kept', async () => {
      const { files, clock, pruner } = partsOf(fixture);
      async function* broken() {
        yield Buffer.alloc(3 * mb);
        throw new Error('the line went dead');
      }
      await assert.rejects(files.put(target('x'), broken()), /line went dead/);
      assert.equal(await files.find(target('x')), undefined);
      clock.step(1);
      await pruner.prune();
      assert.deepEqual(await left(), [0, 0]);
    });

    test('whose upload does not continue are removed after a while, and cannot be finished then', async () => {
      const { files, clock, pruner } = partsOf(fixture);
      const upload = await files.begin(target('slow'));
      await upload.append(Buffer.alloc(mb));
      clock.step(uploadIdleMs - 1000);
      await pruner.prune();
      await upload.append(Buffer.alloc(mb));
      clock.step(uploadIdleMs - 1000);
      await pruner.prune();
      assert.equal(await fixture.chunkCount(), 2);
      clock.step(1001);
      await assert.rejects(upload.finish(), { code: 'not_found' });
      await pruner.prune();
      assert.deepEqual(await left(), [0, 0]);
    });

    test('with an end are gone at it, also before their rows are', async () => {
      const { files, clock, pruner } = partsOf(fixture);
      const expiresAtMs = clock.now() + 1000;
      const file = await files.put(target('t', { expiresAtMs }), [Buffer.alloc(40 * mb)]);
      assert.ok((await files.findById(file.id)) !== undefined);
      clock.step(1000);
      assert.equal(await files.findById(file.id), undefined);
      assert.equal(await files.find(target('t')), undefined);
      assert.deepEqual(
        await files.list({ ownerId: 'o_1', folder: 'files', prefix: '', after: '', limit: 10 }),
        [],
      );
      await pruner.prune();
      assert.deepEqual(await left(), [0, 0]);
    });

    test('of an owner have a bound, which other owners do not count towards', async () => {
      const { files, clock, pruner } = partsOf(fixture, 3 * mb);
      await files.put(target('a'), [Buffer.alloc(2 * mb)]);
      await assert.rejects(files.put(target('b'), [Buffer.alloc(1.5 * mb)]), { code: 'files_full' });
      await files.put(target('b', { ownerId: 'o_2' }), [Buffer.alloc(1.5 * mb)]);
      assert.equal(await files.delete(target('a')), true);
      assert.equal(await files.delete(target('a')), false);
      clock.step(replacedMs);
      await pruner.prune();
      await files.put(target('b'), [Buffer.alloc(1.5 * mb)]);
    });

    test('that are too much together: those that began first are kept', async () => {
      const { files, clock } = partsOf(fixture, 3 * mb);
      const uploads = [];
      for (const path of ['a', 'b', 'c']) {
        const upload = await files.begin(target(path));
        uploads.push(upload);
        clock.step(1);
      }
      const [a, b, c] = uploads;
      assert.ok(a !== undefined && b !== undefined && c !== undefined);
      for (const upload of [c, b, a]) await upload.append(Buffer.alloc(1.25 * mb));
      await assert.rejects(c.finish(), { code: 'files_full' });
      await b.finish();
      await a.finish();
      assert.deepEqual(
        (await files.list({ ownerId: 'o_1', folder: 'files', prefix: '', after: '', limit: 10 })).map(
          ({ path }) => path,
        ),
        ['a', 'b'],
      );
    });

    test('have a bound also when they are empty', async () => {
      const { files } = partsOf(fixture, 20 * 1024);
      await assert.rejects(
        (async () => {
          for (let i = 0; i < 30; i += 1) await files.put(target(`empty-${i}`), []);
        })(),
        { code: 'files_full' },
      );
    });

    test('are listed by path, from a beginning, and a page at a time', async () => {
      const { files } = partsOf(fixture);
      for (const path of ['b', 'a/1', 'a/2', 'a%', 'ä/1', '😀/1']) await files.put(target(path), []);
      await files.put(target('a/0', { ownerId: 'o_2' }), []);
      await files.put(target('a/9', { folder: 'stash_1' }), []);
      const list = async (prefix: string, after = '', limit = 10) =>
        (await files.list({ ownerId: 'o_1', folder: 'files', prefix, after, limit })).map(({ path }) => path);
      assert.deepEqual(await list('a/'), ['a/1', 'a/2']);
      assert.deepEqual(await list('a/', 'a/1'), ['a/2']);
      assert.deepEqual(await list('a/', '', 1), ['a/1']);
      assert.deepEqual(await list('a%'), ['a%']);
      assert.deepEqual(await list('😀/'), ['😀/1']);
      assert.deepEqual(await list('ä'), ['ä/1']);
      assert.equal((await list('')).length, 6);
    });
  });
});
