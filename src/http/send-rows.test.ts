import assert from 'node:assert/strict';
import type { Readable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type FastifyReply, fastify } from 'fastify';
import { encodeCursor } from './pagination.ts';
import { sendRows } from './send-rows.ts';

const megabyte = 1024 * 1024;

/** Answers one page of rows with these sizes in MB; tells how many items were read at a time. */
async function answerOf(sizes: readonly number[], gone: readonly string[] = []) {
  const app = fastify();
  const batches: number[] = [];
  app.get('/', (_request, reply) =>
    sendRows(reply, {
      rows: sizes.map((size, index) => ({ id: `r${index}`, size })),
      totalCount: 77,
      bytesOf: ({ size }) => size * megabyte,
      itemsOf: async (rows) => {
        batches.push(rows.length);
        return rows.filter(({ id }) => !gone.includes(id)).map(({ id }) => ({ id }));
      },
    }),
  );
  const { body } = await app.inject('/');
  await app.close();
  const answer = JSON.parse(body) as { page_info: object; data: { id: string }[] };
  return { batches, pageInfo: answer.page_info, ids: answer.data.map(({ id }) => id) };
}

test('a page of small items is one batch', async () => {
  const { batches, pageInfo, ids } = await answerOf([0, 0.1, 0.2]);
  assert.deepEqual(batches, [3]);
  assert.deepEqual(ids, ['r0', 'r1', 'r2']);
  assert.deepEqual(pageInfo, {
    ...{ total_count: 77, count: 3 },
    ...{ start_cursor: encodeCursor('r0'), end_cursor: encodeCursor('r2') },
  });
});

test('no more items than 2 MB and one item are read at once, and the answer has all of them', async () => {
  const { batches, pageInfo, ids } = await answerOf([5, 1, 0.5, 3, 0.1, 0, 2]);
  assert.deepEqual(batches, [1, 3, 3]);
  assert.deepEqual(ids, ['r0', 'r1', 'r2', 'r3', 'r4', 'r5', 'r6']);
  assert.deepEqual(pageInfo, {
    ...{ total_count: 77, count: 7 },
    ...{ start_cursor: encodeCursor('r0'), end_cursor: encodeCursor('r6') },
  });
});

test('items that were deleted meanwhile are left out, also all of a batch', async () => {
  assert.deepEqual((await answerOf([3, 3, 3], ['r0', 'r1'])).ids, ['r2']);
  assert.deepEqual((await answerOf([3, 3, 3], ['r1'])).ids, ['r0', 'r2']);
  assert.deepEqual((await answerOf([3, 3], ['r0', 'r1'])).pageInfo, { total_count: 77, count: 0 });
});

test('an empty page is answered', async () => {
  const { batches, pageInfo, ids } = await answerOf([]);
  assert.deepEqual([batches, pageInfo, ids], [[], { total_count: 77, count: 0 }, []]);
});

test('a batch is read when the caller has taken the one before, and requests that came meanwhile go first', async () => {
  const seen: string[] = [];
  const sent = Promise.withResolvers<Readable>();
  const reply = { type: () => reply, send: sent.resolve };
  void sendRows(reply as unknown as FastifyReply, {
    rows: Array.from({ length: 20 }, (_, index) => ({ id: `r${index}` })),
    totalCount: 20,
    bytesOf: () => 3 * megabyte,
    itemsOf: async (rows) => {
      seen.push('batch');
      // A request that comes while a batch is read.
      globalThis.setImmediate(() => seen.push('other'));
      return rows.map(({ id }) => ({ id, text: 'x'.repeat(megabyte) }));
    },
  });
  const stream = await sent.promise;
  for (let n = 0; n < 30; n += 1) await setImmediate();
  assert.deepEqual(seen, ['batch', 'other'], 'nothing is read ahead before the caller reads');
  stream.once('data', () => stream.pause());
  for (let n = 0; n < 30; n += 1) await setImmediate();
  assert.ok(
    seen.length >= 4 && seen.length <= 8,
    `the caller took one of 20 batches: ${seen.length / 2} are read`,
  );
  stream.resume();
  for await (const _ of stream);
  await setImmediate();
  assert.deepEqual(seen, Array.from({ length: 20 }, () => ['batch', 'other']).flat());
});
