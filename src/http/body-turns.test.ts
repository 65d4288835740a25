import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BodyTurns, largeBodyBytes } from './body-turns.ts';

const MB = 1024 * 1024;

test('two megabytes of a caller are read at once, and then ten in a second', () => {
  let nowMs = 1_000;
  const turns = new BodyTurns(() => nowMs);
  const waits = Array.from({ length: 5 }, () => turns.take('u_1', MB));
  assert.deepEqual(waits, [0, 0, 0, 100, 200]);
  nowMs += 250;
  assert.equal(turns.take('u_1', MB), 50);
  nowMs += 10_000;
  assert.equal(turns.take('u_1', MB), 0);
});

test('the bodies of a caller hold up those of no other', () => {
  const turns = new BodyTurns(() => 0);
  for (let n = 0; n < 2_000; n += 1) turns.take('u_1', MB);
  assert.ok(turns.take('u_1', MB) > 100_000);
  assert.equal(turns.take('u_2', MB), 0);
});

test('a body whose size is known when it was read counts for those that follow', () => {
  const turns = new BodyTurns(() => 0);
  assert.equal(turns.take('u_1', 0), 0);
  turns.count('u_1', 12 * MB);
  assert.equal(turns.take('u_1', 0), 1_000);
});

test('callers who wait are remembered however many others there are', () => {
  let nowMs = 0;
  const turns = new BodyTurns(() => nowMs);
  turns.take('u_1', 100 * MB);
  for (let n = 0; n < 3_000; n += 1) {
    nowMs += 1;
    turns.take(`u_other${n}`, 1);
  }
  assert.ok(turns.take('u_1', MB) > 6_000);
});

test('bodies from 64 KB on are large ones, and those that do not say their size may be', () => {
  assert.equal(largeBodyBytes({ headers: {} }), undefined);
  assert.equal(largeBodyBytes({ headers: { 'content-length': '65535' } }), undefined);
  assert.equal(largeBodyBytes({ headers: { 'content-length': '65536' } }), 65_536);
  assert.equal(largeBodyBytes({ headers: { 'transfer-encoding': 'chunked' } }), 0);
});
