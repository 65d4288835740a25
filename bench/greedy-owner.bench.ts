/**
 * What an owner notices of another who takes all it can get: workflows that sleep, that spin and that fill their memory, each called again
 * when its call has ended. The other owner has one warm deployment, which is called all the time. Beside it, deployments of owners
 * who had none are called for the first time, and code is described, as a deploy does. The first row is the baseline.
 *
 * Run: npm run bench -- greedy-owner [--sleeping 500] [--spinning 100] [--hungry 50] [--seconds 20] [--level kernel]
 */
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { AddressPolicy } from '#egress/address-policy.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { createProcessRunner } from '#runner/process-runner.ts';
import type { Bundle, Runner } from '#runner/runner.ts';
import { treeUsage } from './support/process-tree.ts';

const { values: options } = parseArgs({
  options: {
    sleeping: { type: 'string', default: '500' },
    spinning: { type: 'string', default: '100' },
    hungry: { type: 'string', default: '50' },
    /** Duration of each row. */
    seconds: { type: 'string', default: '20' },
    level: { type: 'string', default: 'kernel' },
  },
});
const seconds = Number(options.seconds);

const bodies = {
  quick: `this.$emit(event, { summary: 'a tick' });`,
  sleeping: 'await new Promise((resolve) => setTimeout(resolve, 60_000));',
  spinning: 'for (;;);',
  hungry: `const kept = []; for (let n = 0; n < 200; n += 1) { kept.push(Buffer.alloc(2 ** 20, 1)); await new Promise(setImmediate); }
    await new Promise((resolve) => setTimeout(resolve, 60_000)); return kept.length;`,
};
type Kind = keyof typeof bodies;

function bundleOf(kind: Kind): Bundle {
  const code = `module.exports = { name: '${kind}', props: {}, async run(event) { ${bodies[kind]} } };`;
  return { hash: createHash('sha256').update(code).digest('hex'), code, format: 'cjs' };
}

/** The deadline of the greedy owner's calls, so that each row has some that end. */
const deadlineMs = 10_000;

async function call(runner: Runner, ownerId: string, deploymentId: string, kind: Kind): Promise<string> {
  const { status, error } = await runner.call({
    ...{ deploymentId, ownerId, bundle: bundleOf(kind), revision: 1, props: {}, db: {} },
    call: { kind: 'run', event: '{}' },
    deadlineMs: kind === 'quick' ? 60_000 : deadlineMs,
  });
  return error?.code ?? status;
}

function quantile(times: readonly number[], q: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

const shown = (ms: number): string => (ms < 10 ? ms.toFixed(2) : ms.toFixed(0));

async function timed<T>(times: number[], work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const result = await work();
  times.push(performance.now() - startedAt);
  return result;
}

/** What others notice for so many seconds. */
async function neighbours(runner: Runner, name: string): Promise<object> {
  const warm: number[] = [];
  const first: number[] = [];
  const described: number[] = [];
  const loop = monitorEventLoopDelay({ resolution: 5 });
  loop.enable();
  let failed = 0;
  const endAt = performance.now() + seconds * 1000;
  const until = async (everyMs: number, work: () => Promise<boolean>) => {
    while (performance.now() < endAt) {
      if (!(await work())) failed += 1;
      await delay(everyMs);
    }
  };
  let owners = 0;
  await Promise.all([
    until(10, async () => {
      return (await timed(warm, () => call(runner, 'u_other', 'dc_other', 'quick'))) === 'finished';
    }),
    until(1000, async () => {
      owners += 1;
      const ownerId = `u_${name}_${owners}`;
      return (await timed(first, () => call(runner, ownerId, `dc_${ownerId}`, 'quick'))) === 'finished';
    }),
    until(1000, async () => {
      const describing = () => runner.describe({ ownerId: 'u_other', bundle: bundleOf('quick') });
      return (await timed(described, describing)).status === 'described';
    }),
  ]);
  const of = runner.processes().processes.filter(({ ownerId }) => ownerId === 'u_greedy');
  const { pssMb, rootRssMb, processes } = treeUsage(process.pid);
  return {
    while: name,
    'warm p50': shown(quantile(warm, 0.5)),
    'warm p99': shown(quantile(warm, 0.99)),
    'first p50': shown(quantile(first, 0.5)),
    'first max': shown(Math.max(...first)),
    'describe p50': shown(quantile(described, 0.5)),
    'describe max': shown(Math.max(...described)),
    'loop p99': shown(loop.percentile(99) / 1e6 - 5),
    failed,
    'its processes': of.length,
    all: `${processes - 1}, ${Math.round(pssMb - rootRssMb)} MB`,
  };
}

const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
const runner = await createProcessRunner({
  level: options.level === 'kernel' ? 'require' : 'seat-belt',
  policy: new AddressPolicy({ allow: ['public'], deny: () => [] }),
  ...{ folder, logger: silentLogger, clock: systemClock },
});
let over = false;
const outcomes = new Map<string, number>();
try {
  await call(runner, 'u_other', 'dc_other', 'quick');
  await call(runner, 'u_greedy', 'dc_greedy', 'quick');
  const rows = [await neighbours(runner, 'alone')];
  for (const kind of ['sleeping', 'spinning', 'hungry'] as const) {
    const count = Number(options[kind]);
    for (let n = 0; n < count; n += 1) {
      void (async () => {
        while (!over) {
          const outcome = await call(runner, 'u_greedy', `dc_${kind}_${n}`, kind);
          outcomes.set(`${kind}: ${outcome}`, (outcomes.get(`${kind}: ${outcome}`) ?? 0) + 1);
          await delay(100);
        }
      })();
    }
    rows.push(await neighbours(runner, `${count} ${kind}${kind === 'sleeping' ? '' : ' more'}`));
  }
  console.table(rows);
  console.log('how calls of the greedy owner ended:', Object.fromEntries(outcomes));
} finally {
  over = true;
  await runner.close();
  await rm(folder, { recursive: true, force: true });
}
