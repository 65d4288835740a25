/**
 * What users of a service notice of another owner who takes all it can get: workflows that sleep, that spin and that fill their memory, each
 * requested again when its run has ended, and deploys of code that is large and whose evaluation never ends. The other owner has one warm
 * source that answers requests, and deploys a new source now and then. The first row is the baseline; each row adds to the one before.
 * `greedy-owner` measures the same without service and store.
 *
 * Run: npm run bench -- greedy-service [--sleeping 500] [--spinning 100] [--hungry 50] [--builds 100] [--seconds 10] [--level kernel]
 */
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { deployAnswering, makeWorkspace, quantile, shown } from './support/answering-source.ts';
import { GreedyClient, statusOf } from './support/greedy-client.ts';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';

const { values: options } = parseArgs({
  options: {
    sleeping: { type: 'string', default: '500' },
    spinning: { type: 'string', default: '100' },
    hungry: { type: 'string', default: '50' },
    builds: { type: 'string', default: '100' },
    /** Duration of each row. */
    seconds: { type: 'string', default: '10' },
    level: { type: 'string', default: 'kernel' },
    /** Memory of all processes of user code, MB; default: as the service decides. */
    memory: { type: 'string', default: '' },
  },
});
const seconds = Number(options.seconds);
const settleMs = 2_000;
const deployEveryMs = 1_000;

const stepBodies = {
  sleeping: 'await new Promise((resolve) => setTimeout(resolve, 20_000));',
  spinning: 'for (;;);',
  hungry: `const kept = []; for (let n = 0; n < 200; n += 1) { kept.push(Buffer.alloc(2 ** 20, 1)); await new Promise(setImmediate); }
    await new Promise((resolve) => setTimeout(resolve, 20_000)); return kept.length;`,
};
type Kind = keyof typeof stepBodies;

function count(outcomes: Map<string, number>, outcome: string): void {
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
}

/** The endpoint of a workflow whose caller waits until its run has ended. */
async function createWorkflow(service: Service, orgId: string, kind: Kind): Promise<string> {
  const code = `export default defineComponent({ async run() { ${stepBodies[kind]} } })`;
  const { data } = (await service.api('POST', '/workflows', {
    org_id: orgId,
    steps: [{ namespace: 'step_1', code }],
    triggers: [{ type: 'http', props: { custom_response: true } }],
    settings: { name: kind, auto_deploy: true, timeout_seconds: 30 },
  })) as { data: { triggers: { endpoint_url: string }[] } };
  return data.triggers[0]?.endpoint_url ?? '';
}

const request = (url: string) => statusOf(fetch(url, { method: 'POST', body: '{}' }));

/** What the other owner notices for so many seconds. */
async function neighbour(service: Service, target: { orgId: string; url: string }, name: string) {
  const warm: number[] = [];
  const deploys: number[] = [];
  const statuses = new Map<string, number>();
  const endAt = performance.now() + seconds * 1000;
  const timed = async (times: number[], everyMs: number, work: () => Promise<string>) => {
    while (performance.now() < endAt) {
      const startedAt = performance.now();
      const status = await work();
      times.push(performance.now() - startedAt);
      if (status !== '200') count(statuses, status);
      await delay(everyMs);
    }
  };
  const before = treeUsage(service.pid).cpuUs;
  const startedAt = performance.now();
  await Promise.all([
    timed(warm, 10, () => request(target.url)),
    timed(deploys, deployEveryMs, () =>
      deployAnswering(service, target.orgId, `${name} ${deploys.length}`).then(
        () => '200',
        (error: Error) => `deploy: ${error.message.slice(0, 100)}`,
      ),
    ),
  ]);
  const usage = treeUsage(service.pid);
  const p99 = quantile(warm, 0.99);
  quietP99 ??= p99;
  console.log(`while ${name}: warm p99 ${shown(p99)} ms, slowest deploy ${shown(Math.max(...deploys))} ms`);
  return {
    while: name,
    'warm p50': shown(quantile(warm, 0.5)),
    'warm p99': shown(p99),
    'times quiet': (p99 / quietP99).toFixed(1),
    requests: warm.length,
    'deploy p50': shown(quantile(deploys, 0.5)),
    'deploy max': shown(Math.max(...deploys)),
    'not 200': [...statuses].map(([status, times]) => `${times} × ${status}`).join(', '),
    'cores used': ((usage.cpuUs - before) / 1000 / (performance.now() - startedAt)).toFixed(1),
    processes: `${usage.processes - 1}, ${Math.round(usage.pssMb - usage.rootRssMb)} MB`,
  };
}
let quietP99: number | undefined;

const service = await startService({
  MILLRACE_SANDBOX: options.level === 'kernel' ? 'require' : 'seat-belt',
  ...(options.memory === '' ? {} : { MILLRACE_PROCESSES_MEMORY: options.memory }),
});
const client = new GreedyClient();
try {
  await client.ready();
  const other = await makeWorkspace(service, 'Other');
  const greedy = await makeWorkspace(service, 'Greedy');
  const url = await deployAnswering(service, other, 'warm');
  const endpoints = new Map<Kind, string>();
  for (const kind of ['sleeping', 'spinning', 'hungry'] as const)
    endpoints.set(kind, await createWorkflow(service, greedy, kind));
  for (let n = 0; n < 50; n += 1) await request(url);
  const target = { orgId: other, url };
  const rows = [await neighbour(service, target, 'alone')];
  for (const kind of ['sleeping', 'spinning', 'hungry'] as const) {
    const times = Number(options[kind]);
    client.add({ name: kind, times, url: endpoints.get(kind) ?? '', headers: {} });
    await delay(settleMs);
    rows.push(await neighbour(service, target, `${times} ${kind}`));
  }
  client.add({
    name: 'build',
    times: Number(options.builds),
    url: `${service.url}/v1/sources/`,
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    build: { orgId: greedy },
  });
  await delay(settleMs);
  rows.push(await neighbour(service, target, `${options.builds} builds`));
  console.table(rows);
  console.log('how requests of the greedy owner ended:', await client.stop());
} finally {
  await service.stop();
}
process.exit();
