import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RemovalTurns } from './removal-turns.ts';
import type { Tx } from './store.ts';

const open = new AbortController().signal;

/** Transactions that end when they are told to. */
function manualTransactions() {
  const begun: (() => void)[] = [];
  const transaction = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
    await new Promise<void>((resolve) => begun.push(resolve));
    return work({} as Tx);
  };
  return { begun, transaction };
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

test('batches take turns, and the store is left alone between two for as long as the first one took', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let nowMs = 0;
  context.mock.method(performance, 'now', () => nowMs);
  const { begun, transaction } = manualTransactions();
  const removals = new RemovalTurns({ transaction });
  const first = removals.transaction(open, async () => 'first');
  const second = removals.transaction(open, async () => 'second');
  await settled();
  assert.equal(begun.length, 1);
  nowMs = 20;
  begun[0]?.();
  assert.equal(await first, 'first');
  context.mock.timers.tick(19);
  await settled();
  assert.equal(begun.length, 1);
  context.mock.timers.tick(1);
  await settled();
  assert.equal(begun.length, 2);
  begun[1]?.();
  assert.equal(await second, 'second');
});

test('one that fails, or is aborted in line, leaves its turn to the next', async () => {
  const removals = new RemovalTurns({ transaction: (work) => work({} as Tx) });
  const stopped = new AbortController();
  const failed = removals.transaction(open, () => Promise.reject(new Error('disk full')));
  const aborted = removals.transaction(stopped.signal, () => assert.fail('it does not begin'));
  const last = removals.transaction(open, async () => 'done');
  stopped.abort(new Error('the service stops'));
  await assert.rejects(failed, /disk full/);
  await assert.rejects(aborted, /the service stops/);
  assert.equal(await last, 'done');
});
