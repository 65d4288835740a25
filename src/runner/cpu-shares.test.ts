import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CpuLook, CpuShares } from './cpu-shares.ts';

interface Process {
  name: string;
  ownerId: string;
  cpuMs: number;
}

const processOf = (ownerId: string, name: string): Process => ({ name, ownerId, cpuMs: 0 });
/** Passes a second in which each process uses this much, and returns the processes whose priority changes. */
function pass(shares: CpuShares<Process>, used: [Process, usedMs: number, wantsCpu?: boolean][]) {
  const looks: CpuLook<Process>[] = used.map(([process, usedMs, wantsCpu = false]) => {
    process.cpuMs += usedMs;
    return { process, ownerId: process.ownerId, cpuMs: process.cpuMs, wantsCpu };
  });
  return shares
    .look(looks, 1000)
    .filter(({ isChanged }) => isChanged)
    .map(({ process, isGreedy }) => [process.name, isGreedy]);
}

test('processes that keep more than half of the cores busy for one owner get a lower priority than those of others; the rest of its processes do not', () => {
  const shares = new CpuShares<Process>(4);
  const [one, two, third] = [processOf('a', 'one'), processOf('a', 'two'), processOf('a', 'third')];
  const other = processOf('b', 'other');
  assert.deepEqual(pass(shares, [[one, 0], [two, 0], [third, 0], [other, 0]]), []); // biome-ignore format: one look
  assert.deepEqual(pass(shares, [[one, 700], [two, 800], [third, 20], [other, 900]]), []); // biome-ignore format: one look
  assert.deepEqual(pass(shares, [[one, 900], [two, 900], [third, 20], [other, 900]]), [['one', true], ['two', true]]); // biome-ignore format: one look
});

test('a process that spins and gets little time keeps its low priority; one that waits again loses it', () => {
  const shares = new CpuShares<Process>(1);
  const spins = processOf('a', 'spins');
  pass(shares, [[spins, 0]]);
  assert.deepEqual(pass(shares, [[spins, 900, true]]), [['spins', true]]);
  assert.deepEqual(pass(shares, [[spins, 10, true]]), []);
  assert.deepEqual(pass(shares, [[spins, 10, false]]), [['spins', false]]);
});

test('many processes of one owner that each get little time exceed the share together', () => {
  const shares = new CpuShares<Process>(2);
  const all = Array.from({ length: 10 }, (_, n) => processOf('a', `${n}`));
  pass(shares, all.map((process) => [process, 0])); // biome-ignore format: one look
  assert.equal(pass(shares, all.map((process) => [process, 100])).length, 10); // biome-ignore format: one look
});

test('of an owner beyond its share, processes that wait for a core get the lower priority too, however little they have had', () => {
  const shares = new CpuShares<Process>(2);
  const all = Array.from({ length: 50 }, (_, n) => processOf('a', `${n}`));
  const waits = processOf('a', 'waits');
  pass(shares, [...all, waits].map((process) => [process, 0])); // biome-ignore format: one look
  const changed = pass(shares, [...all.map((process): [Process, number, boolean] => [process, 30, true]), [waits, 30]]); // biome-ignore format: one look
  assert.equal(changed.length, 50);
  assert.ok(!changed.some(([name]) => name === 'waits'));
});

test('processor time that a process used before it was first seen is not counted', () => {
  const shares = new CpuShares<Process>(1);
  assert.deepEqual(pass(shares, [[processOf('a', 'old'), 60_000, true]]), []);
});

test('a process that starts for an owner beyond its share has a low priority from its start', () => {
  const shares = new CpuShares<Process>(1);
  const spins = processOf('a', 'spins');
  const begin = (ownerId: string, name: string) => {
    const process = processOf(ownerId, name);
    return { process, isGreedy: shares.begin({ process, ownerId, cpuMs: 0 }) };
  };
  assert.equal(begin('a', 'first').isGreedy, false);
  pass(shares, [[spins, 0]]);
  pass(shares, [[spins, 900, true]]);
  const next = begin('a', 'next');
  assert.deepEqual([next.isGreedy, begin('b', 'other').isGreedy], [true, false]);
  const ended = pass(shares, [[next.process, 10, false]]);
  assert.deepEqual(ended, [['next', false]], 'it was not what kept the cores busy');
  assert.equal(begin('a', 'later').isGreedy, false, 'the owner is within the share again');
});

test('an owner is beyond its share as long as a process that was slowed wants more, however little it gets', () => {
  const shares = new CpuShares<Process>(2);
  const [slowed, next, other] = [processOf('a', 'slowed'), processOf('a', 'next'), processOf('b', 'other')];
  pass(shares, [[slowed, 0], [other, 0]]); // biome-ignore format: one look
  pass(shares, [[slowed, 1_600, true]]);
  assert.equal(shares.begin({ process: next, ownerId: 'a', cpuMs: 0 }), true);
  assert.deepEqual(pass(shares, [[slowed, 10, true], [next, 10, true], [other, 1_500, true]]), [['other', true]]); // biome-ignore format: one look
  assert.equal(shares.begin({ process: processOf('a', 'third'), ownerId: 'a', cpuMs: 0 }), true);
  assert.deepEqual(pass(shares, [[slowed, 0], [next, 0]]), [['slowed', false], ['next', false]]); // biome-ignore format: one look
  assert.equal(shares.begin({ process: processOf('a', 'fourth'), ownerId: 'a', cpuMs: 0 }), false);
});

test('processor time that a process used since it was given to its owner counts at the first look', () => {
  const shares = new CpuShares<Process>(1);
  const process = processOf('a', 'new');
  shares.begin({ process, ownerId: 'a', cpuMs: 0 });
  assert.deepEqual(pass(shares, [[process, 900, true]]), [['new', true]]);
});

test('while owners keep all cores busy together, each has an equal part, however many they are; one who uses less than that keeps its priority', () => {
  const shares = new CpuShares<Process>(2);
  const spinners = Array.from({ length: 6 }, (_, n) => processOf(`o_${n}`, `${n}`));
  const calm = processOf('u_calm', 'calm');
  pass(shares, [...spinners, calm].map((process) => [process, 0])); // biome-ignore format: one look
  const look = (usedMs: number) =>
    pass(shares, [
      [calm, 60],
      ...spinners.map((process): [Process, number, boolean] => [process, usedMs, true]),
    ]);
  assert.deepEqual(look(200), [], 'cores are free');
  assert.deepEqual(look(320), spinners.map(({ name }) => [name, true])); // biome-ignore format: one look
});

test('so many owners that none has a noticeable part of a core get the lower priority too when they want more', () => {
  const shares = new CpuShares<Process>(2);
  const spinners = Array.from({ length: 60 }, (_, n) => processOf(`o_${n}`, `${n}`));
  const calm = processOf('u_calm', 'calm');
  pass(shares, [...spinners, calm].map((process) => [process, 0])); // biome-ignore format: one look
  const changed = pass(shares, [[calm, 20], ...spinners.map((process): [Process, number, boolean] => [process, 32, true])]); // biome-ignore format: one look
  assert.deepEqual(changed, spinners.map(({ name }) => [name, true])); // biome-ignore format: one look
});
