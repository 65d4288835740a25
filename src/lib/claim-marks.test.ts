import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClaimMarks } from './claim-marks.ts';

test('a claim forgets what was marked before it began, and nothing that was marked, or marked again, since', () => {
  const marks = new ClaimMarks();
  for (const key of ['a', 'b']) marks.mark(key);
  const begun = marks.newest;
  for (const key of ['b', 'c']) marks.mark(key);
  marks.forget(begun);
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((key) => marks.has(key)),
    [false, true, true, false],
  );
  marks.forget(marks.newest);
  assert.equal(marks.has('b') || marks.has('c'), false);
});

test('what is on its way to the store is not forgotten by a claim, which cannot see it', () => {
  const marks = new ClaimMarks();
  const [first, second] = [marks.hold('a'), marks.hold('a')];
  for (const arrived of [first, second]) {
    marks.forget(marks.newest);
    assert.equal(marks.has('a'), true);
    arrived();
  }
  assert.equal(marks.has('a'), false);
});
