import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TimerEvent } from '../schedule.app.ts';
import cronSchedule from './cron-schedule.ts';
import customInterval from './custom-interval.ts';

for (const source of [customInterval, cronSchedule]) {
  test(`${source.key} emits the event of its timer`, async () => {
    const emitted: unknown[][] = [];
    const self = { $emit: (...args: unknown[]) => void emitted.push(args) };
    const event: TimerEvent = { timestamp: 1_767_225_600, interval_seconds: 60 };
    await source.run.call(self, event);
    assert.deepEqual(emitted, [[event, { summary: '2026-01-01T00:00:00.000Z', ts: 1_767_225_600_000 }]]);
  });

  test(`${source.key} can be run by hand, without an event`, async () => {
    const emitted: TimerEvent[] = [];
    await source.run.call({ $emit: (event: TimerEvent) => void emitted.push(event) });
    assert.equal(typeof emitted[0]?.timestamp, 'number');
  });

  test(`${source.key} has a timer`, () => {
    assert.equal(source.props.cron.type, '$.interface.timer');
  });
}
