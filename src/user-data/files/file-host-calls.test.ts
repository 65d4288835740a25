import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inStore } from '../../../test/support/stored-contents.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { fileHostCalls } from './file-host-calls.ts';
import { FileUrls } from './file-urls.ts';
import { StoredFiles } from './stored-files.ts';

describe('what code asks of file stores', () => {
  forEachStore((fixture) => {
    function asker() {
      const clock = new TestClock();
      const store = new StoredFiles({ ...inStore(fixture.store), clock, bytesPerOwnerMax: 1024 ** 3 });
      const urls = new FileUrls({ key: Buffer.alloc(32, 7), publicUrl: () => 'http://m.example', clock });
      const answer = fileHostCalls({ store, clock, urls });
      const hostCall = (
        op: string,
        header: Record<string, unknown> = {},
        options: { owner?: string; folder?: unknown; body?: string } = {},
      ) =>
        answer(options.owner ?? 'o_1', {
          kind: 'file',
          header: { folder: options.folder ?? 'files', op, ...header },
          body: Buffer.from(options.body ?? ''),
        });
      const write = async (path: string, body: string, options: { owner?: string; folder?: string } = {}) => {
        const { header } = await hostCall('begin', { path, content_type: 'text/plain' }, options);
        await hostCall('append', { upload: header.upload }, { ...options, body });
        return (await hostCall('finish', { upload: header.upload }, options)).header;
      };
      return { hostCall, write, urls, clock };
    }

    test('write, look, read, list, delete', async () => {
      const { hostCall, write } = asker();
      assert.deepEqual((await hostCall('stat', { path: 'a.txt' })).header, { exists: false });
      const finished = await write('./a.txt', 'hello');
      assert.equal(finished.size, 5);
      const { header: stat } = await hostCall('stat', { path: '/a.txt' });
      assert.deepEqual(
        [stat.exists, stat.size, stat.content_type, stat.etag],
        [true, 5, 'text/plain', finished.etag],
      );
      const read = await hostCall('read', { path: 'a.txt', offset: 1, length: 3 });
      assert.equal(Buffer.from(read.body ?? []).toString(), 'ell');
      assert.equal(read.header.etag, finished.etag);
      const past = await hostCall('read', { path: 'a.txt', offset: 9, length: 3 });
      assert.equal(past.body?.length, 0);
      await write('b/c.txt', '');
      const { header: all } = await hostCall('list');
      assert.deepEqual(
        (all.entries as { path: string }[]).map(({ path }) => path),
        ['a.txt', 'b/c.txt'],
      );
      assert.equal(all.next, undefined);
      assert.deepEqual(((await hostCall('list', { prefix: 'b/' })).header.entries as unknown[]).length, 1);
      assert.deepEqual((await hostCall('delete', { path: 'a.txt' })).header, { deleted: true });
      assert.deepEqual((await hostCall('delete', { path: 'a.txt' })).header, { deleted: false });
      await assert.rejects(hostCall('read', { path: 'a.txt' }), { code: 'not_found' });
    });

    test('a listing that does not fit one answer continues where it ended', async () => {
      const { hostCall, write } = asker();
      const paths = Array.from({ length: 40 }, (_, i) => `${'p'.repeat(900)}-${String(i).padStart(3, '0')}`);
      for (const path of paths) await write(path, '');
      const seen: string[] = [];
      let after: unknown = '';
      let pages = 0;
      while (after !== undefined) {
        const { header } = await hostCall('list', { after });
        assert.ok(JSON.stringify(header).length < 60_000);
        seen.push(...(header.entries as { path: string }[]).map(({ path }) => path));
        after = header.next;
        pages += 1;
      }
      assert.deepEqual(seen, paths);
      assert.ok(pages > 1);
    });

    test('an owner sees nothing of another, a folder nothing of another, and uploads are theirs who began them', async () => {
      const { hostCall, write } = asker();
      await write('secret', 'x');
      assert.deepEqual((await hostCall('stat', { path: 'secret' }, { owner: 'o_2' })).header, {
        exists: false,
      });
      assert.deepEqual((await hostCall('stat', { path: 'secret' }, { folder: 'stash_1' })).header, {
        exists: false,
      });
      assert.deepEqual((await hostCall('list', {}, { owner: 'o_2' })).header.entries, []);
      const { header } = await hostCall('begin', { path: 'mine' });
      for (const other of [{ owner: 'o_2' }, { folder: 'stash_1' }]) {
        await assert.rejects(hostCall('append', { upload: header.upload }, { ...other, body: 'x' }), {
          code: 'not_found',
        });
        await assert.rejects(hostCall('finish', { upload: header.upload }, other), { code: 'not_found' });
      }
      await hostCall('finish', { upload: header.upload });
      await assert.rejects(hostCall('finish', { upload: header.upload }), { code: 'not_found' });
    });

    test('hostile paths, folders and numbers are refused', async () => {
      const { hostCall } = asker();
      for (const path of [
        '',
        '/',
        '.',
        '..',
        'a/../b',
        '../a',
        'a\0b',
        'x'.repeat(1025),
        '\ud800',
        5,
        null,
        {},
      ])
        await assert.rejects(hostCall('stat', { path }), { code: 'invalid_parameter' }, JSON.stringify(path));
      for (const folder of ['upload', '', '..', 'a/b', 'x'.repeat(101), 5, null, ['files'], { a: 1 }])
        await assert.rejects(
          hostCall('stat', { path: 'a', folder }),
          { code: 'invalid_parameter' },
          JSON.stringify(folder),
        );
      await assert.rejects(hostCall('burn', { path: 'a' }), { code: 'invalid_parameter' });
      const { header } = await hostCall('begin', { path: 'n', content_type: 'text/html\r\nx-evil: 1' });
      await hostCall('finish', { upload: header.upload });
      const { header: stat } = await hostCall('stat', { path: 'n' });
      assert.equal(stat.content_type, 'application/octet-stream');
      for (const offset of [-1, 0.5, '1', 1e300])
        await assert.rejects(hostCall('read', { path: 'n', offset }), { code: 'invalid_parameter' });
      await assert.rejects(hostCall('append', { upload: '__proto__' }), { code: 'not_found' });
    });

    test('uploads that are begun and forgotten make room for new ones', async () => {
      const { hostCall } = asker();
      const ids: unknown[] = [];
      for (let i = 0; i < 40; i += 1) ids.push((await hostCall('begin', { path: `f${i}` })).header.upload);
      await assert.rejects(hostCall('append', { upload: ids[0] }, { body: 'x' }), { code: 'not_found' });
      await hostCall('append', { upload: ids[39] }, { body: 'x' });
      assert.equal((await hostCall('finish', { upload: ids[39] })).header.size, 1);
    });

    test('a URL is good for the file and half an hour, and for nothing else', async () => {
      const { hostCall, write, urls, clock } = asker();
      await write('a', 'x');
      const url = new URL(String((await hostCall('url', { path: 'a' })).header.url));
      assert.equal(url.origin, 'http://m.example');
      const id = url.pathname.replace('/files/', '');
      const [expires, signature] = [
        url.searchParams.get('expires') ?? '',
        url.searchParams.get('signature') ?? '',
      ];
      assert.equal(urls.accepts(id, expires, signature), true);
      assert.equal(urls.accepts(`${id}x`, expires, signature), false);
      assert.equal(urls.accepts(id, String(Number(expires) + 1), signature), false);
      for (let at = 0; at < signature.length; at += 1) {
        const digit = signature[at] === '0' ? '1' : '0';
        assert.equal(
          urls.accepts(id, expires, signature.slice(0, at) + digit + signature.slice(at + 1)),
          false,
        );
      }
      for (const odd of [undefined, '', [signature, signature], signature.toUpperCase(), `${signature}00`])
        assert.equal(urls.accepts(id, expires, odd), false);
      for (const odd of [undefined, ` ${expires}`, `${expires}.0`, '1e99'])
        assert.equal(urls.accepts(id, odd, signature), false);
      clock.step(30 * 60 * 1000 - 2000);
      assert.equal(urls.accepts(id, expires, signature), true);
      clock.step(2000);
      assert.equal(urls.accepts(id, expires, signature), false);
    });
  });
});
