import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { processMemory } from '#runner/process-memory.ts';
import {
  componentWith,
  type RunnerFixture,
  resultOf,
  startRunnerFixture,
} from '../support/runner-fixture.ts';
import { levelOfTests } from '../support/sandbox-level.ts';
import { waitFor } from '../support/wait-for.ts';
import { addResult } from './attack-results.ts';
import { AttackSurroundings } from './attack-surroundings.ts';
import { type Exhaustion, exhaustions } from './attacks/exhaustion.ts';

const level = levelOfTests();
const memoryMb = 96;
const bounds = { memoryMb, scratchBytesMax: 1024 * 1024, memoryPollMs: 10 };
/** More than a process may have of it. */
const excess = {
  memoryBytes: 2 * memoryMb * 2 ** 20,
  ms: 300,
  files: 20_000,
  fileBytes: 2 ** 20,
  outputBytes: 4 * 2 ** 20,
};
/**
 * A neighbour may wait so many times longer than in quiet times, and this long on any machine. The bounds are wide because other tests share
 * the cores meanwhile: a warm call of milliseconds then takes seconds now and then without any attack. `npm run bench -- greedy-service` has the figures of
 * a quiet machine.
 */
const neighbour = { slower: 20, floorMs: 1000 };
/** Between two of its calls, which cost more than the attack if they follow each other at once. */
const neighbourPauseMs = 50;

let surroundings: AttackSurroundings;
let fixture: RunnerFixture;
let quietMs: number[];
const besideMs: number[] = [];

before(async () => {
  surroundings = await AttackSurroundings.make();
  fixture = await startRunnerFixture({ policy: surroundings.policy, limits: bounds });
  await callNeighbour();
  quietMs = [];
  for (let i = 0; i < 40; i += 1) quietMs.push(await callNeighbour());
});
after(async () => {
  await fixture?.close();
  await surroundings?.close();
});

for (const attack of exhaustions)
  test(`${attack.class}: ${attack.name}`, async () => {
    const { n = 0, exceeds } = attack;
    // Without any wall there are no levels: the file of the seat belt proves it for both.
    const isProvedThere = typeof exceeds === 'string' && level === 'kernel';
    const proved =
      isProvedThere ||
      (typeof exceeds === 'string'
        ? await exceedsBare(attack, exceeds)
        : await isAccepted(attack, exceeds.n));
    assert.ok(proved, 'it takes as much as it likes without a bound, and less is accepted');
    const said = await besideNeighbour(say(attack, n));
    assert.equal(fixture.runner.stats().level, level);
    const expected = [level === 'kernel' ? attack.kernel : attack.seatBelt].flat();
    addResult({ class: attack.class, level, held: expected.includes(said), proved });
    assert.ok(expected.includes(said), `it ends as ${said}, expected ${expected}`);
  });

test('calls of another owner continued meanwhile', () => {
  const [quiet, beside] = [percentile(quietMs, 0.9), percentile(besideMs, 0.9)];
  const boundMs = Math.max(neighbour.slower * quiet, neighbour.floorMs);
  addResult({ class: 'exhaustion: a neighbour', level, held: beside <= boundMs, proved: true });
  assert.ok(besideMs.length >= exhaustions.length);
  assert.ok(beside <= boundMs, `p90 ${beside} ms, ${quiet} ms in quiet times`);
});

let attackers = 0;
/** How the code ends, in a process of its own. */
async function say(attack: Exhaustion, n: number): Promise<string> {
  attackers += 1;
  const deploymentId = `dc_attacker_${attackers}`;
  const deadlineMs = attack.exceeds === 'time' ? excess.ms : 150_000;
  const outcome = await fixture.run(bodyOf(attack, n, '/tmp'), { deploymentId, deadlineMs });
  await fixture.runner.forget(deploymentId);
  if (outcome.status === 'threw') return String(outcome.error?.code ?? outcome.error?.name);
  return outcome.status;
}

function bodyOf({ code }: Exhaustion, n: number, folder: string): string {
  const { P } = surroundings.values;
  return `const fs = require('fs'); const T = ${JSON.stringify(folder)}; const P = ${JSON.stringify(P)}; const n = ${n}; const started = () => fs.writeSync(1, 'started'); ${code}`;
}

const neighbourCode = componentWith('return 1;');
async function callNeighbour(): Promise<number> {
  const from = performance.now();
  const outcome = await fixture.call(neighbourCode, { ownerId: 'u_neighbour', deploymentId: 'dc_neighbour' });
  assert.equal(resultOf(outcome), 1);
  return performance.now() - from;
}

/** Makes calls of another owner until the attack is over. */
async function besideNeighbour<T>(attack: Promise<T>): Promise<T> {
  let isOver = false;
  const outcome = attack.finally(() => {
    isOver = true;
  });
  do {
    besideMs.push(await callNeighbour());
    await Promise.race([outcome, delay(neighbourPauseMs)]);
  } while (!isOver);
  return outcome;
}

async function isAccepted(attack: Exhaustion, n: number): Promise<boolean> {
  return (await say(attack, n)) === 'finished';
}

/** True when the code takes more than a process may have, in Node without any wall. It is killed then. */
async function exceedsBare(attack: Exhaustion, exceeds: string): Promise<boolean> {
  const folder = await mkdtemp('/var/tmp/millrace-own-');
  const script = `(async function () { ${bodyOf(attack, 0, folder)} })();`;
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'pipe'], env: {} });
  const ended = once(child, 'exit');
  const output = { bytes: 0, startedMs: 0 };
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output.bytes += chunk.length;
      output.startedMs ||= performance.now();
    });
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  try {
    // Each look costs the kernel some milliseconds, so they become rarer.
    await waitFor(async () => isOver() || hasExceeded(exceeds, child, folder, output), {
      what: `too much: ${exceeds}`,
    });
    return !isOver() || hasExceeded(exceeds, child, folder, output);
  } finally {
    child.kill('SIGKILL');
    await ended;
    await rm(folder, { recursive: true, force: true });
  }
}

function hasExceeded(
  exceeds: string,
  { pid = 0 }: ChildProcess,
  folder: string,
  output: { bytes: number; startedMs: number },
): boolean {
  if (exceeds === 'memory') return (processMemory(pid)?.residentBytes ?? 0) > excess.memoryBytes;
  if (exceeds === 'time') return output.startedMs > 0 && performance.now() - output.startedMs > excess.ms;
  if (exceeds === 'output') return output.bytes > excess.outputBytes;
  const names = readdirSync(folder);
  if (names.length > excess.files) return true;
  const some = names.slice(0, 200);
  return some.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0) > excess.fileBytes;
}

function percentile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.POSITIVE_INFINITY;
}
