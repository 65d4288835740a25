import assert from 'node:assert/strict';
import { test } from 'node:test';
import { amountText } from './amounts.ts';

test('amounts of answers are written with readable units, and other numbers are left alone', () => {
  const cases: [string, number, string | undefined][] = [
    ['daily_compute_time_quota', 3_600_000_000, '1,000 h a day'],
    ['daily_compute_time_used', 90_000, '1 min 30 s'],
    ['daily_invocations_quota', 1000, '1,000 a day'],
    ['daily_credits_used', 1000, '1,000'],
    ['timeout_seconds', 600, '10 min'],
    ['memory_mb', 2048, '2 GB'],
    ['size', 1536, '1.5 KB'],
    ['latency_ms', 1500, '1.5 s'],
    ['created_at', 1_700_000_000, undefined],
    ['indexed_at_ms', 1_700_000_000_000, undefined],
    ['concurrency', 3, undefined],
  ];
  for (const [field, value, text] of cases) assert.equal(amountText(field, value), text, field);
});
