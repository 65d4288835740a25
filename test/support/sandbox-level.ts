import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { BuilderWalls } from '#components/builder-walls.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { systemClock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import { findKernelPrograms } from '#runner/bubblewrap-command.ts';
import { createProcessRunner } from '#runner/process-runner.ts';
import type { KernelPrograms } from '#runner/sandbox-grant.ts';

const levelVariable = 'MILLRACE_TEST_SANDBOX';
const skipVariable = 'MILLRACE_TEST_KERNEL_SKIP';

/** The level of the sandbox that runners of this test file have. */
export function levelOfTests(): 'kernel' | 'seat-belt' {
  return process.env[levelVariable] === 'kernel' ? 'kernel' : 'seat-belt';
}

/** Walls around builder processes, as high as the level of this test file. */
export function wallsOfTests(folder: string): BuilderWalls {
  const walls = new BuilderWalls();
  if (levelOfTests() !== 'kernel') return walls;
  const tools = findKernelPrograms(folder);
  if (typeof tools === 'string') throw new Error(tools);
  walls.raise(tools);
  return walls;
}

/** The same with filters that allow every call: BPF_RET with SECCOMP_RET_ALLOW. */
export function withOpenFilter(tools: KernelPrograms, folder: string): KernelPrograms {
  const filter = join(folder, 'open.bpf');
  writeFileSync(filter, Buffer.from([6, 0, 0, 0, 0, 0, 0xff, 0x7f]));
  return { ...tools, filter, filterWithPrograms: filter };
}

/** Why tests at the kernel level cannot run here, which `npm test` finds out once for all files; false where they can. */
export async function kernelSkip(): Promise<string | false> {
  const known = process.env[skipVariable];
  if (known !== undefined) return known === '' ? false : known;
  const reason = await findReason();
  process.env[skipVariable] = reason === false ? '' : reason;
  return reason;
}

/** `MILLRACE_SANDBOX` of services under test: the best there is, knowing that it may be the seat belt. */
export function sandboxOfServices(): 'auto' | 'seat-belt' {
  return process.env[skipVariable] === '' ? 'auto' : 'seat-belt';
}

async function findReason(): Promise<string | false> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  try {
    const runner = await createProcessRunner({
      level: 'require',
      policy: new AddressPolicy({ allow: ['public'], deny: () => [] }),
      ...{ folder, logger: silentLogger, clock: systemClock },
      limits: { prewarmed: 0 },
    });
    await runner.close();
    return false;
  } catch (error) {
    return toError(error).message;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Does what starts runners at one level, in a file whose tests are about both. */
export async function runAtLevel<T>(level: 'kernel' | 'seat-belt', work: () => Promise<T>): Promise<T> {
  const before = process.env[levelVariable];
  process.env[levelVariable] = level;
  try {
    return await work();
  } finally {
    if (before === undefined) delete process.env[levelVariable];
    else process.env[levelVariable] = before;
  }
}

/** Runs the tests of another file at the kernel level; where that does not work, one test says so that is skipped. */
export async function runAtKernelLevel(load: () => Promise<unknown>): Promise<void> {
  const skip = await kernelSkip();
  if (skip !== false) test('these tests at the kernel level of the sandbox', { skip }, () => {});
  else {
    process.env[levelVariable] = 'kernel';
    await load();
  }
}
