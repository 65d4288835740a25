import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultRunnerLimits } from '#runner/runner-limits.ts';
import { StepSlots, stepsAtOnceMax } from './step-slots.ts';

test('steps beyond those that may run at once wait for a place, in their order; other deployments do not', async () => {
  const slots = new StepSlots();
  const releases = await Promise.all(Array.from({ length: stepsAtOnceMax }, () => slots.take('d_1')));
  const order: number[] = [];
  const waiting = [1, 2].map(async (n) => {
    const release = await slots.take('d_1');
    order.push(n);
    release();
  });
  (await slots.take('d_2'))();
  assert.deepEqual(order, []);
  for (const release of releases) release();
  await Promise.all(waiting);
  assert.deepEqual(order, [1, 2]);
});

test('the steps that run at once in a process have two connections each', () => {
  assert.ok(defaultRunnerLimits.connectionsMax >= 2 * stepsAtOnceMax);
  assert.ok(defaultRunnerLimits.callsInFlightMax >= stepsAtOnceMax);
});
