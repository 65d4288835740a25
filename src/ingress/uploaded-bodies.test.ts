import assert from 'node:assert/strict';
import { createServer, request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { FileUrls } from '#user-data/files/file-urls.ts';
import { StoredFiles } from '#user-data/files/stored-files.ts';
import { inStore } from '../../test/support/stored-contents.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bodyOf, UploadedBodies } from './uploaded-bodies.ts';

const mb = 1024 * 1024;
/** Far less than the 40 MB that pass through. */
const heldMax = 15 * mb;

/** Bytes in buffers that are referenced; memory that is swept later, on a busy machine, counts until then. */
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
        send: (bytes: number, onPiece?: (sentBytes: number) => Promise<void>) => Promise<string>;
      }) => Promise<void>,
    ): Promise<void> {
      const clock = new TestClock();
      const files = new StoredFiles({ ...inStore(fixture.store), clock, bytesPerOwnerMax: 1024 * mb });
      const urls = new FileUrls({ key: Buffer.alloc(32, 1), publicUrl: () => 'http://m.example', clock });
      const uploads = new UploadedBodies({ files, urls, clock, bytesMax });
      const server = createServer((request, response) => {
        uploads
          .store(
            'o_1',
            { headers: request.headers, content: bodyOf(request) },
            request.headers['content-type'],
          )
          .then(
            (url) => response.end(url),
            (error: { code: string }) => {
              // As the service does: what the caller still sends is read before the answer.
              finished(request.resume()).then(() => response.end(error.code), assert.fail);
            },
          );
      });
      await using folder = await createTempFolder('uploads');
      // The kernel's buffers of a TCP connection may grow to tens of megabytes; those of such a socket are small.
      const socketPath = join(folder.path, 'socket');
      await new Promise<void>((resolve) => server.listen(socketPath, resolve));
      const send = (bytes: number, onPiece: (sentBytes: number) => Promise<void> = async () => {}) => {
        const { promise, resolve, reject } = Promise.withResolvers<string>();
        const request = httpRequest({ socketPath, method: 'POST', agent: false }, (response) => {
          let text = '';
          response.on('data', (chunk: Buffer) => {
            text += chunk;
          });
          response.on('end', () => resolve(text));
        });
        request.on('error', reject);
        const pieces = (async function* () {
          for (let at = 0; at < bytes; at += mb) {
            await onPiece(at);
            yield Buffer.alloc(Math.min(mb, bytes - at), at / mb);
          }
        })();
        pipeline(Readable.from(pieces, { highWaterMark: 1 }), request).catch(reject);
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
        const littleIsHeld = () =>
          waitFor(() => heldBytes() - before < heldMax, { what: 'memory to be given back' });
        const storedBytes = async () =>
          mb * (await fixture.store.read.selectFrom('file_chunks').select('number').execute()).length;
        const url = new URL(
          await send(40 * mb, async (sentBytes) => {
            if ((sentBytes / mb) % 10 !== 0) return;
            const waitingBytes = sentBytes - (await storedBytes());
            assert.ok(waitingBytes < heldMax, `${waitingBytes} bytes are sent and not stored`);
            await littleIsHeld();
          }),
        );
        const file = await files.findById(url.pathname.replace('/files/', ''));
        assert.ok(file !== undefined && file.size === 40 * mb);
        let at = 0;
        for await (const chunk of files.read(file, { first: 0, last: file.size - 1 })) {
          assert.equal(chunk[0], at / mb);
          at += chunk.length;
          if ((at / mb) % 10 === 0) await littleIsHeld();
        }
        assert.equal(at, file.size);
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
      const files = new StoredFiles({ ...inStore(fixture.store), clock, bytesPerOwnerMax: mb });
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
