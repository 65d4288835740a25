import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationText, runTimeText } from '../cli/amounts.ts';
import { formatDuration, formatRunTime } from '../dashboard/src/parts/format.ts';

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

test('the command line and the dashboard write the same duration in the same way', () => {
  const durations: [number, string][] = [
    [0, '0 s'],
    [0.4, '1 ms'],
    [340, '340 ms'],
    [999.6, '999 ms'],
    [1500, '1.5 s'],
    [9_970, '10 s'],
    [42_400, '42 s'],
    [59_700, '1 min'],
    [90 * second, '1 min 30 s'],
    [10 * minute, '10 min'],
    [10 * minute + 30 * second, '10 min 30 s'],
    [59 * minute + 59_900, '1 h'],
    [5 * hour + 10 * minute, '5 h 10 min'],
    [47 * hour, '47 h'],
    [2 * day, '2 d'],
    [1000 * hour, '41 d 16 h'],
  ];
  for (const [ms, text] of durations) {
    assert.equal(durationText(ms), text, `${ms} ms`);
    assert.equal(formatDuration(ms), text, `${ms} ms`);
  }
  const runTimes: [number, string][] = [
    [331, '331 ms'],
    [hour + 30 * minute, '1.5 h'],
    [1000 * hour, '1,000 h'],
  ];
  for (const [ms, text] of runTimes) {
    assert.equal(runTimeText(ms), text, `${ms} ms`);
    assert.equal(formatRunTime(ms), text, `${ms} ms`);
  }
});
