import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, mock, test } from 'node:test';
import { BytePace } from './byte-pace.ts';

describe('a pace of bytes', () => {
  let nowMs = 0;
  let isFree = false;
  const makePace = (atOnce = 0) =>
    new BytePace({ perSecond: 1_000, atOnce, nowMs: () => nowMs, isFree: () => isFree });
  const pass = (ms: number) => {
    nowMs += ms;
    mock.timers.tick(ms);
  };
  /** Begins what moves so many bytes; `begun` has its name when its turn comes. */
  const begin = (pace: BytePace, who: string, bytes: number, begun: string[], name = who) =>
    pace.turn(who, () => {
      begun.push(name);
      return bytes;
    });

  beforeEach(() => {
    nowMs = 0;
    isFree = false;
    mock.timers.enable({ apis: ['setTimeout'] });
  });
  afterEach(() => mock.timers.reset());

  test('who owes nothing begins at once, whatever the size; who owes waits until time has paid, in order', async () => {
    const pace = makePace();
    const begun: string[] = [];
    assert.equal(begin(pace, 'a', 500, begun, 'a1'), undefined);
    const second = begin(pace, 'a', 200, begun, 'a2');
    const third = begin(pace, 'a', 0, begun, 'a3');
    assert.equal(begin(pace, 'b', 900, begun), undefined, 'what one owes is no other one to pay for');
    assert.deepEqual(begun, ['a1', 'b']);
    pass(499);
    assert.deepEqual(begun, ['a1', 'b']);
    pass(2);
    await second;
    assert.deepEqual(begun, ['a1', 'b', 'a2']);
    pass(202);
    await third;
    assert.deepEqual(begun, ['a1', 'b', 'a2', 'a3']);
    assert.equal(pace.owes('a'), false);
  });

  test('what is not moved after all is not owed, and lets the next one begin', async () => {
    const pace = makePace();
    const begun: string[] = [];
    begin(pace, 'a', 800, begun, 'a1');
    const next = begin(pace, 'a', 0, begun, 'a2');
    pace.owe('a', -800);
    await next;
    assert.deepEqual(begun, ['a1', 'a2']);
  });

  test('more than a second of bytes is forgiven', () => {
    const pace = makePace();
    pace.owe('a', 60_000);
    assert.equal(pace.owesMost('a'), true);
    pass(200);
    assert.equal(pace.owesMost('a'), false);
    assert.equal(pace.owes('a'), true);
    pass(801);
    assert.equal(pace.owes('a'), false);
  });

  test('what may be owed at once makes nothing wait', () => {
    const pace = makePace(300);
    pace.owe('a', 300);
    assert.equal(pace.owes('a'), false);
    pace.owe('a', 1);
    assert.equal(pace.owes('a'), true);
    pass(1);
    assert.equal(pace.owes('a'), false);
  });

  test('nothing waits while there is none to wait for, nor after the end', async () => {
    const pace = makePace();
    const begun: string[] = [];
    pace.owe('a', 1_000);
    const waiting = begin(pace, 'a', 1_000, begun, 'a1');
    isFree = true;
    assert.equal(pace.owes('a'), false);
    pass(1_001);
    await waiting;
    isFree = false;
    const last = begin(pace, 'a', 0, begun, 'a2');
    pace.close();
    await last;
    assert.equal(begin(pace, 'a', 1_000, begun, 'a3'), undefined);
    assert.deepEqual(begun, ['a1', 'a2', 'a3']);
  });

  test('those that owe nothing are forgotten, and those that owe or wait are not', () => {
    const pace = makePace();
    pace.owe('debtor', 1_000);
    for (let n = 0; n < 5_000; n += 1) pace.owe(`passer-by ${n}`, 0);
    assert.equal(pace.owes('debtor'), true);
  });
});
