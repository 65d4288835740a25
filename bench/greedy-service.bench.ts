/**
 * What users of a service notice of another owner who takes all it can get: workflows that sleep, that spin and that fill their memory, each
 * requested again when its run has ended, and deploys of code that is large and whose evaluation never ends. The other owner has one warm
 * source that answers requests, and deploys a new source now and then. The first row is the baseline; each row adds to the one before.
 * `greedy-owner` measures the same without service and store. With `--workspaces 40` the workflows are spread over so many workspaces of one user,
 * each of which has shares of its own.
 *
 * Run: npm run bench -- greedy-service [--sleeping 500] [--spinning 100] [--hungry 50] [--builds 100] [--workspaces 1] [--seconds 10]
 *   [--settle 2] [--level kernel]
 */
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { deployAnswering, makeWorkspace, quantile } from './support/answering-source.ts';
import { GreedyClient } from './support/greedy-client.ts';
import { after, type Neighbour, rowOf, watchNeighbour } from './support/neighbour.ts';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';

const { values: options } = parseArgs({
  options: {
    sleeping: { type: 'string', default: '500' },
    spinning: { type: 'string', default: '100' },
    hungry: { type: 'string', default: '50' },
    builds: { type: 'string', default: '100' },
    workspaces: { type: 'string', default: '1' },
    /** Seconds from the beginning of a load to that of its row. 0: the row has that moment too. */
    settle: { type: 'string', default: '2' },
    /** Duration of each row. */
    seconds: { type: 'string', default: '10' },
    level: { type: 'string', default: 'kernel' },
    /** Memory of all processes of user code, MB; default: as the service decides. */
    memory: { type: 'string', default: '' },
  },
});
const seconds = Number(options.seconds);
const settleMs = Number(options.settle) * 1_000;

const stepBodies = {
  sleeping: 'await new Promise((resolve) => setTimeout(resolve, 20_000));',
  spinning: 'for (;;);',
  hungry: `const kept = []; for (let n = 0; n < 200; n += 1) { kept.push(Buffer.alloc(2 ** 20, 1)); await new Promise(setImmediate); }
    await new Promise((resolve) => setTimeout(resolve, 20_000)); return kept.length;`,
};
type Kind = keyof typeof stepBodies;

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

/** The part of `all` that the workspace with this number has. */
function partOf(all: number, n: number, workspaces: number): number {
  return Math.floor(((n + 1) * all) / workspaces) - Math.floor((n * all) / workspaces);
}

/** What the other owner notices for so many seconds, and what that costs. */
async function measure(service: Service, target: Neighbour, name: string) {
  const before = treeUsage(service.pid).cpuUs;
  const startedAt = performance.now();
  const noticed = await watchNeighbour(service, target, name, after(seconds));
  const usage = treeUsage(service.pid);
  quietP99 ??= quantile(noticed.warm, 0.99);
  const row = {
    ...rowOf(noticed, name, quietP99),
    'cores used': ((usage.cpuUs - before) / 1000 / (performance.now() - startedAt)).toFixed(1),
    processes: `${usage.processes - 1}, ${Math.round(usage.pssMb - usage.rootRssMb)} MB`,
  };
  console.log(JSON.stringify(row));
  return row;
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
  const greedyUser = await service.asNewUser('greedy');
  const greedy: string[] = [];
  for (let n = 0; n < Number(options.workspaces); n += 1)
    greedy.push(await makeWorkspace(greedyUser, `Greedy ${n}`));
  const url = await deployAnswering(service, other, 'warm');
  const endpoints: Record<Kind, string[]> = { sleeping: [], spinning: [], hungry: [] };
  for (const kind of ['sleeping', 'spinning', 'hungry'] as const)
    for (const orgId of greedy)
      if (Number(options[kind]) > 0) endpoints[kind].push(await createWorkflow(greedyUser, orgId, kind));
  for (let n = 0; n < 50; n += 1) await fetch(url, { method: 'POST', body: '{}' });
  const target = { orgId: other, url };
  const rows = [await measure(service, target, 'alone')];
  for (const kind of ['sleeping', 'spinning', 'hungry'] as const) {
    const times = Number(options[kind]);
    if (times === 0) continue;
    for (const [n, endpoint] of endpoints[kind].entries())
      client.add({ name: kind, times: partOf(times, n, greedy.length), url: endpoint, headers: {} });
    await delay(settleMs);
    rows.push(await measure(service, target, `${times} ${kind}`));
  }
  const builds = Number(options.builds);
  for (const [n, orgId] of greedy.entries())
    client.add({
      name: 'build',
      times: partOf(builds, n, greedy.length),
      url: `${service.url}/v1/sources/`,
      headers: { authorization: `Bearer ${greedyUser.apiKey}`, 'content-type': 'application/json' },
      build: { orgId },
    });
  await delay(settleMs);
  if (builds > 0) rows.push(await measure(service, target, `${builds} builds`));
  console.table(rows);
  console.log('how requests of the greedy owner ended:', await client.stop());
} finally {
  await service.stop();
}
process.exit();
