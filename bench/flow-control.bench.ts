import { parseArgs } from 'node:util';
import { Millrace } from '../test/support/millrace.ts';
import { startPostgres } from '../test/support/postgres-server.ts';
import { createTempFolder } from '../test/support/temp-folder.ts';
import { waitFor } from '../test/support/wait-for.ts';

/**
 * Bursts against workflows with flow control, sent to two nodes on one PostgreSQL in turns (or to one on SQLite). For each control: how
 * long the burst takes to be accepted and to be over, and whether a limit was broken or an event lost. `none` is the same without flow control.
 */
const { values: options } = parseArgs({
  options: {
    cases: { type: 'string', default: 'none,concurrency,throttle,singleton,replace,debounce,batch' },
    connections: { type: 'string', default: '32' },
    events: { type: 'string', default: '10000' },
    keys: { type: 'string', default: '20' },
    /** postgres: a server started for this run, on the same machine; or sqlite. */
    store: { type: 'string', default: 'postgres' },
  },
});
const events = Number(options.events);
const keys = Number(options.keys);
const key = '{{steps.trigger.event.body.key}}';
const concurrencyLimit = 5;
const throttle = { limit: 50, seconds: 1 };
const batchMax = 50;
/** Between letting a run begin and its first step: how much later a busy node may begin one run than another. */
const jitterMs = 1_000;

const controls: Record<string, object | null> = {
  none: null,
  concurrency: { concurrency: { limit: concurrencyLimit, key } },
  throttle: { throttle: { ...throttle, key } },
  singleton: { singleton: { mode: 'skip', key } },
  replace: { singleton: { mode: 'replace', key } },
  debounce: { debounce: { seconds: 2, max_wait_seconds: 60, key } },
  batch: { batch: { max_events: batchMax, max_seconds: 2, key } },
};

const postgres = options.store === 'postgres' ? await startPostgres() : undefined;
const folders = await Promise.all(
  (postgres === undefined ? ['a'] : ['a', 'b']).map((name) => createTempFolder(name)),
);
const nodes: Millrace[] = [];
try {
  for (const folder of folders)
    nodes.push(
      await Millrace.start({
        dataFolder: folder.path,
        ...(postgres === undefined ? {} : { databaseUrl: postgres.url }),
        environment: {
          MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
          MILLRACE_RUNS_KEPT: String(3 * events),
        },
      }),
    );
  process.stdout.write(`${events} events, ${keys} keys, ${nodes.length} node(s), ${options.store}\n`);
  for (const name of options.cases.split(',')) await measure(name, controls[name] ?? null);
} finally {
  for (const node of nodes) await node.stop();
  for (const folder of folders) await folder.remove();
  await postgres?.stop();
}

// biome-ignore lint/suspicious/noExplicitAny: runs of every shape.
type Run = any;

async function measure(name: string, flow_control: object | null): Promise<void> {
  const [first] = nodes;
  if (first === undefined) throw new Error('no node');
  const workflow = await first.createWorkflow({
    steps: [{ namespace: 'a', code: 'export default { async run() { return 1; } }' }],
    triggers: [{ type: 'http' }],
    settings: { flow_control },
  });
  const path = new URL(workflow.triggers[0].endpoint_url).pathname;
  const begun = performance.now();
  let next = 0;
  let accepted = 0;
  const sender = async () => {
    while (next < events) {
      const n = next++;
      const answer = await fetch(`${nodes[n % nodes.length]?.url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        // Half of all events are of one key.
        body: JSON.stringify({ n, key: `k${n % 2 === 0 ? 0 : n % keys}` }),
      });
      await answer.arrayBuffer();
      if (answer.status === 200) accepted += 1;
    }
  };
  await Promise.all(Array.from({ length: Number(options.connections) }, sender));
  const acceptedMs = performance.now() - begun;
  const totals = async () => (await first.api('GET', `/v1/workflows/${workflow.id}/queue`)).body.data;
  const unfinished = async () => {
    let count = 0;
    for (const state of ['queued', 'running'])
      count += (await first.api('GET', `/v1/workflows/${workflow.id}/runs?limit=1&state=${state}`)).body
        .page_info.total_count;
    return count;
  };
  await waitFor(async () => (await unfinished()) === 0, { what: `${name} to be over`, timeoutMs: 1_200_000 });
  const overMs = performance.now() - begun;
  const runs = await allRuns(first, workflow.id);
  const { totals: counts } = await totals();
  const problems = problemsOf(name, { runs, accepted, counts });
  process.stdout.write(
    `${name.padEnd(12)} accepted ${accepted} in ${seconds(acceptedMs)}, over after ${seconds(overMs)}; ` +
      `${JSON.stringify(counts)}; ${problems.length === 0 ? 'nothing broken, nothing lost' : problems.join('; ')}\n`,
  );
}

async function allRuns(service: Millrace, workflowId: string): Promise<Run[]> {
  const runs: Run[] = [];
  for (let after = ''; ; ) {
    const { body } = await service.api(
      'GET',
      `/v1/workflows/${workflowId}/runs?limit=100${after === '' ? '' : `&after=${after}`}`,
    );
    runs.push(...body.data);
    after = body.page_info.end_cursor;
    if (body.data.length < 100) return runs;
  }
}

/** What was broken or lost. Keys are not in lists of runs, so limits by key are checked by their sum over all keys. */
function problemsOf(
  name: string,
  { runs, accepted, counts }: { runs: Run[]; accepted: number; counts: Record<string, number> },
): string[] {
  const problems: string[] = [];
  const { started = 0, skipped = 0, replaced = 0, debounced = 0, batched = 0 } = counts;
  const of = (...states: string[]) => runs.filter(({ state }) => states.includes(state)).length;
  const expectSame = (what: string, found: number, expected: number) => {
    if (found !== expected) problems.push(`${what}: ${found} instead of ${expected}`);
  };
  if (name === 'batch') expectSame('events in batches', batched, accepted);
  else expectSame('runs', runs.length, accepted);
  if (['none', 'concurrency', 'throttle'].includes(name)) expectSame('succeeded', of('succeeded'), accepted);
  if (name === 'singleton') expectSame('skipped and started', skipped + started, accepted);
  if (name === 'replace') expectSame('replaced', of('not_triggered', 'cancelled'), replaced);
  if (name === 'debounce') expectSame('debounced and started', debounced + started, accepted);
  const most = mostAtOnce(runs);
  if (name === 'concurrency' && most > concurrencyLimit * keys) problems.push(`${most} runs at once`);
  if (name === 'throttle') {
    const begun = mostWithin(runs, throttle.seconds * 1000);
    const allowed = throttle.limit * keys * (1 + jitterMs / (throttle.seconds * 1000));
    if (begun > allowed) problems.push(`${begun} runs began within a period`);
  }
  return problems;
}

function mostAtOnce(runs: readonly Run[]): number {
  const times = runs.flatMap(({ started_at, ended_at }) =>
    started_at === null
      ? []
      : [
          { at: Date.parse(started_at), change: 1 },
          { at: Date.parse(ended_at), change: -1 },
        ],
  );
  times.sort((one, other) => one.at - other.at || one.change - other.change);
  let now = 0;
  let most = 0;
  for (const { change } of times) {
    now += change;
    most = Math.max(most, now);
  }
  return most;
}

function mostWithin(runs: readonly Run[], periodMs: number): number {
  const starts = runs
    .flatMap(({ started_at }) => (started_at === null ? [] : [Date.parse(started_at)]))
    .sort((a, b) => a - b);
  let most = 0;
  let from = 0;
  for (const [index, at] of starts.entries()) {
    while ((starts[from] ?? at) <= at - periodMs) from += 1;
    most = Math.max(most, index - from + 1);
  }
  return most;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
