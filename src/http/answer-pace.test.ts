import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerPace } from './answer-pace.ts';

test('250 answers of a caller are sent at once, then a thousand a second, and those of others at once', () => {
  let nowMs = 0;
  const pace = new AnswerPace({ nowMs: () => nowMs });
  const delays = Array.from({ length: 300 }, () => pace.delayMs('a'));
  assert.equal(delays.filter((ms) => ms === 0).length, 250);
  assert.equal(delays.at(-1), 50);
  assert.equal(pace.delayMs('b'), 0);
  nowMs = 51;
  assert.equal(pace.delayMs('a'), 0);
  nowMs = 5_000;
  assert.equal(Array.from({ length: 251 }, () => pace.delayMs('a')).at(-1), 1);
});

test('callers from ever new addresses take no memory', () => {
  let nowMs = 0;
  const pace = new AnswerPace({ nowMs: () => nowMs });
  for (let n = 0; n < 300; n += 1) pace.delayMs('a');
  for (let n = 0; n < 500; n += 1) pace.delayMs(`early ${n}`);
  nowMs = 2;
  for (let n = 0; n < 600; n += 1) pace.delayMs(`late ${n}`);
  assert.ok(pace.delayMs('a') > 40, 'who owes is remembered');
  for (let n = 0; n < 2_000; n += 1) pace.delayMs(`same moment ${n}`);
  assert.equal(pace.delayMs('a'), 0, 'a thousand that owe are forgotten');
});

test('large answers count as more than one: 16 MB of a caller are sent in a second', () => {
  const pace = new AnswerPace({ nowMs: () => 0 });
  const megabyte = 1024 * 1024;
  const delays = Array.from({ length: 20 }, () => pace.delayMs('a', megabyte));
  assert.equal(delays.filter((ms) => ms === 0).length, 3);
  assert.equal(delays.at(-1), 20 * 65 - 250);
});
