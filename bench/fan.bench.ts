import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres-server.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { startPlainServer } from './baselines.ts';
import { failuresOf, type LoadResult, runLoad } from './support/load.ts';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';
import { type Sink, type SinkReport, startSink } from './support/sink.ts';

/**
 * From an event to those who subscribed: a request comes in, user code emits, the event and its deliveries are on disk,
 * each delivery is a signed POST to a sink on the same machine, and its outcome is on disk. The sink verifies: lost,
 * duplicated and out of order are counted for each webhook. Each round measures plain node:http with the same load first.
 *
 * - `full`: as many events as 16 connections bring; the rate counts from the first request to the last delivery, so that
 *   what was only put off is paid for.
 * - `paced`: events at a fixed rate; what is left to deliver when the last request was answered is the backlog.
 */
const { values: options } = parseArgs({
  options: {
    fans: { type: 'string', default: '1,10' },
    connections: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    /** Events per second; 0: as many as come. */
    rate: { type: 'string', default: '0' },
    store: { type: 'string', default: 'sqlite' },
  },
});
const seconds = Number(options.seconds);
const rounds = Number(options.rounds);
const rate = Number(options.rate);
const connections = Number(options.connections);

/** 1 kB of JSON; the zeroes become the number of the request (a string: JSON knows no leading zeroes). */
const body = JSON.stringify({ number: '000000000000', text: 'x'.repeat(970) });
const code = `export default {
  name: 'bench fan', version: '0.0.1',
  props: { http: '$.interface.http' },
  async run(event) { this.$emit(event.body); },
};`;

interface Row {
  case: string;
  'events/s': number;
  'deliveries/s': number;
  'plain per s': number;
  ratio: string;
  'accept p50/p99 ms': string;
  'backlog s': string;
  'CPU µs/delivery': number;
  lost: number;
  twice: number;
  'out of order': number;
  notes: string;
}

const postgres = options.store === 'postgres' ? await startPostgres() : undefined;
const plain = await startPlainServer();
const sink = await startSink();
try {
  const service = await startService({
    MILLRACE_EGRESS: 'public,local',
    ...(postgres ? { MILLRACE_DATABASE_URL: postgres.url } : {}),
  });
  try {
    // The prewarmed pool fills after the service is ready.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const rows: Row[] = [];
    for (const fan of options.fans.split(',').map(Number)) rows.push(await measureFan(service, fan));
    console.table(rows);
    const loaded = treeUsage(service.pid);
    console.log(
      `after the load: RSS ${Math.round(loaded.rootRssMb)} MB server, ${Math.round(loaded.rssMb)} MB all`,
    );
  } finally {
    await service.stop();
  }
} finally {
  await sink.close();
  await plain.close();
  await postgres?.stop();
}

interface Round {
  events: number;
  load: LoadResult;
  plainPerSecond: number;
  elapsed: number;
  backlogSeconds: number;
  cpuUs: number;
}

async function measureFan(service: Service, fan: number): Promise<Row> {
  const source = await createSource(service, `fan-${fan}`);
  const paths: string[] = [];
  for (let n = 0; n < fan; n += 1) {
    const path = `/${fan}-${n}`;
    const { data } = (await service.api('POST', '/webhooks', { url: `${sink.url}${path}` })) as {
      data: { id: string };
    };
    await service.api('POST', '/subscriptions', { emitter_id: source.id, listener_id: data.id });
    paths.push(path);
  }
  let sent = (await runLoad({ url: source.endpointUrl, connections, seconds: 1, body })).nextNumber - 1;
  await untilReceived(sink, paths, sent);
  const measured: Round[] = [];
  const failures = new Set<string>();
  for (let round = 0; round < rounds; round += 1) {
    const plainLoad = await runLoad({ url: plain.url, connections, seconds: 1, body });
    const before = treeUsage(service.pid).cpuUs;
    const load = await runLoad({
      url: source.endpointUrl,
      connections,
      seconds,
      body,
      firstNumber: sent + 1,
      ...(rate === 0 ? {} : { perSecond: rate }),
    });
    const loaded = performance.now();
    const events = load.nextNumber - 1 - sent;
    sent = load.nextNumber - 1;
    await untilReceived(sink, paths, sent);
    const ended = performance.now();
    if (failuresOf(load) !== '') failures.add(failuresOf(load));
    measured.push({
      events,
      load,
      plainPerSecond: plainLoad.perSecond,
      // Without the start of the load generator.
      elapsed: load.seconds + (ended - loaded) / 1000,
      backlogSeconds: (ended - loaded) / 1000,
      cpuUs: treeUsage(service.pid).cpuUs - before,
    });
  }
  const reports = await Promise.all(paths.map((path) => sink.report(path)));
  const total = (of: (report: SinkReport) => number) => reports.reduce((sum, report) => sum + of(report), 0);
  const events = measured.reduce((sum, round) => sum + round.events, 0);
  const elapsed = measured.reduce((sum, round) => sum + round.elapsed, 0);
  const plainPerSecond = measured.reduce((sum, round) => sum + round.plainPerSecond, 0) / measured.length;
  const median = [...measured].sort((a, b) => a.load.p50Ms - b.load.p50Ms)[measured.length >> 1];
  return {
    case: `fan-${fan}${rate === 0 ? '' : ` at ${rate}/s`}`,
    'events/s': Math.round(events / elapsed),
    'deliveries/s': Math.round((events * fan) / elapsed),
    'plain per s': Math.round(plainPerSecond),
    ratio: ((events * fan) / elapsed / plainPerSecond).toFixed(3),
    'accept p50/p99 ms': `${median?.load.p50Ms.toFixed(2)} / ${median?.load.p99Ms.toFixed(1)}`,
    'backlog s': measured.map((round) => round.backlogSeconds.toFixed(2)).join(', '),
    'CPU µs/delivery': Math.round(measured.reduce((sum, round) => sum + round.cpuUs, 0) / (events * fan)),
    lost: sent * fan - total((report) => report.distinct),
    twice: total((report) => report.duplicates),
    'out of order': total((report) => report.outOfOrder),
    notes: [...failures].join('; '),
  };
}

async function createSource(service: Service, name: string): Promise<{ id: string; endpointUrl: string }> {
  const answer = (await service.api('POST', '/sources/', { name, component_code: code })) as {
    data: { id: string; configured_props: { http: { endpoint_url: string } } };
  };
  return { id: answer.data.id, endpointUrl: answer.data.configured_props.http.endpoint_url };
}

/** Requests are numbered from 1 on; none is refused in these runs, so each number must arrive. */
async function untilReceived(from: Sink, paths: readonly string[], count: number): Promise<void> {
  await waitFor(
    async () => {
      const reports = await Promise.all(paths.map((path) => from.report(path)));
      return reports.every(({ distinct }) => distinct >= count);
    },
    { timeoutMs: 120_000, what: `${count} events at ${paths.length} webhooks` },
  ).catch(() => {});
}
