import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres-server.ts';
import { startPlainStreams } from './baselines.ts';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';
import { nowUs, openReaders, type ReaderResult, sentFields } from './support/stream-readers.ts';

/**
 * From a request to an HTTP source, through user code and the store, to readers of server-sent events. Latency is that of
 * the whole way: from when the request was due to be sent to when a reader has the event. Each case is measured against
 * a plain node:http server that keeps nothing and writes the same messages, in the same run.
 *
 * - `idle`: one reader, twenty events a second.
 * - `source`: many readers of one source.
 * - `workspace`: many readers of all sources of a workspace, of which one emits.
 */
const { values: options } = parseArgs({
  options: {
    cases: { type: 'string', default: 'idle,source,workspace' },
    readers: { type: 'string', default: '1000' },
    /** Events a second. */
    rates: { type: 'string', default: '30,100' },
    seconds: { type: 'string', default: '4' },
    /** Rounds of each case; the one with the median p99 represents all. */
    rounds: { type: 'string', default: '3' },
    /** Text in each event. */
    bytes: { type: 'string', default: '200' },
    /** sqlite, or postgres: a server started for this run, on the same machine. */
    store: { type: 'string', default: 'sqlite' },
  },
});
const seconds = Number(options.seconds);
const text = 'x'.repeat(Number(options.bytes));
const idleRate = 20;
const warmUpEvents = 20;
/** Answers come before events are stored: so long, and those of the warm-up are past. */
const pauseMs = 500;
/** What has not come by then is lost. */
const settleMs = 10_000;
const requestTimeoutMs = 20_000;

const code = `export default {
  name: 'bench sse', version: '0.0.1',
  props: { http: { type: '$.interface.http', customResponse: true } },
  async run(event) {
    this.$emit(event.body);
    this.http.respond({ status: 200, body: { ok: true } });
  },
};`;

interface Target {
  emitUrl: string;
  streamUrl: string;
  pid: number;
  headers: Record<string, string>;
}

const postgres = options.store === 'postgres' ? await startPostgres() : undefined;
const plain = await startPlainStreams();
try {
  const service = await startService({
    ...(postgres && { MILLRACE_DATABASE_URL: postgres.url }),
    MILLRACE_STREAMS_PER_KEY: '100000',
  });
  try {
    // The prewarmed pool fills after the service is ready.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const targets = await createTargets(service);
    const base = { emitUrl: plain.url, streamUrl: plain.url, pid: plain.pid, headers: {} };
    const rows: Record<string, string | number>[] = [];
    for (const name of options.cases.split(',')) {
      const target = targets[name];
      if (target === undefined)
        throw new Error(`no case ${name}; the cases are ${Object.keys(targets).join(', ')}`);
      for (const rate of name === 'idle' ? [idleRate] : options.rates.split(',').map(Number)) {
        const readers = name === 'idle' ? 1 : Number(options.readers);
        const theirs: Measured[] = [];
        const ours: Measured[] = [];
        for (let round = 0; round < Number(options.rounds); round += 1) {
          theirs.push(await measure(base, readers, rate));
          ours.push(await measure(target, readers, rate));
        }
        rows.push(rowOf({ name, readers, rate }, summarise(ours), summarise(theirs)));
      }
    }
    console.log(
      `store ${options.store}, ${options.rounds} rounds of ${seconds} s, events of ${text.length + 60} bytes`,
    );
    console.table(rows);
  } finally {
    await service.stop();
  }
} finally {
  await plain.close();
  await postgres?.stop();
}

type Measured = ReaderResult & { events: number; refused: number; serverCpuUs: number };

async function measure(target: Target, readers: number, rate: number): Promise<Measured> {
  // The cold start is not measured: no stream reads these events.
  await emitAtRate(target.emitUrl, { first: 0, count: warmUpEvents, rate: 50 });
  await new Promise((resolve) => setTimeout(resolve, pauseMs));
  const reading = await openReaders({ url: target.streamUrl, readers, headers: target.headers });
  const before = treeUsage(target.pid).cpuUs;
  const events = rate * seconds;
  const refused = await emitAtRate(target.emitUrl, { first: warmUpEvents, count: events, rate });
  const result = await reading.finish(events - refused, settleMs);
  return { ...result, events, refused, serverCpuUs: treeUsage(target.pid).cpuUs - before };
}

/** Sends each when it is due, whatever the outcome of those before. Returns the number of events that were not accepted. */
async function emitAtRate(
  url: string,
  { first, count, rate }: { first: number; count: number; rate: number },
): Promise<number> {
  const startUs = nowUs();
  const answers: Promise<boolean>[] = [];
  for (let sent = 0; sent < count; sent += 1) {
    const dueUs = startUs + Math.round((sent * 1e6) / rate);
    const waitMs = (dueUs - nowUs()) / 1000;
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    const body = `{${sentFields(first + sent, Math.min(dueUs + 1000, nowUs()))},"text":"${text}"}`;
    answers.push(
      fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
        signal: AbortSignal.timeout(requestTimeoutMs),
      }).then(
        async (response) => {
          await response.arrayBuffer();
          return response.ok;
        },
        () => false,
      ),
    );
  }
  return (await Promise.all(answers)).filter((isAccepted) => !isAccepted).length;
}

async function createTargets(service: Service): Promise<Record<string, Target>> {
  const api = async (method: string, path: string, body: unknown) =>
    ((await service.api(method, path, body)) as { data: Record<string, never> }).data;
  const { api_key: key } = await api('POST', '/users/me/api_keys', { name: 'bench' });
  const { id: workspace } = await api('POST', '/workspaces', { name: 'Bench' });
  const source = (await api('POST', '/sources/', {
    name: 'sse',
    component_code: code,
    org_id: workspace,
  })) as unknown as { id: string; configured_props: { http: { endpoint_url: string } } };
  const target = (path: string): Target => ({
    emitUrl: source.configured_props.http.endpoint_url,
    streamUrl: service.url + path,
    pid: service.pid,
    headers: { authorization: `Bearer ${key}` },
  });
  return {
    idle: target(`/sources/${source.id}/sse`),
    source: target(`/sources/${source.id}/sse`),
    workspace: target(`/workspaces/${workspace}/sse`),
  };
}

/** What went wrong and what it cost is that of all rounds. */
function summarise(rounds: readonly Measured[]): Measured {
  const median = rounds.toSorted((a, b) => a.p99Ms - b.p99Ms)[Math.floor(rounds.length / 2)];
  if (median === undefined) throw new Error('at least one round is needed');
  const sum = (of: (measured: Measured) => number) => rounds.reduce((total, round) => total + of(round), 0);
  return {
    ...median,
    events: sum(({ events }) => events),
    refused: sum(({ refused }) => refused),
    deliveries: sum(({ deliveries }) => deliveries),
    lost: sum(({ lost }) => lost),
    duplicated: sum(({ duplicated }) => duplicated),
    disordered: sum(({ disordered }) => disordered),
    ended: sum(({ ended }) => ended),
    cpuUs: sum(({ cpuUs }) => cpuUs),
    serverCpuUs: sum(({ serverCpuUs }) => serverCpuUs),
  };
}

function rowOf(
  which: { name: string; readers: number; rate: number },
  ours: Measured,
  theirs: Measured,
): Record<string, string | number> {
  const readersCpu = (ours.cpuUs / (Number(options.rounds) * seconds * 1e6)) * 100;
  const notes = [
    ...(ours.refused > 0 ? [`${ours.refused} requests refused`] : []),
    ...(ours.ended > 0 ? [`${ours.ended} streams ended`] : []),
    ...(theirs.lost + theirs.duplicated > 0
      ? [`plain: ${theirs.lost} lost, ${theirs.duplicated} twice`]
      : []),
  ];
  return {
    case: which.name,
    readers: which.readers,
    'events/s': which.rate,
    deliveries: ours.deliveries,
    'lost/twice/disordered': `${ours.lost}/${ours.duplicated}/${ours.disordered}`,
    'p50 ms': ours.p50Ms.toFixed(2),
    'p99 ms': ours.p99Ms.toFixed(1),
    'max ms': ours.maxMs.toFixed(0),
    'plain p50/p99 ms': `${theirs.p50Ms.toFixed(2)} / ${theirs.p99Ms.toFixed(1)}`,
    'p50/p99 ratio': `${(ours.p50Ms / theirs.p50Ms).toFixed(2)} / ${(ours.p99Ms / theirs.p99Ms).toFixed(2)}`,
    'CPU µs/delivery': (ours.serverCpuUs / Math.max(1, ours.deliveries)).toFixed(1),
    'plain CPU': (theirs.serverCpuUs / Math.max(1, theirs.deliveries)).toFixed(1),
    'readers CPU %': readersCpu.toFixed(0),
    notes: notes.join('; '),
  };
}
