import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultRunnerLimits, memoryBudgetMbOf } from './runner-limits.ts';

test('the memory budget is half of the machine, at least 2 GB, and has room for a hundred warm processes', () => {
  const gibibyte = 2 ** 30;
  assert.equal(memoryBudgetMbOf(24 * gibibyte), 12 * 1024);
  assert.equal(memoryBudgetMbOf(gibibyte), 2048);
  const warmMb = 15;
  assert.ok(defaultRunnerLimits.processesMax * warmMb <= defaultRunnerLimits.memoryBudgetMb);
  assert.ok(defaultRunnerLimits.processesMax > 100);
});
