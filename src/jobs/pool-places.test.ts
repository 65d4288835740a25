import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LeasedJob } from './job-store.ts';
import { PoolPlaces, runningMax, runningPerLaneMax } from './pool-places.ts';

function job(lane: string | null, options: Partial<LeasedJob> = {}): LeasedJob {
  return {
    ...({ id: 'j', kind: 'run_source', ownerId: 'o_1', attempts: 1 } as LeasedJob),
    lane,
    bytes: 1,
    ...options,
  };
}

test('a lane gets a part of what is free, and has room again when its jobs end', () => {
  const places = new PoolPlaces();
  const jobs = Array.from({ length: runningPerLaneMax }, () => job('dc_1'));
  for (const one of jobs) places.take(one);
  assert.deepEqual(
    [places.areFreeIn('dc_1', 'o_1'), places.areFreeIn('dc_2', 'o_1'), places.isBusy('dc_1')],
    [false, true, true],
  );
  assert.equal(places.haveDrainedIn('dc_1'), false);
  for (const one of jobs.slice(0, runningPerLaneMax / 2 + 10)) places.giveBack(one);
  assert.deepEqual([places.areFreeIn('dc_1', 'o_1'), places.haveDrainedIn('dc_1')], [true, true]);
  for (const one of jobs.slice(runningPerLaneMax / 2 + 10)) places.giveBack(one);
  assert.equal(places.isBusy('dc_1'), false);
});

test('jobs that have to stay are bounded apart from those that may be claimed', () => {
  const places = new PoolPlaces();
  for (let n = 0; n < 5; n += 1) places.take(job('dc_1', { staysHere: true }));
  assert.deepEqual(
    [places.areFreeToStay('dc_1', 'o_1', 5), places.areFreeToStay('dc_1', 'o_1', 6)],
    [false, true],
  );
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
  assert.deepEqual([places.claimMax(), places.areFree], [128, false], 'the reserve');
  for (const one of jobs.slice(0, 128)) places.giveBack(one);
  assert.equal(places.haveDrained, true);
  const large = job(null, { bytes: 256 * 1024 * 1024 });
  places.take(large);
  assert.deepEqual([places.areFree, places.haveDrained], [false, false]);
  places.giveBack(large);
  assert.equal(places.areFree, true);
});

test('jobs that begin with the next commit have their places kept, so that they do not take the reserve', () => {
  let nowMs = 0;
  const places = new PoolPlaces({ nowMs: () => nowMs });
  for (let n = 0; n < runningMax - 100; n += 1) places.take(job(`dc_${n}`));
  for (let n = 0; n < 100; n += 1) {
    assert.equal(places.areFreeIn('dc_new', 'o_1'), true);
    places.promise(`p_${n}`);
  }
  assert.deepEqual([places.areFreeIn('dc_new', 'o_1'), places.left], [false, 0]);
  assert.equal(places.areFreeIn('dc_of_another', 'o_2'), true);
  for (let n = 0; n < 50; n += 1) places.take(job(null, { id: `p_${n}` }));
  assert.equal(places.left, 0);
  nowMs = 5_001;
  assert.equal(places.left, 50, 'those that were not stored');
});

test('an owner that has taken all places leaves a reserve to those that have few, each a part of what is left', () => {
  const places = new PoolPlaces();
  const greedy = Array.from({ length: runningMax }, (_, n) => job(`dc_${n}`));
  for (const one of greedy) places.take(one);
  assert.deepEqual([places.roomOf('o_1'), places.areFreeIn('dc_new', 'o_1')], [0, false]);
  const of = (ownerId: string) => job('dc_b', { ownerId });
  assert.deepEqual([places.roomOf('o_2'), places.laneMaxOf('o_2')], [64, 64]);
  const second = Array.from({ length: 64 }, () => of('o_2'));
  for (const one of second) {
    assert.equal(places.areFreeIn('dc_b', 'o_2') || places.jobsOf('o_2') >= 56, true);
    places.take(one);
  }
  assert.deepEqual([places.roomOf('o_2'), places.roomOf('o_3')], [0, 56]);
  for (let n = 0; places.roomOf(`o_${n + 3}`) > 0; n += 1) places.take(of(`o_${n + 3}`));
  assert.deepEqual([places.claimMax(), places.roomOf('o_new')], [0, 0]);
  for (const one of second) places.giveBack(one);
  assert.deepEqual(
    [places.roomOf('o_new'), places.haveDrainedOf('o_2'), places.haveDrainedOf('o_1')],
    [8, true, false],
  );
});

test('an owner with large payloads leaves bytes to others', () => {
  const places = new PoolPlaces();
  places.take(job(null, { bytes: 256 * 1024 * 1024 }));
  assert.deepEqual([places.areFreeIn('a', 'o_1'), places.areFreeIn('b', 'o_2')], [false, true]);
  places.take(job(null, { ownerId: 'o_2', bytes: 8 * 1024 * 1024 }));
  assert.equal(places.areFreeIn('b', 'o_2'), false);
});

test('while others wait, an owner with a quarter of the places begins nothing before them', () => {
  const places = new PoolPlaces();
  for (let n = 0; n < runningMax / 4; n += 1) places.take(job(`dc_${n}`));
  const othersWait = true;
  assert.deepEqual([places.areFreeIn('a', 'o_1'), places.areFreeIn('a', 'o_1', othersWait)], [true, false]);
  assert.equal(places.areFreeIn('b', 'o_2', othersWait), true);
});
