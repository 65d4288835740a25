import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { retryDelayMs, uncountedDelayMs } from './retry-schedule.ts';

const attempts = fc.integer({ min: 0, max: 1_000 });
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test('a retry waits at least a second and at most 75, whichever attempt it is and whatever chance says', () => {
  fc.assert(
    fc.property(attempts, random, (attempt, chance) => {
      const delay = retryDelayMs(attempt, () => chance);
      assert.ok(Number.isInteger(delay) && delay >= 1_000 && delay <= 75_000, `${delay}`);
    }),
  );
});

test('a later attempt never waits less than an earlier one, given the same chance', () => {
  fc.assert(
    fc.property(attempts, attempts, random, (one, other, chance) => {
      const [earlier, later] = one < other ? [one, other] : [other, one];
      assert.ok(retryDelayMs(earlier, () => chance) <= retryDelayMs(later, () => chance));
    }),
  );
});

test('the waits are 1, 4, 16 and then 60 seconds, with up to a quarter of jitter', () => {
  const waits = (chance: number) => [1, 2, 3, 4, 5].map((attempt) => retryDelayMs(attempt, () => chance));
  assert.deepEqual(waits(0), [1_000, 4_000, 16_000, 60_000, 60_000]);
  assert.deepEqual(waits(0.5), [1_125, 4_500, 18_000, 67_500, 67_500]);
});

test('what could not even be counted waits longer the older it is: a second at first, a minute in the end', () => {
  const ages = [-5_000, 0, 4_000, 40_000, 240_000, 3_600_000];
  assert.deepEqual(
    ages.map((age) => uncountedDelayMs(age, () => 0)),
    [1_000, 1_000, 1_000, 10_000, 60_000, 60_000],
  );
});
