import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { type Backlog, BacklogLimiter, type BacklogLimiterOptions } from './backlog-limiter.ts';
import { Deferred } from './deferred.ts';

/** Bytes. */
const one = 10;

describe('BacklogLimiter', () => {
  /** What the store holds, by key, and how often it was asked. */
  let stored: Map<string, Backlog>;
  let asked: number;
  let nowMs: number;
  /** Set: the store answers when it resolves. */
  let answers: Deferred<void> | undefined;

  beforeEach(() => {
    stored = new Map();
    asked = 0;
    nowMs = 1_000_000;
    answers = undefined;
  });

  /** Three may wait, and a hundred bytes. */
  function limiter(options: Partial<BacklogLimiterOptions<number, Backlog>> = {}) {
    return new BacklogLimiter<number>({
      bytesOf: (bytes) => bytes,
      countStored: async (key) => {
        asked += 1;
        const amount = { ...(stored.get(key) ?? { count: 0, bytes: 0 }) };
        await answers?.promise;
        return amount;
      },
      nothing: () => ({ count: 0, bytes: 0 }),
      hasRoom: ({ count, bytes }, _request, factor) => count < 3 * factor && bytes < 100 * factor,
      nowMs: () => nowMs,
      ...options,
    });
  }

  const admitted = async (limit: BacklogLimiter<number>, count: number, key = 'a') => {
    const results = await Promise.all(Array.from({ length: count }, () => limit.admit(key, one)));
    return results.filter(Boolean).length;
  };

  test('admits what the store leaves room for, with one count for all that come at once', async () => {
    const limit = limiter();
    stored.set('a', { count: 1, bytes: 10 });
    assert.equal(await admitted(limit, 5), 2);
    assert.equal(await admitted(limit, 5), 0);
    assert.equal(asked, 1);
    assert.equal(await admitted(limit, 1, 'b'), 1);
  });

  test('bytes are bounded too', async () => {
    const limit = limiter();
    stored.set('a', { count: 1, bytes: 95 });
    assert.equal(await admitted(limit, 5), 1);
  });

  test('counts again after a second, after longer when it counted much, and when the clock stepped back', async () => {
    const limit = limiter({ hasRoom: ({ count }) => count < 100_000 });
    assert.equal(await admitted(limit, 1), 1);
    nowMs += 999;
    await admitted(limit, 1);
    assert.equal(asked, 1);
    nowMs += 1;
    stored.set('a', { count: 20_000, bytes: 1 });
    await admitted(limit, 1);
    assert.equal(asked, 2);
    nowMs += 1_999;
    await admitted(limit, 1);
    assert.equal(asked, 2);
    nowMs += 1;
    await admitted(limit, 1);
    assert.equal(asked, 3);
    nowMs -= 3_600_000;
    await admitted(limit, 1);
    assert.equal(asked, 4);
  });

  test('a count that fails is reported to all who wait for it, and done again for the next', async () => {
    let isAway = true;
    const limit = limiter({
      countStored: async () => {
        if (isAway) throw new Error('away');
        return { count: 0, bytes: 0 };
      },
    });
    await assert.rejects(limit.admit('a', one), /away/);
    isAway = false;
    assert.equal(await admitted(limit, 1), 1);
  });

  test('with recountsBeforeRefusal, what has left the store since the count makes room immediately', async () => {
    const limit = limiter({ recountsBeforeRefusal: true });
    assert.equal(await admitted(limit, 3), 3);
    assert.equal(await admitted(limit, 1), 1);
    assert.equal(asked, 2);
  });

  test('what is not stored yet counts until it is settled', async () => {
    const limit = limiter({ recountsBeforeRefusal: true, tracksUnstored: true });
    assert.equal(await admitted(limit, 3), 3);
    assert.equal(await admitted(limit, 1), 0);
    limit.settled('a', one);
    assert.equal(await admitted(limit, 2), 1);
    nowMs += 60_000;
    assert.equal(await admitted(limit, 1), 0);
  });

  describe('at once, without waiting for the store', () => {
    test('an unknown key gets its limit, and is counted in the background', async () => {
      const limit = limiter();
      stored.set('a', { count: 2, bytes: 20 });
      assert.equal(limit.admitWithoutWaiting('a', one), true);
      await limit.counted();
      // Two in the store, and one that was admitted while the store counted.
      assert.equal(limit.admitWithoutWaiting('a', one), false);
    });

    test('keys are counted one after another', async () => {
      const limit = limiter();
      answers = new Deferred<void>();
      for (const key of ['a', 'b', 'c']) limit.admitWithoutWaiting(key, one);
      assert.equal(asked, 1);
      answers.resolve();
      await limit.counted();
      assert.equal(asked, 3);
    });

    test('an expired count allows as much again, and is refreshed; a full store allows nothing', async () => {
      const limit = limiter();
      for (let n = 0; n < 3; n += 1) assert.equal(limit.admitWithoutWaiting('a', one), true);
      await limit.counted();
      stored.set('a', { count: 3, bytes: 30 });
      assert.equal(limit.admitWithoutWaiting('a', one), false);
      nowMs += 1_000;
      answers = new Deferred<void>();
      const again = [1, 2, 3, 4].map(() => limit.admitWithoutWaiting('a', one));
      assert.deepEqual(again, [true, true, true, false]);
      answers.resolve();
      await limit.counted();
      nowMs += 1_000;
      assert.equal(limit.admitWithoutWaiting('a', one), false);
      await limit.counted();
      // Now nothing was admitted since the count, which is old again.
      nowMs += 1_000;
      assert.equal(limit.admitWithoutWaiting('a', one), false);
      await limit.counted();
    });

    test('a store that is away changes nothing', async () => {
      const limit = limiter({ countStored: () => Promise.reject(new Error('away')) });
      assert.equal(limit.admitWithoutWaiting('a', one), true);
      await limit.counted();
      assert.equal(limit.admitWithoutWaiting('a', one), true);
    });
  });

  test('keys that are unused for a minute are dropped, unless something of them is unstored', async () => {
    const limit = limiter({ tracksUnstored: true });
    for (let n = 0; n < 1_000; n += 1) await limit.admit(`k${n}`, one);
    for (let n = 1; n < 1_000; n += 1) limit.settled(`k${n}`, one);
    nowMs += 60_001;
    await limit.admit('new', one);
    stored.set('k0', { count: 0, bytes: 0 });
    // One job of k0 is on its way; that of k1 is not remembered.
    assert.deepEqual([await admitted(limit, 3, 'k0'), await admitted(limit, 3, 'k1')], [2, 3]);
  });
});
