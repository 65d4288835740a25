import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { mock, test } from 'node:test';
import { getHeapSpaceStatistics } from 'node:v8';
import { releaseStartMemory } from './release-start-memory.ts';

const windowMs = 5_000;

/** Says in turn which share of each window the event loop was at work. */
function withLoad(shares: readonly number[], then: (tick: () => void) => void): void {
  const left = [...shares];
  mock.timers.enable({ apis: ['setInterval'] });
  const loop = mock.method(performance, 'eventLoopUtilization', (since?: object) => ({
    ...{ idle: 0, active: 0 },
    utilization: since === undefined ? 0 : (left.shift() ?? 0),
  }));
  try {
    then(() => mock.timers.tick(windowMs));
  } finally {
    loop.mock.restore();
    mock.timers.reset();
  }
}

test('the memory of the start is released once, in the first window without work', () => {
  withLoad([0.9, 0.2, 0.05, 0, 0], (tick) => {
    const said: unknown[] = [];
    let collections = 0;
    releaseStartMemory({ debug: (...line: unknown[]) => said.push(line[1]) }, () => {
      collections += 1;
    });
    const counts = Array.from({ length: 5 }, () => {
      tick();
      return collections;
    });
    assert.deepEqual(counts, [0, 0, 1, 1, 1]);
    assert.deepEqual(said, ['service.start-memory-released']);
  });
});

test('a service that is busy from its start on keeps its memory, also when it is idle later', () => {
  withLoad(
    Array.from({ length: 60 }, () => 0.5),
    (tick) => {
      let collections = 0;
      releaseStartMemory({ debug: () => {} }, () => {
        collections += 1;
      });
      for (let windows = 0; windows < 70; windows += 1) tick();
      assert.equal(collections, 0);
    },
  );
});

test('a service that stops is not held up', () => {
  withLoad([0], (tick) => {
    let collections = 0;
    const end = releaseStartMemory({ debug: () => {} }, () => {
      collections += 1;
    });
    end();
    tick();
    assert.equal(collections, 0);
  });
});

test('the heap is smaller after it', () => {
  const kept: object[] = [];
  // What survives makes V8 grow the part of the heap for new objects.
  for (let made = 0; made < 2_000_000; made += 1) {
    const value = { made };
    if (made % 4 === 0) kept.push(value);
  }
  const grownTo = newSpaceBytes();
  assert.ok(grownTo > 8e6, `${grownTo}`);
  kept.length = 0;
  withLoad([0], (tick) => {
    releaseStartMemory({ debug: () => {} });
    tick();
  });
  assert.ok(newSpaceBytes() < grownTo / 4, `${grownTo} -> ${newSpaceBytes()}`);
  assert.equal(typeof (globalThis as { gc?: unknown }).gc, 'undefined', 'no function is left behind');
});

function newSpaceBytes(): number {
  const space = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space');
  return space?.space_size ?? 0;
}
