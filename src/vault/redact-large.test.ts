import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { bothRedactors, makeRedactor } from './redact.ts';
import { redactLarge, redactorOfTexts } from './redact-large.ts';

const secret = 'swordfish-of-the-deep';
const redact = makeRedactor([secret]);
const large = JSON.stringify({ text: `${'x'.repeat(100_000)} ${secret}` });

const manyLines = Array.from({ length: 1_400 }, (_, n) => `aaaaaaaa${'0123456789abcdef'.repeat(2)}${n}`);

test('a large text is redacted where it is when the thread is lost, and by a new thread later', async () => {
  const started = Promise.withResolvers<Worker>();
  process.once('worker', started.resolve);
  // It is at this for most of a second.
  const many = makeRedactor([manyLines.join('\n')]);
  const lost = redactorOfTexts('u_1', many, ['aaaaaaa'.repeat(700_000)]);
  await (await started.promise).terminate();
  assert.equal(await lost, many);
  assert.notEqual(await redactorOfTexts('u_1', redact, [large]), redact);
});

test('a large text is redacted as a small one is, and the loop does not search it', async () => {
  const searched: string[] = [];
  const counted = Object.assign(
    (text: string) => {
      searched.push(text);
      return redact(text);
    },
    { sets: redact.sets ?? [] },
  );
  const hide = await redactorOfTexts('u_1', counted, [large, 'small']);
  assert.equal(hide(large), redact(large));
  assert.match(hide(large), /\[redacted\]/);
  assert.equal(hide('small'), 'small');
  assert.deepEqual(searched, []);
  assert.equal(hide(`other ${secret}`), 'other [redacted]');
  assert.deepEqual(searched, [`other ${secret}`]);
});

test('secrets of several redactors are found in a large text', async () => {
  const both = bothRedactors(redact, makeRedactor([], ['other-secret-value']));
  const text = JSON.stringify([large, 'other-secret-value']);
  assert.equal(await redactLarge('u_1', both, text), both(text));
  assert.doesNotMatch(await redactLarge('u_1', both, text), /swordfish|other-secret/);
});

test('the patterns for many secrets are made in the thread, also for small texts', async () => {
  const many = makeRedactor([manyLines.join('\n')]);
  const text = `found ${manyLines[7]}`;
  const begun = performance.eventLoopUtilization();
  assert.equal(await redactLarge('u_1', many, text), 'found [redacted]');
  const { active } = performance.eventLoopUtilization(begun);
  const alone = performance.now();
  assert.equal(many(text), 'found [redacted]');
  assert.ok(active < performance.now() - alone, `the loop was busy for ${active} ms`);
});

test('a redactor whose values are not known redacts as it is', async () => {
  const plain = (text: string) => text.replaceAll(secret, '[redacted]');
  assert.equal(await redactorOfTexts('u_1', plain, [large]), plain);
});
