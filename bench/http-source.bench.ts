import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres-server.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { startPlainServer } from './baselines.ts';
import { failuresOf, type LoadResult, runLoad } from './support/load.ts';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';

/**
 * The main job, through a real HTTP source: a request comes in, user code runs in its sandbox, the event is on disk, the
 * answer goes out. Each round measures plain node:http first, then Millrace, with the same load.
 *
 * - `js`: the component answers (`http.respond`) and emits the body.
 * - `js-no-emit`: the component answers and emits nothing.
 * - `accept-only`: Millrace answers as soon as the request is on disk; the component emits the body afterwards.
 */
const { values: options } = parseArgs({
  options: {
    cases: { type: 'string', default: 'js,accept-only' },
    connections: { type: 'string', default: '16,64' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '3' },
    /** sqlite, or postgres: a server started for this run, on the same machine. */
    store: { type: 'string', default: 'sqlite' },
  },
});
const seconds = Number(options.seconds);
const rounds = Number(options.rounds);
const warmUpSeconds = 1;

const components: Record<string, string> = {
  js: `export default {
    name: 'bench js', version: '0.0.1',
    props: { http: { type: '$.interface.http', customResponse: true } },
    async run(event) {
      this.http.respond({ status: 200, headers: { 'content-type': 'application/json' }, body: { ok: true, number: event.body.number } });
      this.$emit(event.body);
    },
  };`,
  'js-no-emit': `export default {
    name: 'bench js-no-emit', version: '0.0.1',
    props: { http: { type: '$.interface.http', customResponse: true } },
    async run(event) {
      this.http.respond({ status: 200, headers: { 'content-type': 'application/json' }, body: { ok: true, number: event.body.number } });
    },
  };`,
  'accept-only': `export default {
    name: 'bench accept-only', version: '0.0.1',
    props: { http: '$.interface.http' },
    async run(event) { this.$emit(event.body); },
  };`,
};

/** 1 kB of JSON; the zeroes become the number of the request (a string: JSON knows no leading zeroes). */
const body = JSON.stringify({ number: '000000000000', text: 'x'.repeat(970) });

interface Row {
  case: string;
  c: number;
  'per s': number;
  'plain per s': number;
  ratio: string;
  'p50 ms': string;
  'p99 ms': string;
  'plain p50/p99 ms': string;
  'CPU µs/req': number;
  'plain CPU µs/req': number;
  'drain s': string;
  notes: string;
}

const postgres = options.store === 'postgres' ? await startPostgres() : undefined;
const plain = await startPlainServer();
try {
  const service = await startService(postgres ? { MILLRACE_DATABASE_URL: postgres.url } : {});
  try {
    // The prewarmed pool fills after the service is ready.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const idle = treeUsage(service.pid);
    console.log(
      `store ${options.store}, ready after ${Math.round(service.readyMs)} ms; idle: ${idle.processes} processes, ` +
        `RSS ${Math.round(idle.rootRssMb)} MB server, ${Math.round(idle.rssMb)} MB all, PSS ${Math.round(idle.pssMb)} MB all`,
    );
    const rows: Row[] = [];
    for (const name of options.cases.split(',')) {
      const code = components[name];
      if (code === undefined)
        throw new Error(`no case ${name}; the cases are ${Object.keys(components).join(', ')}`);
      for (const connections of options.connections.split(',').map(Number)) {
        rows.push(await measureCase(service, name, code, connections));
      }
    }
    console.table(rows);
    const loaded = treeUsage(service.pid);
    console.log(
      `after the load: RSS ${Math.round(loaded.rootRssMb)} MB server, ${Math.round(loaded.rssMb)} MB all, PSS ${Math.round(loaded.pssMb)} MB all`,
    );
  } finally {
    await service.stop();
  }
} finally {
  await plain.close();
  await postgres?.stop();
}

interface Round {
  load: LoadResult;
  cpuUs: number;
}

async function measureCase(service: Service, name: string, code: string, connections: number): Promise<Row> {
  const source = await createSource(service, `${name}-${connections}`, code);
  const warmUp = await runLoad({ url: source.endpointUrl, connections, seconds: warmUpSeconds, body });
  await runLoad({ url: plain.url, connections, seconds: warmUpSeconds, body });
  let firstNumber = warmUp.nextNumber;
  const notes = new Set<string>();
  const plainRounds: Round[] = [];
  const ourRounds: Round[] = [];
  let drainSeconds = 0;
  for (let round = 0; round < rounds; round += 1) {
    plainRounds.push(await measureRound(plain.pid, { url: plain.url, connections, firstNumber: 1 }));
    const ours = await measureRound(
      service.pid,
      { url: source.endpointUrl, connections, firstNumber },
      async (load) => {
        const start = performance.now();
        if (name !== 'js-no-emit') await waitUntilEmitted(service, source.id, load.nextNumber - 1);
        drainSeconds += (performance.now() - start) / 1000;
      },
    );
    firstNumber = ours.load.nextNumber;
    ourRounds.push(ours);
    const failures = failuresOf(ours.load);
    if (failures !== '') notes.add(failures);
  }
  if (name !== 'js-no-emit') {
    const numbers = await retainedNumbers(service, source.id);
    const duplicates = numbers.length - new Set(numbers).size;
    if (duplicates > 0) notes.add(`${duplicates} twice among the last ${numbers.length}`);
  }
  await service.api('DELETE', `/sources/${source.id}`);
  const ours = summarise(ourRounds);
  const theirs = summarise(plainRounds);
  return {
    case: name,
    c: connections,
    'per s': Math.round(ours.perSecond),
    'plain per s': Math.round(theirs.perSecond),
    ratio: (ours.perSecond / theirs.perSecond).toFixed(3),
    'p50 ms': ours.p50Ms.toFixed(2),
    'p99 ms': ours.p99Ms.toFixed(1),
    'plain p50/p99 ms': `${theirs.p50Ms.toFixed(2)} / ${theirs.p99Ms.toFixed(1)}`,
    'CPU µs/req': Math.round(ours.cpuUs),
    'plain CPU µs/req': Math.round(theirs.cpuUs),
    'drain s': (drainSeconds / rounds).toFixed(2),
    notes: [...notes].join('; '),
  };
}

/** `settle` belongs to the round: work that was only put off is paid for too. */
async function measureRound(
  pid: number,
  load: { url: string; connections: number; firstNumber: number },
  settle: (load: LoadResult) => Promise<void> = async () => undefined,
): Promise<Round> {
  const before = treeUsage(pid).cpuUs;
  const result = await runLoad({ ...load, seconds, body });
  await settle(result);
  return { load: result, cpuUs: treeUsage(pid).cpuUs - before };
}

/** The median round by throughput stands for all; processor time is shared out over every request. */
function summarise(measured: Round[]): { perSecond: number; p50Ms: number; p99Ms: number; cpuUs: number } {
  const sorted = measured.map((round) => round.load).sort((a, b) => a.perSecond - b.perSecond);
  const median = sorted[Math.floor(sorted.length / 2)];
  if (median === undefined) throw new Error('at least one round is needed');
  const requests = measured.reduce((sum, round) => sum + round.load.requests, 0);
  const cpuUs = measured.reduce((sum, round) => sum + round.cpuUs, 0);
  return {
    perSecond: median.perSecond,
    p50Ms: median.p50Ms,
    p99Ms: median.p99Ms,
    cpuUs: cpuUs / Math.max(1, requests),
  };
}

async function createSource(
  service: Service,
  name: string,
  code: string,
): Promise<{ id: string; endpointUrl: string }> {
  const answer = (await service.api('POST', '/sources/', { name, component_code: code })) as {
    data: { id: string; configured_props: { http: { endpoint_url: string } } };
  };
  return { id: answer.data.id, endpointUrl: answer.data.configured_props.http.endpoint_url };
}

/** Requests are numbered in the order they were sent; the last few may overtake each other. */
async function waitUntilEmitted(service: Service, sourceId: string, lastNumber: number): Promise<void> {
  await waitFor(
    async () => (await retainedNumbers(service, sourceId)).some((number) => number === lastNumber),
    {
      timeoutMs: 120_000,
      what: `event of request ${lastNumber}`,
    },
  );
}

async function retainedNumbers(service: Service, sourceId: string): Promise<number[]> {
  const path = `/sources/${sourceId}/event_summaries?limit=100&expand=event`;
  const answer = (await service.api('GET', path)) as { data: { event: { number?: string } }[] };
  return answer.data.map(({ event }) => Number(event.number));
}
