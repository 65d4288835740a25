import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { type BucketFixture, bucketOf, forEachBucket } from '../../../test/support/file-contents.ts';
import type { TestClock } from '../../../test/support/test-clock.ts';
import { claimKey } from './bucket-keeper.ts';
import { BucketSweeper } from './bucket-sweeper.ts';
import { FileBucket } from './file-bucket.ts';
import { chunkBytes, FileContents, RowContent } from './file-content.ts';
import type { FileRow } from './file-store.ts';
import { type FileTarget, replacedMs, uploadIdleMs } from './file-upload.ts';
import { openContents } from './open-contents.ts';
import { FilePruner } from './prune-files.ts';
import { StoredFiles } from './stored-files.ts';

const dayMs = 24 * 3_600_000;
const never = new AbortController().signal;

function target(path: string, other: Partial<FileTarget> = {}): FileTarget {
  return { ownerId: 'o_1', folder: 'files', path, contentType: 'text/plain', expiresAtMs: null, ...other };
}

/** The parts of a node. A second one on the same store is another node, or the same after a restart. */
function nodeOf(fixture: BucketFixture, options: Parameters<typeof bucketOf>[1] = {}) {
  const { store } = fixture;
  const parts = bucketOf(fixture, options);
  const { clock, contents, bucket, keeper } = parts;
  const files = new StoredFiles({ store, contents, clock, bytesPerOwnerMax: 1024 ** 3 });
  const pruner = new FilePruner({ store, contents, clock, logger: silentLogger });
  const sweeper = new BucketSweeper({ store, bucket, keeper, clock, logger: silentLogger });
  return { ...parts, files, pruner, sweeper };
}

async function contentOf(files: StoredFiles, file: FileRow): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of files.read(file, { first: 0, last: file.size - 1 })) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** After a removed or expired file may be pruned. */
async function pruneLater(node: { clock: TestClock; pruner: FilePruner }): Promise<void> {
  node.clock.step(replacedMs + 1);
  await node.pruner.prune();
}

const unavailable = (message: RegExp) => ({ code: 'files_unavailable', message });

describe('content in a bucket', () => {
  forEachBucket((fixture) => {
    const rows = async () => (await fixture.store.read.selectFrom('files').selectAll().execute()).length;

    test('is an object for each megabyte, below the id of its owner, and in no row of the store', async () => {
      const { files } = nodeOf(fixture);
      const content = randomBytes(2 * chunkBytes + 5);
      const file = await files.put(target('a'), [content]);
      assert.equal(file.content_in, 's3');
      assert.deepEqual(
        fixture.server.chunkKeys(),
        [0, 1, 2].map((number) => `millrace/o_1/${file.id}/${number}`),
      );
      assert.deepEqual(await fixture.store.read.selectFrom('file_chunks').selectAll().execute(), []);
      const other = nodeOf({
        ...fixture,
        store: fixture.store,
        server: fixture.server,
        dispatcher: fixture.dispatcher,
      });
      assert.ok((await contentOf(other.files, file)).equals(content), 'another node reads it');
    });

    test('of an upload that a crash cut off at any request has a row, and goes with it', async () => {
      const { server } = fixture;
      // The requests of an upload are: claim, probe, and one for each of three chunks. Each is the last that arrives, once.
      for (let last = 0; last <= 3; last += 1) {
        for (const when of ['before', 'after'] as const) {
          const dying = nodeOf(fixture, { timeoutMs: 300 });
          await dying.keeper.check();
          let chunks = 0;
          server.fault = (request) => {
            if (request.method !== 'PUT' || !/\/file_\w+\/\d+$/.test(request.url)) return undefined;
            chunks += 1;
            if (chunks <= last) return undefined;
            if (when === 'after')
              server.objects.set(request.url.split('/').slice(2).join('/'), {
                body: request.body,
                writtenAtMs: Date.now(),
              });
            return 'hang';
          };
          const put = dying.files.begin(target('cut')).then(async (upload) => {
            await upload.append(randomBytes(2 * chunkBytes + 5));
            return upload.finish();
          });
          if (last < 3) await assert.rejects(put, unavailable(/did not answer in time/));
          else await put;
          server.fault = () => undefined;
          // Nothing of the process that died is left but the store and the bucket.
          const next = nodeOf(fixture);
          const found = await next.files.find(target('cut'));
          assert.equal(found === undefined, last < 3, `${last} ${when}`);
          if (found !== undefined)
            assert.equal((await contentOf(next.files, found)).length, 2 * chunkBytes + 5);
          await next.files.delete(target('cut'));
          next.clock.step(uploadIdleMs + replacedMs);
          await next.pruner.prune();
          assert.deepEqual([await rows(), server.chunkKeys()], [0, []], `${last} ${when}`);
        }
      }
    });

    test('that the bucket does not take is refused at once, and nothing of it is there', async () => {
      const { server } = fixture;
      let nowMs = 0;
      const node = nodeOf(fixture, { monotonicMs: () => nowMs });
      await node.files.put(target('kept'), [Buffer.from('kept')]);
      server.fault = () => ({ status: 403, body: '<Error><Code>AccessDenied</Code></Error>' });
      const refusal = unavailable(
        /^the bucket the-bucket for files, at 127.0.0.1:\d+, answers PUT with 403 AccessDenied$/,
      );
      await assert.rejects(node.files.put(target('new'), [Buffer.from('new')]), refusal);
      assert.equal(await node.files.find(target('new')), undefined);
      const asked = server.requests.length;
      await assert.rejects(node.files.put(target('new'), [Buffer.from('new')]), refusal);
      assert.equal(server.requests.length, asked, 'a bucket that just failed is not asked again');
      const status = node.keeper.status();
      assert.equal(status.state, 'failing');
      assert.match(String(status.reason), /403 AccessDenied/);
      assert.equal(status.sinceMs, node.clock.now());
      // What is stored is the same as before, and it works again by itself.
      server.fault = () => undefined;
      nowMs += 5_001;
      const file = await node.files.put(target('new'), [Buffer.from('new')]);
      assert.equal(node.keeper.status().state, 'ok');
      assert.equal((await contentOf(node.files, file)).toString(), 'new');
      await pruneLater(node);
      assert.equal(server.chunkKeys().length, 2);
    });

    test('survives answers that ask to come again', async () => {
      const { server } = fixture;
      const node = nodeOf(fixture);
      await node.keeper.check();
      let refused = 0;
      server.fault = () =>
        refused++ < 2 ? { status: 503, body: '<Error><Code>SlowDown</Code></Error>' } : undefined;
      const file = await node.files.put(target('a'), [Buffer.from('a')]);
      assert.equal((await contentOf(node.files, file)).toString(), 'a');
    });

    test('that something else removed or changed is said to be so, and is no file that is gone', async () => {
      const { server } = fixture;
      const { files, pruner, clock } = nodeOf(fixture);
      const file = await files.put(target('a'), [randomBytes(chunkBytes + 3)]);
      const [first = '', last = ''] = server.chunkKeys();
      const changed = unavailable(/is not as it was written in the bucket .* has changed it$/);
      const written = server.objects.get(first)?.body ?? Buffer.alloc(0);
      for (const at of [0, chunkBytes - 1, chunkBytes, written.length - 1]) {
        const body = Buffer.from(written);
        body.writeUInt8(body.readUInt8(at) ^ 1, at);
        server.objects.set(first, { body, writtenAtMs: 0 });
        await assert.rejects(contentOf(files, file), changed, `another byte ${at}`);
      }
      const other = await files.put(target('b'), [randomBytes(chunkBytes)]);
      const ofOther = server.objects.get(`millrace/o_1/${other.id}/0`)?.body ?? Buffer.alloc(0);
      server.objects.set(first, { body: ofOther, writtenAtMs: 0 });
      await assert.rejects(contentOf(files, file), changed, 'the content of another file');
      await files.delete(target('b'));
      server.objects.set(first, { body: written, writtenAtMs: 0 });
      assert.equal((await contentOf(files, file)).length, chunkBytes + 3);
      server.objects.set(last, { body: Buffer.from('x'), writtenAtMs: 0 });
      await assert.rejects(contentOf(files, file), changed);
      server.objects.delete(first);
      await assert.rejects(
        contentOf(files, file),
        unavailable(/is not in the bucket the-bucket\/millrace\/: .* has removed it$/),
      );
      // It can still be removed.
      await files.delete(target('a'));
      await pruneLater({ clock, pruner });
      assert.deepEqual([await rows(), server.chunkKeys()], [0, []]);
    });

    test('goes, while the bucket is away, when that is back; files in the store go all the same', async () => {
      const { server, store } = fixture;
      let nowMs = 0;
      const node = nodeOf(fixture, { monotonicMs: () => nowMs });
      await node.files.put(target('in-bucket', { expiresAtMs: node.clock.now() }), [Buffer.from('a')]);
      const contents = new FileContents(new RowContent(store));
      const inStore = new StoredFiles({ store, contents, clock: node.clock, bytesPerOwnerMax: 1024 ** 2 });
      await inStore.put(target('in-store', { expiresAtMs: node.clock.now() }), [Buffer.from('b')]);
      server.fault = () => ({ status: 500 });
      await assert.rejects(node.pruner.prune(), unavailable(/answers DELETE with 500/));
      assert.equal(await rows(), 1);
      server.fault = () => undefined;
      nowMs += 5_001;
      await node.pruner.prune();
      assert.deepEqual([await rows(), server.chunkKeys()], [0, []]);
    });

    test('of many megabytes is removed a part at a time, and continues where a crash ended it', async () => {
      const { server } = fixture;
      const node = nodeOf(fixture);
      const pieces = Array.from({ length: 70 }, () => Buffer.alloc(chunkBytes, 'x'));
      const { id } = await node.files.put(target('large'), pieces);
      await node.files.delete(target('large'));
      node.clock.step(replacedMs + 1);
      const nowMs = node.clock.now();
      assert.deepEqual(await node.objects.removeExpired({ id, nowMs }), { more: true });
      assert.equal(server.chunkKeys().length, 6);
      const { size } = await fixture.store.read.selectFrom('files').select('size').executeTakeFirstOrThrow();
      assert.equal(Number(size), 6 * chunkBytes, 'what is gone does not count for the owner');
      await nodeOf(fixture, { clock: node.clock }).pruner.prune();
      assert.deepEqual([await rows(), server.chunkKeys()], [0, []]);
    });

    test('without a file is removed after a day, once by all nodes, and nothing that a file has', async () => {
      const { server } = fixture;
      server.pageSize = 2;
      const node = nodeOf(fixture);
      const file = await node.files.put(target('a'), [randomBytes(chunkBytes + 3)]);
      const old = node.clock.now() - 1;
      for (const object of server.objects.values()) object.writtenAtMs = old;
      const put = (key: string, writtenAtMs: number) =>
        server.objects.set(key, { body: Buffer.from('x'), writtenAtMs });
      put('millrace/o_1/file_lost1/0', old);
      put('millrace/o_1/file_lost1/1', old);
      put('millrace/probe/cutoff', old);
      put('millrace/o_1/file_young/0', old + 3 * dayMs);
      put('millrace/notes.txt', old);
      put('other/o_1/file_lost2/0', old);
      const before = [...server.objects.keys()];
      await node.sweeper.sweep();
      assert.deepEqual([...server.objects.keys()], before, 'the bucket was claimed less than a day ago');
      node.clock.step(dayMs);
      await node.sweeper.sweep();
      const left = [...server.objects.keys()].sort();
      const kept = [
        `millrace/${claimKey}`,
        'millrace/notes.txt',
        `millrace/o_1/${file.id}/0`,
        `millrace/o_1/${file.id}/1`,
        'millrace/o_1/file_young/0',
        'other/o_1/file_lost2/0',
      ];
      assert.deepEqual(left, kept.sort(), 'ids are random, and so is their order');
      put('millrace/o_1/file_lost3/0', old);
      await nodeOf(fixture, { clock: node.clock }).sweeper.sweep();
      assert.ok(server.objects.has('millrace/o_1/file_lost3/0'), 'another node did it a moment ago');
      server.pageSize = 1000;
    });

    test('of owners who are deleted goes, with or without a row, and none of another owner', async () => {
      const { server } = fixture;
      const node = nodeOf(fixture);
      await node.files.put(target('a'), [Buffer.from('a')]);
      const other = await node.files.put(target('a', { ownerId: 'o_12' }), [Buffer.from('b')]);
      server.objects.set('millrace/o_1/file_lost/0', { body: Buffer.from('x'), writtenAtMs: 0 });
      await node.objects.removeOwners(['o_1'], never);
      assert.deepEqual(server.chunkKeys(), [`millrace/o_12/${other.id}/0`]);
    });

    test('is missed where the settings name no bucket, and no deletion passes it over', async () => {
      const node = nodeOf(fixture);
      const { store } = fixture;
      const { clock } = node;
      const settings = { files: 'store', filesBucket: '', filesPrefix: '' } as const;
      const open = async () => {
        const opened = await openContents(settings, {
          store,
          clock,
          logger: silentLogger,
          storage: undefined,
        });
        await opened.unnamedBucket?.start();
        return opened;
      };
      assert.equal((await open()).unnamedBucket?.status(), undefined, 'no file has its content in a bucket');
      await node.files.put(target('a'), [Buffer.from('a')]);
      const { unnamedBucket, removeOutside } = await open();
      assert.deepEqual(unnamedBucket?.status(), {
        state: 'failing',
        sinceMs: clock.now(),
        reason:
          'files have their content in a bucket, and the service was not told which: set MILLRACE_FILES_BUCKET and the keys of S3',
      });
      await removeOutside(['o_2'], never);
      await assert.rejects(removeOutside(['o_1'], never), unavailable(/set MILLRACE_FILES_BUCKET$/));
    });

    test('is written and read where objects may not be listed, and the state of the bucket says what that means', async () => {
      const { server } = fixture;
      const node = nodeOf(fixture);
      server.fault = (request) =>
        request.url.includes('list-type')
          ? { status: 403, body: '<Error><Code>AccessDenied</Code></Error>' }
          : undefined;
      await node.keeper.check();
      assert.equal(node.keeper.status().state, 'ok');
      await node.keeper.checkListing();
      const { state, reason, sinceMs } = node.keeper.status();
      assert.deepEqual([state, sinceMs], ['failing', node.clock.now()]);
      assert.match(
        String(reason),
        /answers LIST with 403 AccessDenied: files are written and read, but those of deleted owners stay/,
      );
      await assert.rejects(
        node.objects.removeOwners(['o_2'], never),
        unavailable(/answers LIST with 403 AccessDenied$/),
      );
      // A refused deletion of one owner refuses no upload of another.
      const file = await node.files.put(target('a'), [Buffer.from('a')]);
      assert.equal((await contentOf(node.files, file)).toString(), 'a');
      server.fault = () => undefined;
      await node.keeper.checkListing();
      assert.equal(node.keeper.status().state, 'ok');
    });

    test('of another instance is neither written nor removed, and can be read', async () => {
      const { server, store } = fixture;
      const first = nodeOf(fixture);
      const file = await first.files.put(target('a', { expiresAtMs: first.clock.now() + 1000 }), [
        Buffer.from('a'),
      ]);
      // A restored copy: all rows, but not the claim of the bucket.
      await store.transaction((tx) => tx.deleteFrom('file_buckets').execute());
      let nowMs = 0;
      const copy = nodeOf(fixture, { monotonicMs: () => nowMs });
      assert.equal((await contentOf(copy.files, file)).toString(), 'a');
      const foreign = unavailable(
        /^the bucket the-bucket\/millrace\/ belongs to another instance, .* remove its object millrace\/millrace-instance$/,
      );
      await assert.rejects(copy.files.put(target('b'), [Buffer.from('b')]), foreign);
      copy.clock.step(1000);
      await assert.rejects(copy.pruner.prune(), foreign);
      await assert.rejects(copy.sweeper.sweep(), foreign);
      await assert.rejects(copy.objects.removeOwners(['o_1'], never), foreign);
      assert.equal(server.chunkKeys().length, 1);
      assert.equal(copy.keeper.status().state, 'failing');
      // The operator says that the other one is gone.
      server.objects.delete(`millrace/${claimKey}`);
      nowMs += 5_001;
      await copy.files.put(target('b'), [Buffer.from('b')]);
    });

    test('whose place answers everything with a page is not taken for that of another instance', async () => {
      const { server } = fixture;
      const node = nodeOf(fixture);
      server.fault = () => ({ status: 200, body: '<!doctype html><title>Sign in</title>' });
      await assert.rejects(
        node.files.put(target('a'), [Buffer.from('a')]),
        unavailable(
          /its object millrace\/millrace-instance is not what an instance writes\. MILLRACE_S3_ENDPOINT may lead to a website/,
        ),
      );
      server.fault = () => undefined;
      await node.keeper.check();
    });

    test('an error that is none of the storage shows neither its message nor a key', async () => {
      const { dispatcher, server } = fixture;
      const storage = {
        dispatcher,
        endpoint: server.url,
        region: 'eu\nx',
        accessKey: 'AKIAHUSH',
        secretKey: 'hush',
      };
      const bucket = new FileBucket({
        storage,
        bucket: 'the-bucket',
        prefix: 'millrace/',
      });
      await assert.rejects(bucket.get('a'), (error: Error & { code: string }) => {
        assert.equal(error.code, 'files_unavailable');
        assert.doesNotMatch(error.message, /hush|AWS4|Signature/i);
        return true;
      });
    });

    test('a bucket that loses what it takes, or keeps what was removed, fails its check', async () => {
      const { server } = fixture;
      const probe = (request: { method: string; url: string }, method: string) =>
        request.method === method && request.url.includes('/probe/');
      for (const [fault, reason] of [
        [
          (request) => (probe(request, 'PUT') ? { status: 200 } : undefined),
          /an object that was written is not read/,
        ],
        [
          (request) => (probe(request, 'DELETE') ? { status: 204 } : undefined),
          /an object that was removed is still read/,
        ],
        [
          () => ({ status: 301, body: '<Error><Code>PermanentRedirect</Code></Error>' }),
          /answers GET with 301 PermanentRedirect/,
        ],
        [
          () => ({ status: 404, body: '<Error><Code>NoSuchBucket</Code></Error>' }),
          /answers GET with 404 NoSuchBucket/,
        ],
      ] as [typeof server.fault, RegExp][]) {
        server.fault = fault;
        await assert.rejects(nodeOf(fixture).keeper.check(), unavailable(reason));
      }
    });
  });

  test('is not reached without the settings of the bucket, which the error names', async () => {
    const contents = new FileContents(new RowContent({} as never));
    assert.throws(() => contents.of('s3'), unavailable(/MILLRACE_FILES_BUCKET is not set/));
  });
});
