import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { ActionSlots, actionsAtOnceMax, actionsAtOncePerOwnerMax } from './action-slots.ts';

const isBusy = (error: unknown) => error instanceof CallerError && error.code === 'actions_busy';

test('each owner has so many places, all owners together so many, and a place that is given back is free', () => {
  const slots = new ActionSlots(new TestClock());
  const releases = Array.from({ length: actionsAtOncePerOwnerMax }, () => slots.take('u_1'));
  assert.throws(() => slots.take('u_1'), isBusy);
  releases.pop()?.();
  releases.push(slots.take('u_1'));
  for (let taken = actionsAtOncePerOwnerMax; taken < actionsAtOnceMax; taken += 1)
    releases.push(slots.take(`u_${taken}`));
  assert.throws(() => slots.take('u_new'), isBusy);
  for (const release of releases) release();
  slots.take('u_new');
});
