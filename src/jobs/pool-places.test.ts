import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LeasedJob } from './job-store.ts';
import { PoolPlaces, runningMax, runningPerLaneMax } from './pool-places.ts';

function job(lane: string | null, options: Partial<LeasedJob> = {}): LeasedJob {
  return { ...({ id: 'j', kind: 'run_source', attempts: 1 } as LeasedJob), lane, bytes: 1, ...options };
}

test('a lane gets a part of what is free, and has room again when its jobs end', () => {
  const places = new PoolPlaces();
  const jobs = Array.from({ length: runningPerLaneMax }, () => job('dc_1'));
  for (const one of jobs) places.take(one);
  assert.deepEqual(
    [places.areFreeIn('dc_1'), places.areFreeIn('dc_2'), places.isBusy('dc_1')],
    [false, true, true],
  );
  assert.equal(places.haveDrainedIn('dc_1'), false);
  for (const one of jobs.slice(0, runningPerLaneMax / 2 + 10)) places.giveBack(one);
  assert.deepEqual([places.areFreeIn('dc_1'), places.haveDrainedIn('dc_1')], [true, true]);
  for (const one of jobs.slice(runningPerLaneMax / 2 + 10)) places.giveBack(one);
  assert.equal(places.isBusy('dc_1'), false);
});

test('jobs that have to stay are bounded apart from those that may be claimed', () => {
  const places = new PoolPlaces();
  for (let n = 0; n < 5; n += 1) places.take(job('dc_1', { staysHere: true }));
  assert.deepEqual([places.areFreeToStay('dc_1', 5), places.areFreeToStay('dc_1', 6)], [false, true]);
  assert.deepEqual([...places.runningByLane], []);
  assert.equal(places.isBusy('dc_1'), true);
});

test('what is claimed at once shrinks with what is free, to nothing in number or bytes', () => {
  const places = new PoolPlaces();
  assert.equal(places.claimMax(), 128);
  const jobs = Array.from({ length: runningMax }, () => job(null));
  for (const one of jobs.slice(0, runningMax - 8)) places.take(one);
  assert.deepEqual([places.claimMax(), places.laneMax(), places.haveDrained], [2, 1, false]);
  for (const one of jobs.slice(runningMax - 8)) places.take(one);
  assert.deepEqual([places.claimMax(), places.areFree], [0, false]);
  for (const one of jobs.slice(0, 128)) places.giveBack(one);
  assert.equal(places.haveDrained, true);
  const large = job(null, { bytes: 256 * 1024 * 1024 });
  places.take(large);
  assert.deepEqual([places.claimMax(), places.haveDrained], [0, false]);
  places.giveBack(large);
  assert.equal(places.areFree, true);
});
