import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { beforeEach, describe, type TestContext, test } from 'node:test';
import { Deferred } from './deferred.ts';
import type { Logger } from './logger.ts';
import { Wakeable, type WakeableOptions } from './wakeable.ts';

describe('Wakeable', () => {
  let looks: Deferred<number>[];
  let rests: number;
  let nowMs: number;
  let logged: unknown[];

  beforeEach(() => {
    looks = [];
    rests = 0;
    nowMs = 0;
    logged = [];
  });

  /** Each look ends when the test says so. */
  function wakeable(options: Partial<WakeableOptions> = {}): Wakeable {
    return new Wakeable({
      look: () => {
        const look = new Deferred<number>();
        looks.push(look);
        return look.promise;
      },
      pollMs: 1_000,
      logger: { warn: (about: unknown, event: string) => logged.push([about, event]) } as unknown as Logger,
      failure: 'things.look-failed',
      about: { node: 'n_1' },
      onRest: () => {
        rests += 1;
      },
      nowMs: () => nowMs,
      ...options,
    });
  }

  test('looks in the context of none of those who poke it', () => {
    const context = new AsyncLocalStorage<string>();
    let seen: string | undefined = 'not looked';
    const loop = wakeable({
      look: () => {
        seen = context.getStore();
        return new Promise(() => {});
      },
    });
    context.run('of a request', () => loop.poke());
    assert.equal(seen, undefined);
  });

  function timersOf(t: TestContext): (ms: number) => void {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    return (ms) => {
      nowMs += ms;
      t.mock.timers.tick(ms);
    };
  }

  /** Ends the newest look, and lets what follows from that happen. */
  async function end(result: number | Error): Promise<void> {
    if (typeof result === 'number') looks.at(-1)?.resolve(result);
    else looks.at(-1)?.reject(result);
    await new Promise(setImmediate);
  }

  test('sleeps until something is due, at the most for the time of the poll', async (t) => {
    const tick = timersOf(t);
    const woken = wakeable();
    woken.poke();
    assert.equal(looks.length, 1);
    await end(300);
    tick(299);
    assert.equal(looks.length, 1);
    tick(1);
    assert.equal(looks.length, 2);
    await end(60_000);
    tick(999);
    assert.equal(looks.length, 2);
    tick(1);
    assert.equal(looks.length, 3);
    // What was due a while ago is looked for at once.
    await end(-5);
    tick(0);
    assert.equal(looks.length, 4);
    await end(0);
    await woken.stop();
  });

  test('pokes during a look have one more follow; it rests when none follows', async (t) => {
    timersOf(t);
    const woken = wakeable();
    woken.poke();
    woken.poke();
    woken.poke();
    assert.equal(looks.length, 1);
    await end(1_000);
    assert.deepEqual([looks.length, rests, woken.isLooking], [2, 0, true]);
    await end(1_000);
    assert.deepEqual([looks.length, rests, woken.isLooking], [2, 1, false]);
    await woken.stop();
  });

  test('is woken earlier than planned, never later', async (t) => {
    const tick = timersOf(t);
    const woken = wakeable();
    woken.poke();
    await end(500);
    woken.wakeIn(800);
    woken.wakeIn(200);
    woken.wakeIn(400);
    tick(199);
    assert.equal(looks.length, 1);
    tick(1);
    assert.equal(looks.length, 2);
    await end(1_000);
    await woken.stop();
  });

  test('a failed look is logged, and the next one follows after the poll, or at once when it was poked', async (t) => {
    const tick = timersOf(t);
    const woken = wakeable();
    woken.poke();
    await end(new Error('away'));
    assert.deepEqual(logged, [[{ node: 'n_1', error: 'away' }, 'things.look-failed']]);
    tick(999);
    assert.equal(looks.length, 1);
    tick(1);
    woken.poke();
    await end(new Error('away'));
    assert.equal(looks.length, 3);
    await end(0);
    await woken.stop();
  });

  test('one that rests after failures lets pokes during a failed look wait', async (t) => {
    const tick = timersOf(t);
    const woken = wakeable({ restsAfterFailure: true });
    woken.poke();
    woken.poke();
    await end(new Error('away'));
    assert.equal(looks.length, 1);
    tick(1_000);
    assert.equal(looks.length, 2);
    await end(0);
    await woken.stop();
  });

  test('stop waits for the look that is under way, twice, and none follows', async (t) => {
    const tick = timersOf(t);
    const woken = wakeable();
    woken.poke();
    woken.poke();
    let stopped = 0;
    const stops = [woken.stop(), woken.stop()].map((stop) => stop.then(() => (stopped += 1)));
    await new Promise(setImmediate);
    assert.equal(stopped, 0);
    await end(0);
    await Promise.all(stops);
    woken.poke();
    woken.wakeIn(-1);
    tick(1_000);
    assert.deepEqual([looks.length, rests], [1, 1]);
  });
});
