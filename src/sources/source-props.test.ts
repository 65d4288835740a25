import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PropDefinition } from '#components/component-shape.ts';
import { runtimeProps, timerSchedules } from './source-props.ts';

const timer = [{ name: 'timer', type: '$.interface.timer' }] as PropDefinition[];
const context = { endpointUrl: undefined, credentials: new Map() };

test('a schedule that never fires any longer is refused when it is set, and code with it runs all the same', () => {
  const over = { timer: { cron: '0 0 9 1 1 * 2020' } };
  assert.throws(() => timerSchedules(timer, over), { code: 'invalid_schedule', message: /never fires/ });
  assert.deepEqual(runtimeProps(timer, over, context), {
    timer: { cron: '0 0 9 1 1 * 2020', timezone: 'UTC' },
  });
});

test('a timer without a schedule is an empty object for the code', () => {
  assert.deepEqual(runtimeProps(timer, {}, context), { timer: {} });
});
