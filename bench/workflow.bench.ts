import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres-server.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { startPlainServer } from './baselines.ts';
import { failuresOf, type LoadResult, runLoad } from './support/load.ts';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';

/**
 * Workflows through their HTTP trigger, each finished step on disk before the next one starts.
 *
 * - `steps`: three code steps, the last of which answers; a request is a whole run.
 * - `js`: one code step that answers, against plain node:http in the same run.
 * - `overhead`: what one more step costs, at one request at a time: runs of eleven steps against runs of one.
 * - `suspended`: thousands of suspended runs: memory while they wait, and how long it takes until one has continued.
 */
const { values: options } = parseArgs({
  options: {
    cases: { type: 'string', default: 'js,steps,overhead,suspended' },
    connections: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '3' },
    suspended: { type: 'string', default: '10000' },
    /** sqlite, or postgres: a server started for this run, on the same machine. */
    store: { type: 'string', default: 'sqlite' },
  },
});
const seconds = Number(options.seconds);
const rounds = Number(options.rounds);

const plainStep = `export default defineComponent({ async run({ steps }) { return { seen: Object.keys(steps).length }; } })`;
const answerStep = `export default defineComponent({
  async run({ steps, $ }) {
    await $.respond({ status: 200, headers: { 'content-type': 'application/json' }, body: { ok: true, number: steps.trigger.event.body.number } });
  },
})`;
const suspendStep = `export default defineComponent({
  async run({ $ }) { const { resume_url } = $.flow.suspend(3_600_000); await $.respond({ status: 200, body: resume_url, immediate: true }); },
})`;

/** 1 kB of JSON; the zeroes become the number of the request. */
const body = JSON.stringify({ number: '000000000000', text: 'x'.repeat(970) });

const postgres = options.store === 'postgres' ? await startPostgres() : undefined;
const plain = await startPlainServer();
try {
  const service = await startService(postgres ? { MILLRACE_DATABASE_URL: postgres.url } : {});
  try {
    // The prewarmed pool fills after the service is ready.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const cases = options.cases.split(',');
    const connections = options.connections.split(',').map(Number);
    if (cases.includes('js')) for (const c of connections) await throughput(service, 'js', 1, c);
    if (cases.includes('steps')) for (const c of connections) await throughput(service, 'steps', 3, c);
    if (cases.includes('overhead')) await stepOverhead(service);
    if (cases.includes('suspended')) await suspendedRuns(service, Number(options.suspended));
  } finally {
    await service.stop();
  }
} finally {
  await plain.close();
  await postgres?.stop();
}

interface Workflow {
  id: string;
  endpointUrl: string;
}

async function createWorkflow(service: Service, codes: readonly string[]): Promise<Workflow> {
  const answer = (await service.api('POST', '/workflows', {
    steps: codes.map((code, index) => ({ namespace: `step_${index + 1}`, code })),
    triggers: [{ type: 'http', props: { custom_response: true } }],
    settings: { name: `bench ${codes.length}`, auto_deploy: true },
  })) as { data: { id: string; triggers: { endpoint_url: string }[] } };
  return { id: answer.data.id, endpointUrl: answer.data.triggers[0]?.endpoint_url ?? '' };
}

async function throughput(service: Service, name: string, steps: number, connections: number): Promise<void> {
  const codes = [...Array.from({ length: steps - 1 }, () => plainStep), answerStep];
  const workflow = await createWorkflow(service, codes);
  const load = (url: string, forSeconds: number) => runLoad({ url, connections, seconds: forSeconds, body });
  await load(workflow.endpointUrl, 1);
  await load(plain.url, 1);
  const ours: LoadResult[] = [];
  const theirs: LoadResult[] = [];
  let cpuUs = 0;
  for (let round = 0; round < rounds; round += 1) {
    theirs.push(await load(plain.url, seconds));
    const before = treeUsage(service.pid).cpuUs;
    ours.push(await load(workflow.endpointUrl, seconds));
    cpuUs += treeUsage(service.pid).cpuUs - before;
  }
  const median = medianOf(ours);
  const plainMedian = medianOf(theirs);
  const requests = ours.reduce((sum, { requests: count }) => sum + count, 0);
  console.table([
    {
      case: name,
      store: options.store,
      c: connections,
      'runs per s': Math.round(median.perSecond),
      'steps recorded per s': Math.round(median.perSecond * steps),
      'of plain node:http': (median.perSecond / plainMedian.perSecond).toFixed(3),
      'plain per s': Math.round(plainMedian.perSecond),
      'p50 ms': median.p50Ms.toFixed(2),
      'p99 ms': median.p99Ms.toFixed(1),
      'CPU µs/run': Math.round(cpuUs / Math.max(1, requests)),
      notes: [...new Set(ours.map(failuresOf))].join('; '),
    },
  ]);
  await service.api('DELETE', `/workflows/${workflow.id}`);
}

/** One request at a time, so that nothing waits for anything but its own steps and their commits. */
async function stepOverhead(service: Service): Promise<void> {
  const more = 10;
  const few = await createWorkflow(service, [answerStep]);
  const many = await createWorkflow(service, [...Array.from({ length: more }, () => plainStep), answerStep]);
  const results: Record<string, LoadResult[]> = { few: [], many: [] };
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, workflow] of Object.entries({ few, many })) {
      const result = await runLoad({ url: workflow.endpointUrl, connections: 1, seconds, body });
      if (round > 0) results[name]?.push(result);
    }
  }
  const [one, eleven] = [medianOf(results.few ?? []), medianOf(results.many ?? [])];
  console.table([
    {
      case: 'overhead',
      store: options.store,
      'run of 1 step, p50 ms': one.p50Ms.toFixed(2),
      [`run of ${more + 1} steps, p50 ms`]: eleven.p50Ms.toFixed(2),
      'each further step, p50 ms': ((eleven.p50Ms - one.p50Ms) / more).toFixed(3),
      notes: [one, eleven].map(failuresOf).join('; '),
    },
  ]);
  for (const { id } of [few, many]) await service.api('DELETE', `/workflows/${id}`);
}

async function suspendedRuns(service: Service, count: number): Promise<void> {
  const workflow = await createWorkflow(service, [suspendStep, plainStep]);
  const before = treeUsage(service.pid);
  const started = performance.now();
  const urls: string[] = [];
  const suspendSome = async () => {
    while (urls.length < count) {
      const response = await fetch(workflow.endpointUrl, { method: 'POST', body: '{}' });
      urls.push(await response.text());
    }
  };
  await Promise.all(Array.from({ length: 16 }, suspendSome));
  const suspendedMs = performance.now() - started;
  // Idle: what waiting costs is memory alone.
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const idleFrom = treeUsage(service.pid);
  await new Promise((resolve) => setTimeout(resolve, 3000));
  const after = treeUsage(service.pid);
  const latencies: number[] = [];
  for (const url of urls.slice(0, 100)) {
    const runId = url.split('/').at(-3) ?? '';
    const from = performance.now();
    await fetch(url, { method: 'POST' });
    await waitFor(async () => (await stateOf(service, runId)) === 'succeeded', {
      timeoutMs: 30_000,
      what: `run ${runId} to continue`,
    });
    latencies.push(performance.now() - from);
  }
  latencies.sort((a, b) => a - b);
  console.table([
    {
      case: 'suspended',
      store: options.store,
      runs: urls.length,
      'suspended per s': Math.round((urls.length / suspendedMs) * 1000),
      'RSS of the server before, MB': Math.round(before.rootRssMb),
      'with them, MB': Math.round(after.rootRssMb),
      'CPU while they wait, %': (((after.cpuUs - idleFrom.cpuUs) / 3_000_000) * 100).toFixed(1),
      'resume to end p50 ms': (latencies[49] ?? 0).toFixed(1),
      'p99 ms': (latencies[98] ?? 0).toFixed(1),
    },
  ]);
}

async function stateOf(service: Service, runId: string): Promise<string> {
  const answer = (await service.api('GET', `/runs/${runId}?include=state`)) as { data: { state: string } };
  return answer.data.state;
}

/** The median round by throughput stands for all. */
function medianOf(results: readonly LoadResult[]): LoadResult {
  const sorted = [...results].sort((a, b) => a.perSecond - b.perSecond);
  const median = sorted[Math.floor(sorted.length / 2)];
  if (median === undefined) throw new Error('at least one round is needed');
  return median;
}
