import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { mock, test } from 'node:test';
import { AnswerBytes } from './answer-bytes.ts';

const megabyte = 1_000_000;

test('8 MB of a caller are sent at once, then 20 MB a second, and those of others at once', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  let nowMs = 0;
  mock.method(performance, 'now', () => nowMs);
  try {
    const answers = new AnswerBytes();
    for (let n = 0; n < 8; n += 1) assert.equal(answers.whole('a', megabyte), undefined);
    let isSent = false;
    const waiting = answers.whole('a', 4 * megabyte)?.then(() => {
      isSent = true;
    });
    assert.ok(waiting !== undefined);
    assert.equal(answers.whole('b', megabyte), undefined);
    const pass = async (ms: number) => {
      nowMs += ms;
      mock.timers.tick(ms);
      await Promise.resolve();
      await Promise.resolve();
    };
    await pass(199);
    assert.equal(isSent, false);
    await pass(3);
    await waiting;
    assert.equal(answers.whole('a', 1), undefined);
  } finally {
    mock.timers.reset();
    mock.restoreAll();
  }
});

test('what is sent in parts arrives whole and in order, and parts are read when those before them had their time', async () => {
  const answers = new AnswerBytes();
  let read = 0;
  const parts = Readable.from(
    (function* () {
      for (; read < 12; read += 1) yield Buffer.alloc(megabyte, read);
    })(),
  );
  const paced = answers.inParts('a', parts);
  const startedAt = performance.now();
  let at = 0;
  for await (const chunk of paced as AsyncIterable<Buffer>)
    for (const byte of [chunk[0], chunk.at(-1)]) {
      assert.equal(byte, Math.floor(at / megabyte));
      at += chunk.length / 2;
    }
  assert.equal(at, 12 * megabyte);
  const ms = performance.now() - startedAt;
  assert.ok(ms > 100, `12 MB took ${ms} ms, and four of them have to wait`);
});
