import assert from 'node:assert/strict';
import { test } from 'node:test';
import { billingPeriod } from './billing-period.ts';

const day = (year: number, month: number, date: number) => Date.UTC(year, month - 1, date);
const shown = (firstMs: number, nowMs: number) => {
  const { startMs, endMs } = billingPeriod(firstMs, nowMs);
  return [startMs, endMs].map((ms) => new Date(ms).toISOString().slice(0, 10));
};

test('a billing period is the month that now is in, counted from the day of the first one', () => {
  const first = day(2026, 11, 15);
  assert.deepEqual(shown(first, first), ['2026-11-15', '2026-12-15']);
  assert.deepEqual(shown(first, day(2026, 12, 15) - 1), ['2026-11-15', '2026-12-15']);
  assert.deepEqual(shown(first, day(2026, 12, 15)), ['2026-12-15', '2027-01-15']);
  assert.deepEqual(shown(first, day(2028, 3, 1)), ['2028-02-15', '2028-03-15']);
  assert.deepEqual(shown(first, day(2026, 1, 1)), ['2026-11-15', '2026-12-15'], 'a clock that stepped back');
});

test('a month without the day has its last one, and the day comes back', () => {
  const first = day(2027, 1, 31);
  assert.deepEqual(shown(first, day(2027, 2, 27)), ['2027-01-31', '2027-02-28']);
  assert.deepEqual(shown(first, day(2027, 2, 28)), ['2027-02-28', '2027-03-31']);
  assert.deepEqual(shown(first, day(2027, 3, 31)), ['2027-03-31', '2027-04-30']);
});
