import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { RunningParts } from './running-parts.ts';

/** Parts whose time passes only when `passes` says so, and what they logged and did, in order. */
function partsUnderTest() {
  const done: string[] = [];
  let nowMs = 1_000;
  const write = (line: string) => {
    const { msg, part } = JSON.parse(line) as { msg: string; part: string };
    done.push(`${msg}: ${part}`);
  };
  const parts = new RunningParts({ logger: pino({}, { write }), limitMs: 8_000, nowMs: () => nowMs });
  return {
    parts,
    done,
    passes: (ms: number) => {
      nowMs += ms;
    },
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('parts stop in the reverse order of their start, once, and one that fails holds up no other', async () => {
  const { parts, done } = partsUnderTest();
  parts.add('a', () => done.push('a'));
  parts.add('b', () => Promise.reject(new Error('x')));
  parts.add('c', () => done.push('c'));
  await Promise.all([parts.stop(), parts.stop()]);
  assert.deepEqual(done, ['c', 'service.part-failed-to-stop: b', 'a']);
});

test('a part that does not stop is left behind by name when the time of all is up, and the store is still closed', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { parts, done, passes } = partsUnderTest();
  const closed = Promise.withResolvers<void>();
  parts.add('store', () => closed.promise.then(() => done.push('store')), { isIndispensable: true });
  parts.add('short', () => done.push('short'));
  parts.add('hangs', () => new Promise(() => {}));
  parts.add('slow', () => passes(5_000));
  const stopped = parts.stop();
  await turn();
  assert.equal(parts.waitingFor, 'hangs');
  t.mock.timers.tick(2_999);
  await turn();
  assert.deepEqual(done, []);
  t.mock.timers.tick(1);
  await turn();
  assert.deepEqual(done, ['service.part-left-behind: hangs', 'short']);
  // However long it takes: without it, what is on disk is unknown.
  t.mock.timers.tick(60_000);
  await turn();
  assert.equal(parts.waitingFor, 'store');
  closed.resolve();
  await stopped;
  assert.equal(done.at(-1), 'store');
  assert.equal(parts.waitingFor, undefined);
});

test('graces count from the beginning of the stop, not from when a part has its turn, in whole ms', async () => {
  const { parts, passes } = partsUnderTest();
  const left: number[] = [];
  parts.add('late', (timeLeft) => left.push(timeLeft(2_000)));
  parts.add('runs', (timeLeft) => {
    left.push(timeLeft(6_000));
    passes(2_000);
  });
  parts.add('mail', () => passes(3_000.4));
  await parts.stop();
  assert.deepEqual(left, [3_000, 0]);
});
