import assert from 'node:assert/strict';
import { test } from 'node:test';
import fastify from 'fastify';
import type { App } from '#http/route-support.ts';
import { chunkBytes } from '#user-data/files/file-content.ts';
import type { FileRow } from '#user-data/files/file-store.ts';
import { type FileRouteOptions, fileRoutes } from './file-routes.ts';

const chunks = 3;

test('each piece of a file is read when there is room for it beside those that were not taken', async (t) => {
  const room = Promise.withResolvers<void>();
  const callers: string[] = [];
  let asked = 0;
  let sent = 0;
  let read = 0;
  const app = fastify();
  app.decorate('untakenAnswers', {
    begin: (who: string) => {
      callers.push(who);
      return {
        turn: () => {
          asked += 1;
          return asked > 1 ? room.promise : undefined;
        },
        sends: (bytes: number) => {
          sent += bytes;
        },
      };
    },
  } as unknown as App['untakenAnswers']);
  const row = {
    ...{ id: 'file_1', owner_id: 'o_1', path: 'a.bin', content_type: 'application/octet-stream' },
    ...{ size: chunks * chunkBytes, sha256: 'hash', updated_at_ms: 0 },
  };
  const files = {
    findById: async () => row as FileRow,
    async *read() {
      for (let n = 0; n < chunks; n += 1) {
        read += 1;
        yield Buffer.alloc(chunkBytes, n);
      }
    },
  } as unknown as FileRouteOptions['files'];
  fileRoutes(app as unknown as App, { files, fileUrls: { accepts: () => true } });
  t.after(() => app.close());
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const reader = (await fetch(`${url}/files/file_1`)).body?.getReader();
  let received = 0;
  while (received < chunkBytes) received += (await reader?.read())?.value?.length ?? chunkBytes;
  assert.equal(received, chunkBytes);
  assert.equal(read, 1, 'the second piece has no room yet');
  room.resolve();
  for (let part = await reader?.read(); part?.done === false; part = await reader?.read())
    received += part.value.length;
  assert.deepEqual([received, read, sent], [chunks * chunkBytes, chunks, chunks * chunkBytes]);
  assert.equal(asked, chunks, 'for each piece, and for nothing after the last one');
  assert.deepEqual(callers, ['o_1 127.0.0.1']);
});
