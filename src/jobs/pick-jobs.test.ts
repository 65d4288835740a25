import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DueJob, pickJobs } from './pick-jobs.ts';

/** Jobs by `owner/lane`, oldest first; their ids say which of its lane each is. */
function due(...lanes: string[]): DueJob[] {
  const counts = new Map<string, number>();
  return lanes.map((place, index) => {
    const [owner_id = '', lane = null] = place.split('/');
    const number = (counts.get(place) ?? 0) + 1;
    counts.set(place, number);
    return { id: `${place}${number}`, lane, owner_id, attempts: 0, run_at_ms: index, created_at_ms: 0 };
  });
}

function pick(
  jobs: DueJob[],
  limit: number,
  {
    running = {},
    room = {},
    laneMax = 10,
  }: { running?: Record<string, number>; room?: Record<string, number>; laneMax?: number } = {},
): string[] {
  const chosen = pickJobs(jobs, {
    limit,
    runningByLane: new Map(),
    places: {
      jobsOf: (owner) => running[owner] ?? 0,
      roomOf: (owner) => room[owner] ?? Number.POSITIVE_INFINITY,
      laneMaxOf: () => laneMax,
    },
  });
  return chosen.map(({ id }) => id);
}

test('all that have room are chosen where there are places for all of them, oldest first', () => {
  assert.deepEqual(pick(due('a/x', 'a/x', 'b/y', 'a/z'), 4), ['a/x1', 'a/x2', 'b/y1', 'a/z1']);
});

test('owners take turns, and those with fewer jobs here come first', () => {
  const jobs = due('a/x', 'a/x', 'a/x', 'b/y', 'b/y', 'c/z');
  assert.deepEqual(pick(jobs, 3), ['a/x1', 'b/y1', 'c/z1']);
  assert.deepEqual(pick(jobs, 4), ['a/x1', 'a/x2', 'b/y1', 'c/z1']);
  assert.deepEqual(pick(jobs, 3, { running: { a: 5 } }), ['b/y1', 'b/y2', 'c/z1']);
});

test('lanes of an owner take turns, and jobs of no lane among them', () => {
  assert.deepEqual(pick(due('a/x', 'a/x', 'a/x', 'a/y', 'a', 'a'), 3), ['a/x1', 'a/y1', 'a1']);
});

test('what has no room in its lane, or of its owner, is passed over', () => {
  const jobs = due('a/x', 'a/x', 'a/y', 'b/z', 'b/z');
  assert.deepEqual(pick(jobs, 5, { laneMax: 1 }), ['a/x1', 'a/y1', 'b/z1']);
  assert.deepEqual(pick(jobs, 5, { room: { a: 1, b: 0 } }), ['a/x1']);
});
