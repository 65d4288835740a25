import assert from 'node:assert/strict';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { FileUrls } from '#files/file-urls.ts';
import { StoredFiles } from '#files/stored-files.ts';
import { TestClock } from '#lib/clock.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { UploadedBodies } from './uploaded-bodies.ts';

const mb = 1024 * 1024;
/** Less than the 100 MB that pass through; what is sent to PostgreSQL is held a while longer, on a busy machine. */
const heldMax = 70 * mb;

/** Bytes in buffers that are still held by somebody. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().arrayBuffers;
}

describe('bodies that are set aside', () => {
  forEachStore((fixture) => {
    async function withUploads(
      bytesMax: number,
      use: (tools: {
        files: StoredFiles;
        send: (bytes: number, onPiece?: () => void) => Promise<string>;
      }) => Promise<void>,
    ): Promise<void> {
      const clock = new TestClock();
      const files = new StoredFiles({ store: fixture.store, clock, bytesPerOwnerMax: 1024 * mb });
      const urls = new FileUrls({ key: Buffer.alloc(32, 1), publicUrl: () => 'http://m.example', clock });
      const uploads = new UploadedBodies({ files, urls, clock, bytesMax });
      const server = createServer((request, response) => {
        uploads.store('o_1', request, request.headers['content-type']).then(
          (url) => response.end(url),
          (error: { code: string }) => {
            // As the service does: what the caller still sends is read before the answer.
            finished(request.resume()).then(() => response.end(error.code), assert.fail);
          },
        );
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      const send = (bytes: number, onPiece = () => {}) => {
        const { promise, resolve, reject } = Promise.withResolvers<string>();
        const request = httpRequest({ port, host: '127.0.0.1', method: 'POST', agent: false }, (response) => {
          let text = '';
          response.on('data', (chunk: Buffer) => {
            text += chunk;
          });
          response.on('end', () => resolve(text));
        });
        request.on('error', reject);
        const pieces = (function* () {
          for (let at = 0; at < bytes; at += mb) {
            onPiece();
            yield Buffer.alloc(Math.min(mb, bytes - at), at / mb);
          }
        })();
        Readable.from(pieces, { highWaterMark: 1 }).pipe(request);
        return promise;
      };
      try {
        await use({ files, send });
      } finally {
        server.closeAllConnections();
        server.close();
      }
    }

    test('pass through memory a piece at a time, whatever their size', async () => {
      await withUploads(200 * mb, async ({ files, send }) => {
        const before = heldBytes();
        let most = 0;
        let pieces = 0;
        const url = new URL(
          await send(100 * mb, () => {
            pieces += 1;
            if (pieces % 5 === 0) most = Math.max(most, heldBytes() - before);
          }),
        );
        assert.ok(most < heldMax, `${most} bytes held`);
        const file = await files.findById(url.pathname.replace('/files/', ''));
        assert.ok(file !== undefined && file.size === 100 * mb);
        let at = 0;
        most = 0;
        for await (const chunk of files.read(file, { first: 0, last: file.size - 1 })) {
          assert.equal(chunk[0], at / mb);
          at += chunk.length;
          if ((at / mb) % 5 === 0) most = Math.max(most, heldBytes() - before);
        }
        assert.equal(at, file.size);
        assert.ok(most < heldMax, `${most} bytes held`);
      });
    });

    test('beyond what is allowed are refused, and nothing of them is left to be read', async () => {
      await withUploads(5 * mb, async ({ send }) => {
        for (const bytes of [5 * mb + 1, 9 * mb])
          assert.equal(await send(bytes), 'FST_ERR_CTP_BODY_TOO_LARGE');
        const complete = await fixture.store.read
          .selectFrom('files')
          .select('id')
          .where('complete', '=', 1)
          .execute();
        assert.deepEqual(complete, []);
        assert.match(await send(5 * mb), /^http:\/\/m\.example\/files\//);
      });
    });

    test('are for half an hour, under the last part of their name and nothing else of it', async () => {
      const clock = new TestClock();
      const files = new StoredFiles({ store: fixture.store, clock, bytesPerOwnerMax: mb });
      const urls = new FileUrls({ key: Buffer.alloc(32, 1), publicUrl: () => 'http://m.example', clock });
      const uploads = new UploadedBodies({ files, urls, clock, bytesMax: mb });
      for (const [name, kept] of [
        ['../../etc/passwd', 'passwd'],
        ['C:\\x\\y.txt', 'y.txt'],
        ['..', 'file'],
        ['', 'file'],
        ['a\r\nb\0c', 'abc'],
        ['\ud800', '\ufffd'],
      ] as const) {
        const url = await uploads.keep({ ownerId: 'o_1', name, contentType: 'text/plain' }, [
          Buffer.from('x'),
        ]);
        const id = new URL(url).pathname.replace('/files/', '');
        assert.equal((await files.findById(id))?.path.split('/').slice(1).join('/'), kept);
        clock.step(29 * 60 * 1000);
        assert.ok((await files.findById(id)) !== undefined);
        clock.step(7 * 60 * 1000);
        assert.equal(await files.findById(id), undefined);
      }
    });
  });
});
