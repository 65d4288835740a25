import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { RunnerTimer } from './runner-timer.ts';
import { SignOfLife } from './sign-of-life.ts';

/** A timer that a test lets go off. */
function timerByHand() {
  let goOff = () => {};
  const timer: RunnerTimer = {
    nowMs: () => 0,
    after: (_, callback) => {
      goOff = callback;
      return () => {
        goOff = () => {};
      };
    },
    every: () => () => {},
  };
  return { timer, goOff: () => goOff() };
}

test('a process that gives no sign of life in time is missing one until it gives it', async () => {
  const { timer, goOff } = timerByHand();
  let asked = 0;
  const sign = new SignOfLife(timer, () => {
    asked += 1;
  });
  const answers = [sign.comesWithin(250), sign.comesWithin(250)];
  assert.equal(asked, 1);
  goOff();
  assert.deepEqual(await Promise.all(answers), [false, false]);
  assert.equal(sign.isMissing, true);
  sign.heard();
  assert.equal(sign.isMissing, false);
  const again = sign.comesWithin(250);
  sign.heard();
  assert.equal(await again, true);
});

test('a sign of life that waits to be read, because the service was busy, has come in time', async () => {
  const { timer, goOff } = timerByHand();
  const frames = new PassThrough();
  const sign = new SignOfLife(timer, () => {});
  frames.on('data', () => sign.heard());
  const answer = sign.comesWithin(250);
  goOff();
  frames.write('pong');
  assert.equal(await answer, true);
  assert.equal(sign.isMissing, false);
});
