import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesText, durationText } from './units.ts';

test('sizes and times are written with readable units', () => {
  const sizes: [number, string][] = [
    [0, '0 bytes'],
    [1, '1 byte'],
    [1023, '1,023 bytes'],
    [512 * 1024, '512 KB'],
    [1.5 * 1024 ** 2, '1.5 MB'],
    [2 * 1024 ** 3, '2 GB'],
    [5000 * 1024 ** 4, '5,000 TB'],
  ];
  for (const [bytes, text] of sizes) assert.equal(bytesText(bytes), text);
  const times: [number, string][] = [
    [0, '0 seconds'],
    [40, '40 ms'],
    [1000, '1 second'],
    [90_000, '90 seconds'],
    [600_000, '10 minutes'],
    [3_600_000, '1 hour'],
    [3_600_000_000, '1,000 hours'],
    [7 * 86_400_000, '7 days'],
    [1499, '1 second'],
  ];
  for (const [ms, text] of times) assert.equal(durationText(ms), text);
});
