import assert from 'node:assert/strict';
import { beforeEach, describe, type TestContext, test } from 'node:test';
import { Deferred } from './deferred.ts';
import type { Logger } from './logger.ts';
import { PeriodicTask } from './periodic-task.ts';

describe('PeriodicTask', () => {
  let rounds: Deferred<void>[];
  let nowMs: number;
  let logged: unknown[];

  beforeEach(() => {
    rounds = [];
    nowMs = 0;
    logged = [];
  });

  /** Each round ends when the test says so. */
  function taskOf(options: { restFactor?: number; retryMs?: number } = {}): PeriodicTask {
    return new PeriodicTask({
      everyMs: 100,
      ...options,
      work: () => {
        const round = new Deferred<void>();
        rounds.push(round);
        return round.promise;
      },
      logger: { warn: (about: unknown, event: string) => logged.push([about, event]) } as unknown as Logger,
      failure: 'things.not-done',
      nowMs: () => nowMs,
    });
  }

  function timersOf(t: TestContext): (ms: number) => void {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    return (ms) => {
      nowMs += ms;
      t.mock.timers.tick(ms);
    };
  }

  /** Ends the newest round. */
  async function end(task: PeriodicTask, error?: Error): Promise<void> {
    if (error === undefined) rounds.at(-1)?.resolve();
    else rounds.at(-1)?.reject(error);
    await task.idle();
  }

  test('rounds begin at multiples of the interval, and never two at once', async (t) => {
    const tick = timersOf(t);
    const task = taskOf();
    task.start();
    tick(99);
    assert.equal(rounds.length, 0);
    tick(1);
    assert.equal(rounds.length, 1);
    tick(250);
    assert.equal(rounds.length, 1);
    await end(task);
    tick(49);
    assert.equal(rounds.length, 1);
    tick(1);
    assert.equal(rounds.length, 2);
    await end(task);
    await task.stop();
  });

  test('with atOnce the first round waits for nothing', async (t) => {
    timersOf(t);
    const task = taskOf();
    task.start({ atOnce: true });
    assert.equal(rounds.length, 1);
    await end(task);
    await task.stop();
  });

  test('with a rest, a long round puts off the next one by a multiple of what it took', async (t) => {
    const tick = timersOf(t);
    const task = taskOf({ restFactor: 10 });
    task.start({ atOnce: true });
    tick(30);
    await end(task);
    tick(299);
    assert.equal(rounds.length, 1);
    tick(1);
    assert.equal(rounds.length, 2);
    tick(1);
    await end(task);
    // A short one by the interval.
    tick(99);
    assert.equal(rounds.length, 2);
    tick(1);
    assert.equal(rounds.length, 3);
    await end(task);
    await task.stop();
  });

  test('a failure ends nothing, and is logged once until it changes or a round succeeds', async (t) => {
    const tick = timersOf(t);
    const task = taskOf();
    task.start();
    const away = [{ error: 'away' }, 'things.not-done'];
    const full = [{ error: 'full' }, 'things.not-done'];
    for (const [error, expected] of [
      [new Error('away'), [away]],
      [new Error('away'), [away]],
      [new Error('full'), [away, full]],
      [undefined, [away, full]],
      [new Error('full'), [away, full, full]],
    ] as const) {
      tick(100);
      await end(task, error);
      assert.deepEqual(logged, expected);
    }
    await task.stop();
  });

  test('stop waits for the round that is under way, twice, and none follows', async (t) => {
    const tick = timersOf(t);
    const task = taskOf();
    task.start({ atOnce: true });
    let stopped = 0;
    const stops = [task.stop(), task.stop()].map((stop) => stop.then(() => (stopped += 1)));
    assert.equal(task.isStopped, true);
    await new Promise(setImmediate);
    assert.equal(stopped, 0);
    rounds[0]?.resolve();
    await Promise.all(stops);
    tick(1_000);
    assert.equal(rounds.length, 1);
  });

  test('work that throws before it waits is a failed round too', async (t) => {
    timersOf(t);
    const task = new PeriodicTask({
      everyMs: 100,
      work: () => {
        throw new Error('broken');
      },
      logger: { warn: (about: unknown) => logged.push(about) } as unknown as Logger,
      failure: 'things.not-done',
    });
    task.start({ atOnce: true });
    await task.stop();
    assert.deepEqual(logged, [{ error: 'broken' }]);
  });

  test('the round after one that failed may come sooner', async (t) => {
    const tick = timersOf(t);
    const task = taskOf({ retryMs: 10 });
    task.start({ atOnce: true });
    await end(task, new Error('away'));
    tick(9);
    assert.equal(rounds.length, 1);
    tick(1);
    assert.equal(rounds.length, 2);
    await end(task);
    tick(10);
    assert.equal(rounds.length, 2);
    tick(90);
    assert.equal(rounds.length, 3);
    await end(task);
  });
});
