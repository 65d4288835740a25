import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BodyTurns } from './body-turns.ts';

const MB = 1024 * 1024;
const isGone = () => false;

/** Large bodies that wait for their turns, with a clock that moves only by `pass`. */
function waitingBodies(t: test.TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const turns = new BodyTurns({ largeBytes: 64 * 1024, callersAtOnce: 4, nowMs: () => 0 });
  const begun: string[] = [];
  return {
    turns,
    begun,
    send: (caller: string, bytes: number, name = caller) =>
      void turns.begin({ caller, bytes, isGone }).then(() => begun.push(name)),
    pass: async (ms: number) => {
      // What a turn lets begin needs some steps of promises.
      for (let n = 0; n < 10; n += 1) await Promise.resolve();
      for (let passed = 0; passed < ms; passed += 1) {
        t.mock.timers.tick(1);
        for (let n = 0; n < 10; n += 1) await Promise.resolve();
      }
    },
  };
}

test('the bodies of a caller are read one after the other, ten megabytes in a second', async (t) => {
  const { send, pass, begun } = waitingBodies(t);
  for (const name of ['1', '2', '3']) send('u_1', MB, name);
  await pass(0);
  assert.deepEqual(begun, ['1']);
  await pass(99);
  assert.deepEqual(begun, ['1']);
  await pass(1);
  assert.deepEqual(begun, ['1', '2']);
  await pass(100);
  assert.deepEqual(begun, ['1', '2', '3']);
});

test('the bodies of a caller hold up those of no other', async (t) => {
  const { send, pass, begun } = waitingBodies(t);
  for (let n = 0; n < 400; n += 1) send('u_1', MB);
  send('u_2', MB);
  await pass(0);
  assert.deepEqual(begun, ['u_1', 'u_2']);
});

test('it is the turn of so many callers at the same time, and a turn is a second at most', async (t) => {
  const { send, pass, begun } = waitingBodies(t);
  for (const caller of ['a', 'b', 'c', 'd', 'e', 'a']) send(caller, 64 * MB);
  await pass(999);
  assert.deepEqual(begun, ['a', 'b', 'c', 'd']);
  await pass(1);
  assert.deepEqual(begun, ['a', 'b', 'c', 'd', 'e', 'a']);
});

test('a body whose size is known when it was read delays the next turn', async (t) => {
  const { send, pass, begun, turns } = waitingBodies(t);
  send('u_1', 0, '1');
  await pass(1);
  turns.wasRead({ caller: 'u_1', given: 0, bytes: 5 * MB, ms: 1 });
  send('u_1', 0, '2');
  await pass(499);
  assert.deepEqual(begun, ['1']);
  await pass(1);
  assert.deepEqual(begun, ['1', '2']);
});

test('a body that took longer to read than its size says delays the next turn by that', async (t) => {
  const { send, pass, begun, turns } = waitingBodies(t);
  send('u_1', MB, '1');
  await pass(100);
  turns.wasRead({ caller: 'u_1', given: MB, bytes: MB, ms: 30 });
  send('u_1', MB, '2');
  await pass(199);
  assert.deepEqual(begun, ['1']);
  await pass(1);
  assert.deepEqual(begun, ['1', '2']);
});

test('a body that does not say its size waits for no other caller', async (t) => {
  const { send, pass, begun } = waitingBodies(t);
  for (const caller of ['a', 'b', 'c', 'd']) send(caller, MB);
  send('e', 0);
  await pass(0);
  assert.deepEqual(begun.toSorted(), ['a', 'b', 'c', 'd', 'e']);
});

test('bodies whose senders have gone take no time, and those of a caller that wait are limited', async (t) => {
  const { turns, pass } = waitingBodies(t);
  const begin = () => turns.begin({ caller: 'u_1', bytes: MB, isGone: () => true });
  const all = Array.from({ length: 500 }, begin);
  await assert.rejects(begin(), {
    code: 'bodies_busy',
    details: { limit: 500, retry_after: 5, reset_at: 5 },
  });
  await turns.begin({ caller: 'u_2', bytes: MB, isGone });
  for (let n = 0; n < 500; n += 1) await pass(1);
  await Promise.all([...all, begin()]);
});

test('bodies from a size on are large ones, and those that do not say their size may be', () => {
  const turns = new BodyTurns({ largeBytes: 65_536, callersAtOnce: 4 });
  assert.equal(turns.bytesOf({ headers: {} }), undefined);
  assert.equal(turns.bytesOf({ headers: { 'content-length': '65535' } }), undefined);
  assert.equal(turns.bytesOf({ headers: { 'content-length': '65536' } }), 65_536);
  assert.equal(turns.bytesOf({ headers: { 'transfer-encoding': 'chunked' } }), 0);
});
