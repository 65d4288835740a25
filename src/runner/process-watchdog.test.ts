import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import { CallsInFlight } from './calls-in-flight.ts';
import { ProcessWatchdog } from './process-watchdog.ts';
import { defaultRunnerLimits } from './runner-limits.ts';

test('a process that is paused is not asked for a sign of life, and its memory is looked at all the same', () => {
  const limits = defaultRunnerLimits;
  const none = () => {};
  const calls = new CallsInFlight({ limits, timer: new ManualTimer(), onDeadline: none, onCancel: none });
  let pings = 0;
  const watchdog = new ProcessWatchdog({
    ...{ pid: () => undefined, limits, calls },
    ping: () => {
      pings += 1;
    },
  });
  watchdog.cancelledOneOfSeveral();
  const looks = limits.unresponsiveMs / limits.memoryPollMs + 5;
  for (let n = 0; n < looks; n += 1) assert.equal(watchdog.look(0, { isPaused: true }), undefined);
  assert.equal(pings, 0);
  assert.equal(watchdog.look(Number.MAX_SAFE_INTEGER, { isPaused: true })?.reason, 'out_of_memory');
  const verdicts = Array.from({ length: looks }, () => watchdog.look(0));
  assert.deepEqual([pings, verdicts.at(-1)?.reason], [1, 'cancelled'], 'it is, as soon as it runs');
});
