import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { type Logger, silentLogger } from '#lib/logger.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { DatabaseClock } from './database-clock.ts';

const hour = 3_600_000;
const minute = 60_000;

describe('the clock of a node on a shared database', () => {
  /** What is true, and what the two clocks make of it. */
  let trueMs: number;
  let machine: TestClock;
  let monotonicMs: number;
  let databaseOffsetMs: number;
  /** The times of each round trip to come: to the database and back. Empty: none takes time. */
  let trips: [number, number][];
  let logged: string[];
  let asked: number;

  beforeEach(() => {
    trueMs = 1_800_000_000_000;
    machine = new TestClock(trueMs);
    monotonicMs = 5_000.25;
    databaseOffsetMs = 0;
    trips = [];
    logged = [];
    asked = 0;
  });

  const pass = (ms: number) => {
    trueMs += ms;
    monotonicMs += ms;
    machine.step(ms);
  };
  const readDatabaseMs = async () => {
    asked += 1;
    const [there, back] = trips.shift() ?? [0, 0];
    pass(there);
    const answer = trueMs + databaseOffsetMs;
    pass(back);
    return answer;
  };
  const log = (_: object, event: string) => logged.push(event);
  const logger = { ...silentLogger, info: log, warn: log, error: log } as unknown as Logger;
  const startClock = async (read = readDatabaseMs) => {
    const clock = new DatabaseClock({ machine, logger, monotonicMs: () => monotonicMs });
    await clock.start(read);
    // From here on the test says when it looks.
    await clock.stop();
    return clock;
  };

  test('a clock that agrees is left alone', async () => {
    machine.step(80);
    const clock = await startClock();
    assert.equal(clock.now(), trueMs + 80);
    assert.deepEqual(clock.status(), { state: 'synchronized', offsetMs: 80, checkedAtMs: trueMs + 80 });
    assert.deepEqual(logged, []);
  });

  for (const [aheadMs, state, events] of [
    [400, 'synchronized', []],
    [1_500, 'corrected', ['clock.corrected']],
    [-30_000, 'corrected', ['clock.corrected']],
    [61_000, 'unreliable', ['clock.distrusted']],
    [-hour, 'unreliable', ['clock.distrusted']],
  ] as const)
    test(`a clock that is ${aheadMs} ms ahead keeps to the time of the database, and is ${state}`, async () => {
      machine.step(aheadMs);
      const clock = await startClock();
      assert.equal(clock.now(), trueMs);
      assert.deepEqual([clock.status().state, clock.status().offsetMs], [state, aheadMs]);
      assert.deepEqual(logged, events);
      pass(20_000);
      assert.equal(clock.now(), trueMs);
    });

  test('between checks it follows no step of the machine, which is noticed and checked at once', async () => {
    const clock = await startClock();
    const before = clock.now();
    machine.step(-hour);
    assert.equal(clock.now(), before);
    await clock.look();
    assert.equal(clock.now(), before);
    assert.equal(clock.status().state, 'unreliable');
    assert.equal(asked, 6);
    machine.step(hour);
    await clock.look();
    assert.equal(clock.status().state, 'synchronized');
    assert.equal(clock.now(), before);
    assert.deepEqual(logged, ['clock.distrusted', 'clock.synchronized']);
  });

  test('it is checked every minute, and not in between', async () => {
    const clock = await startClock();
    pass(minute - 1);
    await clock.look();
    assert.equal(asked, 3);
    databaseOffsetMs = -2_000;
    pass(1);
    await clock.look();
    assert.equal(asked, 6);
    assert.equal(clock.now(), trueMs - 2_000);
    assert.deepEqual(logged, ['clock.corrected']);
  });

  test('after the machine was suspended it is right again with the next look', async () => {
    const clock = await startClock();
    // The monotonic clock stands still meanwhile.
    trueMs += hour;
    machine.step(hour);
    await clock.look();
    assert.equal(clock.now(), trueMs);
    assert.deepEqual(logged, []);
  });

  test('the shortest of three round trips counts, and the error bound is what it proves', async () => {
    trips = [
      [4_000, 0],
      [10, 20],
      [0, 3_000],
    ];
    machine.step(30_000);
    const clock = await startClock();
    assert.ok(Math.abs(clock.now() - trueMs) <= 15);
    assert.ok(Math.abs(clock.status().offsetMs - 30_000) <= 15);
    // A link with one slow direction makes a right clock look wrong by half of the way.
    pass(minute);
    const before = clock.now() - trueMs;
    trips = Array.from({ length: 3 }, () => [5_000, 0]);
    await clock.look();
    assert.equal(clock.now() - trueMs, before);
  });

  test('a database that is away changes nothing, and is asked again with the next look', async () => {
    machine.step(30_000);
    let isAway = false;
    const clock = await startClock(() => (isAway ? Promise.reject(new Error('away')) : readDatabaseMs()));
    isAway = true;
    for (let n = 0; n < 2; n += 1) {
      pass(minute);
      await clock.look();
      assert.equal(clock.now(), trueMs);
    }
    assert.deepEqual(logged, ['clock.corrected', 'clock.check-failed', 'clock.check-failed']);
    isAway = false;
    machine.step(-30_000);
    await clock.look();
    assert.equal(clock.status().state, 'synchronized');
  });

  test('a start fails when the database cannot be asked', async () => {
    const clock = new DatabaseClock({ machine, logger: silentLogger });
    await assert.rejects(
      clock.start(() => Promise.reject(new Error('away'))),
      /away/,
    );
  });
});
