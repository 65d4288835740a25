import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pauses } from './pauses.ts';

const partMs = 3;

function work(): void {
  for (const begunMs = performance.now(); performance.now() - begunMs < partMs; );
}

test('long works in parts do one part together in each turn of the loop', async () => {
  let partsInTurn = 0;
  let partsInTurnMax = 0;
  let turns = 0;
  let isOver = false;
  const nextTurn = () => {
    if (isOver) return;
    partsInTurn = 0;
    turns += 1;
    setImmediate(nextTurn);
  };
  const doParts = async () => {
    const pauses = new Pauses();
    for (let part = 0; part < 10; part += 1) {
      partsInTurn += 1;
      // The first part of each is done where it was begun.
      if (part > 0) partsInTurnMax = Math.max(partsInTurnMax, partsInTurn);
      work();
      await pauses.pause();
    }
  };
  const works = [doParts(), doParts(), doParts()];
  setImmediate(nextTurn);
  await Promise.all(works);
  isOver = true;
  assert.ok(turns >= 27, `${turns} turns`);
  assert.equal(partsInTurnMax, 1);
});

test('short parts are done without a pause', () => {
  assert.equal(new Pauses().pause(), undefined);
});
