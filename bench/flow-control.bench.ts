import { parseArgs } from 'node:util';
import { Millrace } from '../test/support/millrace.ts';
import { startPostgres } from '../test/support/postgres-server.ts';
import { createTempFolder } from '../test/support/temp-folder.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { FlowHistory } from './support/flow-history.ts';
import { subjectsOf } from './support/flow-subjects.ts';
import { type FlowLimits, replayFlow } from './support/replay-flow.ts';

/**
 * Bursts against workflows (with `--of sources`, sources) with flow control, sent to two nodes on one PostgreSQL in turns. For each
 * control: how long the burst takes to be accepted and to be over. PostgreSQL writes down each begin and each end of a run, and the
 * bench fails when, at any instant, a limit was broken, or when an event was lost or a key starved.
 */
const { values: options } = parseArgs({
  options: {
    cases: {
      type: 'string',
      default: 'none,concurrency,throttle,singleton,replace,debounce,batch,priority,rate_limit',
    },
    connections: { type: 'string', default: '32' },
    events: { type: 'string', default: '10000' },
    keys: { type: 'string', default: '20' },
    of: { type: 'string', default: 'workflows' },
  },
});
const { create, eventAt, accountAt, recordsUnbegun, placesMax } = subjectsOf(options.of);
const events = Number(options.events);
const keys = Number(options.keys);
const key = `{{${eventAt}.body.key}}`;
const concurrencyLimit = 5;
const throttle = { limit: 50, seconds: 1 };
const rateLimit = { limit: 200, seconds: 1 };
const batchMax = 50;
/** Maximum time for which runs of a key may wait without one of them that begins: the period of a limit, and what two overloaded nodes need. */
const silenceMsMax = 15_000;

interface Case {
  flowControl: object | null;
  limits?: FlowLimits;
  /** Workflows or sources that share the account of the rate limit; the first one gets three of four events. */
  subjects?: number;
  /** `concurrency` of the sources, if not so many as they may have. */
  places?: number;
}

const cases: Record<string, Case> = {
  none: { flowControl: null },
  concurrency: {
    flowControl: { concurrency: { limit: concurrencyLimit, key } },
    limits: { concurrency: concurrencyLimit, inOrder: true },
  },
  throttle: {
    flowControl: { throttle: { ...throttle, key } },
    limits: { throttle, inOrder: true },
    places: 1,
  },
  singleton: { flowControl: { singleton: { mode: 'skip', key } }, limits: { singleton: true } },
  replace: { flowControl: { singleton: { mode: 'replace', key } }, limits: { singleton: true } },
  debounce: { flowControl: { debounce: { seconds: 2, max_wait_seconds: 60, key } } },
  batch: { flowControl: { batch: { max_events: batchMax, max_seconds: 2, key } } },
  priority: {
    flowControl: {
      concurrency: { limit: concurrencyLimit, key },
      priority: `{{${eventAt}.body.urgency}}`,
    },
    limits: { concurrency: concurrencyLimit, inOrder: true },
  },
  rate_limit: {
    flowControl: {
      concurrency: { limit: 1_000, key },
      rate_limit: { account: accountAt, ...rateLimit },
    },
    limits: { concurrency: 1_000, rateLimit, inOrder: true },
    subjects: 2,
  },
};

const postgres = await startPostgres();
const folders = await Promise.all(['a', 'b'].map((name) => createTempFolder(name)));
const nodes: Millrace[] = [];
let history: FlowHistory | undefined;
try {
  for (const folder of folders)
    nodes.push(
      await Millrace.start({
        dataFolder: folder.path,
        databaseUrl: postgres.url,
        environment: {
          MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
          MILLRACE_RUNS_KEPT: String(3 * events),
        },
      }),
    );
  history = await FlowHistory.record(postgres.url);
  process.stdout.write(`${events} events, ${keys} keys, ${nodes.length} nodes on PostgreSQL\n`);
  for (const name of options.cases.split(',')) {
    const one = cases[name];
    if (one === undefined) throw new Error(`${name}: expected one of ${Object.keys(cases).join(', ')}`);
    await measure(history, name, one);
  }
} finally {
  await history?.end();
  for (const node of nodes) await node.stop();
  for (const folder of folders) await folder.remove();
  await postgres.stop();
}

async function measure(
  store: FlowHistory,
  name: string,
  { flowControl, limits, subjects = 1, places = placesMax }: Case,
) {
  const concurrency = placesMax && places;
  const [first] = nodes;
  if (first === undefined) throw new Error('no node');
  const account = await accountOf(first);
  const ids: string[] = [];
  const paths: string[] = [];
  for (let n = 0; n < subjects; n += 1) {
    const { id, url } = await create(first, { flowControl, account, concurrency });
    ids.push(id);
    paths.push(new URL(url).pathname);
  }
  const begun = performance.now();
  let next = 0;
  let accepted = 0;
  const sender = async () => {
    while (next < events) {
      const n = next++;
      const path = paths[n % 4 === 3 ? paths.length - 1 : 0] ?? '';
      const answer = await fetch(`${nodes[n % nodes.length]?.url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n, key: keyOf(n), urgency: n % 10 === 0 ? 60 : 0 }),
      });
      await answer.arrayBuffer();
      if (answer.status === 200) accepted += 1;
    }
  };
  await Promise.all(Array.from({ length: Number(options.connections) }, sender));
  const acceptedMs = performance.now() - begun;
  await waitFor(async () => (await store.unfinished(ids)) === 0, {
    what: `${name} to be over`,
    timeoutMs: 1_200_000,
  });
  const overMs = performance.now() - begun;
  const steps = await store.take();
  const totals = await store.totals(ids);
  const verdict = replayFlow(steps, {
    ...limits,
    ...(concurrency === undefined || flowControl === null ? {} : { places: concurrency }),
  });
  const problems = [
    ...verdict.broken.slice(0, 3),
    ...lostOf(name, { runs: await store.runs(ids), accepted, totals, unbegun: await store.unbegun(ids) }),
  ];
  const { broken: _, ...most } = verdict;
  if (limits !== undefined && most.longestSilenceMs > silenceMsMax)
    problems.push(`runs of a key waited for ${most.longestSilenceMs} ms and none began`);
  const seen = { ...most, ...totals };
  process.stdout.write(
    `${name.padEnd(12)} accepted ${accepted} in ${seconds(acceptedMs)}, over after ${seconds(overMs)}; ` +
      `${JSON.stringify(seen)}; ${problems.length === 0 ? 'nothing broken, lost or starved' : problems.join('; ')}\n`,
  );
  if (problems.length > 0) process.exitCode = 1;
}

/** Half of all events are of one key. */
function keyOf(n: number): string {
  return `k${n % 2 === 0 ? 0 : n % keys}`;
}

async function accountOf(service: Millrace): Promise<string> {
  const { body } = await service.api('POST', '/v1/accounts', {
    app: 'gitlab',
    name: 'shared',
    credentials: { token: 'glpat-very-secret-token' },
  });
  return body.data.id;
}

interface Run {
  state: string;
  event: string;
}

/** Events that no run or record accounts for. */
function lostOf(
  name: string,
  sent: { runs: Run[]; accepted: number; totals: Record<string, number>; unbegun: number },
): string[] {
  const problems: string[] = [];
  const { runs, accepted, totals } = sent;
  const { started = 0, skipped = 0, replaced = 0, debounced = 0 } = totals;
  const inState = (...states: string[]) => runs.filter(({ state }) => states.includes(state));
  const expectSame = (what: string, found: number, expected: number) => {
    if (found !== expected) problems.push(`${what}: ${found} instead of ${expected}`);
  };
  expectSame('accepted', accepted, events);
  const seen = runs.flatMap(({ event }) => numbersIn(event));
  const unseen = recordsUnbegun ? 0 : skipped + replaced + debounced;
  expectSame('events in runs', new Set(seen).size, accepted - unseen);
  expectSame('events in runs, counted', seen.length, accepted - unseen);
  if (!recordsUnbegun) expectSame('reasons that are kept', sent.unbegun, Math.min(100, unseen));
  const begun = inState('succeeded');
  if (name === 'singleton') {
    expectSame('skipped and started', skipped + started, accepted);
    if (recordsUnbegun) expectSame('recorded as skipped', inState('not_triggered').length, skipped);
    expectSame('keys that ran', new Set(begun.flatMap(({ event }) => keysIn(event))).size, keysSent());
  } else if (name === 'replace') {
    if (recordsUnbegun) expectSame('replaced', inState('not_triggered', 'cancelled').length, replaced);
    expectSame('keys that ran', new Set(begun.flatMap(({ event }) => keysIn(event))).size, keysSent());
  } else if (name === 'debounce') {
    expectSame('debounced and started', debounced + started, accepted);
    expectSame('keys that ran', new Set(begun.flatMap(({ event }) => keysIn(event))).size, keysSent());
  } else expectSame('succeeded', begun.length, runs.length);
  return problems;
}

function keysSent(): number {
  return new Set(Array.from({ length: events }, (_, n) => keyOf(n))).size;
}

function bodiesIn(event: string): { n: number; key: string }[] {
  const { body, events: batch = [] } = JSON.parse(event);
  return [...(body === undefined ? [] : [body]), ...batch.map((one: { body: object }) => one.body)];
}

function numbersIn(event: string): number[] {
  return bodiesIn(event).map(({ n }) => n);
}

function keysIn(event: string): string[] {
  return bodiesIn(event).map((body) => body.key);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
