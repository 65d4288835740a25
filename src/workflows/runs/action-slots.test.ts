import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import {
  ActionSlots,
  actionsAtOnceMax,
  actionsAtOncePerOwnerMax,
  actionsOfNewcomersMax,
} from './action-slots.ts';

const isBusy = (error: unknown) => error instanceof CallerError && error.code === 'actions_busy';

test('each owner has so many places, and a place that is given back is free', () => {
  const refused: string[] = [];
  const shares = {
    delayed: () => {},
    refused: (owner: string, resource: string) => void refused.push(`${owner} ${resource}`),
  };
  const slots = new ActionSlots(new TestClock(), shares);
  const releases = Array.from({ length: actionsAtOncePerOwnerMax }, () => slots.take('u_1'));
  assert.throws(() => slots.take('u_1'), isBusy);
  releases.pop()?.();
  releases.push(slots.take('u_1'));
  for (const release of releases) release();
  slots.take('u_1');
  assert.deepEqual(refused, ['u_1 actions']);
});

test('owners with many actions leave places to others: the share of each shrinks, and an owner that has none gets a place beyond the maximum', () => {
  const slots = new ActionSlots(new TestClock());
  const releases: (() => void)[] = [];
  const takenBy = (owner: string): number => {
    for (let count = 0; ; count += 1) {
      try {
        releases.push(slots.take(owner));
      } catch (error) {
        assert.ok(isBusy(error));
        return count;
      }
    }
  };
  const greedy = Array.from({ length: 20 }, (_, n) => takenBy(`u_greedy_${n}`));
  assert.equal(greedy[0], actionsAtOncePerOwnerMax);
  assert.deepEqual(
    greedy,
    greedy.toSorted((a, b) => b - a),
  );
  assert.equal(greedy.at(-1), 1);
  const all = () => releases.length;
  assert.ok(all() < actionsAtOnceMax);
  for (let n = 0; all() < actionsAtOnceMax + actionsOfNewcomersMax; n += 1)
    assert.equal(takenBy(`u_${n}`), 1);
  assert.equal(takenBy('u_last'), 0);
  for (const release of releases) release();
  assert.equal(takenBy('u_last'), actionsAtOncePerOwnerMax);
});
