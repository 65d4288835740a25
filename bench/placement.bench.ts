/**
 * What it costs to have the code of many deployments at hand: processes, time and memory. Each row names the level of the
 * sandbox and whether deployments share the processes of their owner, or have one each as they had before (`isolated`).
 *
 * - `first call`: of a deployment that no process has yet, beside warm ones of its owner.
 * - `due at once`: deployments that are called in the same moment, as timers due in the same second are; twice in a row, so that the
 *   second time those of them that found room are warm.
 * - `idle`: what deployments that were called once hold while nothing happens.
 *
 * Run: npm run bench -- placement [--deployments 1000] [--owners 1,100] [--levels kernel,seat-belt]
 */
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { AddressPolicy } from '#egress/address-policy.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { createProcessRunner, type ProcessRunnerOptions } from '#runner/process-runner.ts';
import type { Bundle, CallRequest, Runner } from '#runner/runner.ts';
import { treeUsage } from './support/process-tree.ts';

const { values: options } = parseArgs({
  options: {
    deployments: { type: 'string', default: '1000' },
    owners: { type: 'string', default: '1,100' },
    levels: { type: 'string', default: 'kernel,seat-belt' },
    /** Deployments that have a process each; more would take minutes. */
    isolated: { type: 'string', default: '100' },
  },
});

const code = `
module.exports = { name: 'tick', props: { db: '$.service.db' }, run(event) {
  const count = this.db.get('count') ?? 0;
  this.db.set('count', count + 1);
  this.$emit(event, { id: count, summary: 'a tick' });
} };`;
const bundle: Bundle = { hash: createHash('sha256').update(code).digest('hex'), code, format: 'cjs' };
const event = '{"timestamp":1700000000,"interval_seconds":60}';

interface Deployment {
  id: string;
  ownerId: string;
  isolated: boolean;
}

function call(runner: Runner, { id, ownerId, isolated }: Deployment) {
  const request: CallRequest = {
    ...{ deploymentId: id, ownerId, isolated, bundle, revision: 1 },
    call: { kind: 'run', event },
    ...{ props: {}, db: { count: '41' }, deadlineMs: 120_000 },
  };
  return runner.call(request);
}

function deploymentsOf(count: number, owners: number, isolated = false): Deployment[] {
  return Array.from({ length: count }, (_, i) => ({ id: `dc_${i}`, ownerId: `u_${i % owners}`, isolated }));
}

function quantile(times: readonly number[], q: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

const shown = (ms: number): string => (ms < 10 ? ms.toFixed(2) : ms.toFixed(0));

/** Calls all of them in the same moment. */
async function allAtOnce(runner: Runner, deployments: readonly Deployment[]) {
  const startedAt = performance.now();
  const before = treeUsage(process.pid).cpuUs;
  let failed = 0;
  const times = await Promise.all(
    deployments.map(async (deployment) => {
      const outcome = await call(runner, deployment);
      if (outcome.status !== 'finished') failed += 1;
      return performance.now() - startedAt;
    }),
  );
  return {
    'p50 ms': shown(quantile(times, 0.5)),
    'p99 ms': shown(quantile(times, 0.99)),
    'last ms': shown(Math.max(...times)),
    'CPU ms': Math.round((treeUsage(process.pid).cpuUs - before) / 1000),
    failed,
  };
}

async function withRunner<T>(level: ProcessRunnerOptions['level'], use: (runner: Runner) => Promise<T>) {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
  const runner = await createProcessRunner({
    level,
    policy: new AddressPolicy({ allow: ['public'], deny: () => [] }),
    ...{ folder, logger: silentLogger, clock: systemClock },
    limits: { waitingMax: 100_000, waitMs: 120_000 },
  });
  try {
    return await use(runner);
  } finally {
    await runner.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Memory of the processes that run user code. */
function memory(): string {
  const { pssMb, rootRssMb, processes } = treeUsage(process.pid);
  return `${processes - 1} processes, ${Math.round(Math.max(0, pssMb - rootRssMb))} MB`;
}

const owners = options.owners.split(',').map(Number);
const count = Number(options.deployments);
for (const level of options.levels.split(',') as ('kernel' | 'seat-belt')[]) {
  const setting = level === 'kernel' ? 'require' : 'seat-belt';
  await withRunner(setting, async (runner) => {
    const first: number[] = [];
    const warm: number[] = [];
    await call(runner, { id: 'dc_warm', ownerId: 'u_0', isolated: false });
    for (const deployment of deploymentsOf(200, 1)) {
      for (const times of [first, warm]) {
        const startedAt = performance.now();
        await call(runner, deployment);
        times.push(performance.now() - startedAt);
      }
    }
    const row = (times: number[]) =>
      `p50 ${shown(quantile(times, 0.5))}, p99 ${shown(quantile(times, 0.99))} ms`;
    console.log(
      `${runner.stats().level}: first call in a warm process ${row(first)}; warm call ${row(warm)}`,
    );
  });
  const rows: object[] = [];
  for (const [deployments, shared, of] of [
    ...owners.map((number) => [deploymentsOf(count, number), true, number] as const),
    [deploymentsOf(Number(options.isolated), 1, true), false, 1] as const,
  ]) {
    await withRunner(setting, async (runner) => {
      const what = {
        level,
        deployments: deployments.length,
        owners: of,
        processes: shared ? 'shared' : 'one each',
      };
      for (const time of ['first', 'again'])
        rows.push({ ...what, time, ...(await allAtOnce(runner, deployments)), holds: memory() });
    });
  }
  console.table(rows);
}
