/**
 * Many timer sources that are not due: what they add to a service that has none, in CPU time and in memory of all its processes, after a
 * start on the data folder that has them.
 *
 * Run: npm run bench -- idle-timers [--sources 100000] [--seconds 60] [--sandbox auto]
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';

const { values: options } = parseArgs({
  options: {
    sources: { type: 'string', default: '100000' },
    seconds: { type: 'string', default: '60' },
    sandbox: { type: 'string', default: 'auto' },
  },
});
const count = Number(options.sources);
const seconds = Number(options.seconds);
/** A start ends other work a few seconds after it is ready. */
const settleMs = 20_000;
const makersAtATime = 16;

const code = `export default {
  name: 'bench tick', version: '0.0.1',
  props: { timer: { type: '$.interface.timer', default: { intervalSeconds: 60 } } },
  async run() { this.$emit({ ranAt: Date.now() }); },
};`;

const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
const settings = {
  MILLRACE_DATA: join(folder, 'data'),
  MILLRACE_SANDBOX: options.sandbox,
  MILLRACE_LOG_LEVEL: 'warn',
};
const apiKey = randomBytes(24).toString('base64url');

/** Runs `work` with a service on the folder of this measurement. */
async function withService<T>(work: (service: Service) => Promise<T>): Promise<T> {
  const service = await startService(settings, { apiKey });
  try {
    return await work(service);
  } finally {
    await service.stop();
  }
}

/** A quiet service. */
async function measure({ pid, readyMs }: Service) {
  await delay(settleMs);
  const before = treeUsage(pid).cpuUs;
  await delay(seconds * 1000);
  const { cpuUs, pssMb, rssMb, rootRssMb } = treeUsage(pid);
  return { readyMs, cores: (cpuUs - before) / 1e6 / seconds, pssMb, rssMb, rootRssMb };
}

async function makeSources({ api }: Service): Promise<void> {
  const { data } = (await api('POST', '/components', { component_code: code })) as { data: { id: string } };
  const startedAt = performance.now();
  let made = 0;
  const make = async (): Promise<void> => {
    while (made < count) {
      made += 1;
      // Due once a year, so that none runs meanwhile.
      const configured_props = { timer: { intervalSeconds: 31_536_000 } };
      await api('POST', '/sources', { component_id: data.id, name: `tick ${made}`, configured_props });
    }
  };
  await Promise.all(Array.from({ length: makersAtATime }, make));
  console.log(`${made} sources made in ${Math.round((performance.now() - startedAt) / 1000)} s`);
}

try {
  const none = await withService(measure);
  await withService(makeSources);
  const many = await withService(measure);
  const rowOf = (sources: number, usage: typeof none) => ({
    sources,
    'ready ms': Math.round(usage.readyMs),
    'of one core': `${(usage.cores * 100).toFixed(2)} %`,
    'PSS MB': Math.round(usage.pssMb),
    'RSS MB': Math.round(usage.rssMb),
    'RSS of the service MB': Math.round(usage.rootRssMb),
  });
  console.table([rowOf(0, none), rowOf(count, many)]);
} finally {
  await rm(folder, { recursive: true, force: true });
}
