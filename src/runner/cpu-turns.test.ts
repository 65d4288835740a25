import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CpuTurns, type TakesTurns } from './cpu-turns.ts';

/** A process as the system would have it: what is paused wants nothing. */
class Process implements TakesTurns {
  readonly name: string;
  isBusy = true;
  isPaused = false;

  constructor(name: string) {
    this.name = name;
  }

  keepsCoreBusy(): boolean {
    return this.isBusy && !this.isPaused;
  }

  pause(): void {
    this.isPaused = true;
  }

  unpause(): void {
    this.isPaused = false;
  }
}

function turnsOf(cores: number, names: string) {
  const turns = new CpuTurns<Process>(cores);
  const processes = [...names].map((name) => new Process(name));
  // Capitals are of another owner.
  const ownerOf = (name: string) => (name === name.toLowerCase() ? 'u_one' : 'u_other');
  for (const process of processes) turns.add(process, ownerOf(process.name));
  const running = () =>
    processes
      .filter(({ isPaused }) => !isPaused)
      .map(({ name }) => name)
      .join('');
  return { turns, processes, running };
}

test('as many run as there are cores, and each gets its turn', () => {
  const { turns, running } = turnsOf(2, 'abcde');
  const seen = Array.from({ length: 6 }, () => {
    turns.next();
    return running();
  });
  assert.deepEqual(seen, ['de', 'ab', 'cd', 'ae', 'bc', 'de']);
});

test('owners take turns, however many processes one of them has', () => {
  const { turns, running } = turnsOf(1, 'Xabc');
  const seen = Array.from({ length: 8 }, () => {
    turns.next();
    return running();
  });
  assert.equal(seen.filter((name) => name === 'X').length, 4, seen.join());
});

test('no more than there are cores: none is paused, and no turn is needed', () => {
  const { turns, running } = turnsOf(2, 'ab');
  assert.equal(turns.isNeeded, false);
  turns.next();
  assert.equal(running(), 'ab');
});

test('what only waits is not paused, and takes no turn from others', () => {
  const { turns, processes, running } = turnsOf(1, 'abc');
  const [a] = processes;
  if (a !== undefined) a.isBusy = false;
  const seen = Array.from({ length: 3 }, () => {
    turns.next();
    return running();
  });
  assert.deepEqual(seen, ['ac', 'ab', 'ac']);
});

test('what is greedy no longer, or has ended, runs and makes room', () => {
  const { turns, processes, running } = turnsOf(1, 'ab');
  turns.next();
  assert.equal(running(), 'b');
  const [a, b] = processes;
  if (a !== undefined) turns.delete(a);
  assert.equal(running(), 'ab');
  assert.equal(turns.isNeeded, false);
  if (b !== undefined) turns.delete(b);
  assert.equal(running(), 'ab');
});

test('what is added again while it is paused stays paused until its turn', () => {
  const { turns, processes, running } = turnsOf(1, 'ab');
  turns.next();
  const [a] = processes;
  if (a !== undefined) turns.add(a, 'u_one');
  assert.equal(running(), 'b');
  turns.next();
  assert.equal(running(), 'a');
});
