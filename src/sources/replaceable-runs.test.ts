import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ReplaceableRuns } from './replaceable-runs.ts';

test('a run is stopped when it is replaced, also when that is known before it begins', () => {
  const runs = new ReplaceableRuns();
  const [one, other] = [runs.begin('one'), runs.begin('other')];
  runs.replace('one');
  assert.deepEqual([one.aborted, other.aborted], [true, false]);
  runs.end('one');
  runs.replace('late');
  assert.equal(runs.begin('late').aborted, true);
  runs.end('late');
  assert.equal(runs.begin('late').aborted, false, 'the notice was for the first attempt');
});

test('notices of runs that never begin here are kept for the latest thousand', () => {
  const runs = new ReplaceableRuns();
  for (let n = 0; n <= 1_000; n += 1) runs.replace(`elsewhere ${n}`);
  assert.equal(runs.begin('elsewhere 0').aborted, false);
  assert.equal(runs.begin('elsewhere 1').aborted, true);
  assert.equal(runs.begin('elsewhere 1000').aborted, true);
});
