import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { test } from 'node:test';
import { bothRedactors, makeRedactor } from './redact.ts';
import { redactLarge, redactorOfTexts } from './redact-large.ts';

const secret = 'swordfish-of-the-deep';
const redact = makeRedactor([secret]);
const large = JSON.stringify({ text: `${'x'.repeat(100_000)} ${secret}` });

/** True if timers of this loop ran while the work was under way. */
async function turnsPass(work: () => Promise<unknown>): Promise<boolean> {
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 0);
  await work();
  clearInterval(timer);
  return turns > 0;
}

test('a large text is redacted as a small one is, without the loop', async () => {
  const hide = await redactorOfTexts('u_1', redact, [large, 'small']);
  assert.equal(hide(large), redact(large));
  assert.match(hide(large), /\[redacted\]/);
  assert.equal(hide('small'), 'small');
  assert.equal(hide(`other ${secret}`), 'other [redacted]');
  assert.ok(await turnsPass(() => redactLarge('u_1', redact, large)));
});

test('secrets of several redactors are found in a large text', async () => {
  const both = bothRedactors(redact, makeRedactor([], ['other-secret-value']));
  const text = JSON.stringify([large, 'other-secret-value']);
  assert.equal(await redactLarge('u_1', both, text), both(text));
  assert.doesNotMatch(await redactLarge('u_1', both, text), /swordfish|other-secret/);
});

test('the patterns for many secrets are made in the thread, also for small texts', async () => {
  const lines = Array.from({ length: 1_400 }, (_, n) => `aaaaaaaa${'0123456789abcdef'.repeat(2)}${n}`);
  const many = makeRedactor([lines.join('\n')]);
  const text = `found ${lines[7]}`;
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
