import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres-server.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { type Service, startService } from './support/service.ts';
import { type Sink, startSink } from './support/sink.ts';

/**
 * Whether somebody's subscriptions are felt by others: the way of an event of one workspace to its one webhook, before
 * another workspace has thousands of subscriptions, while it has them, and while it also emits events that go to
 * thousands of listeners, which shares the two cores and is shown for what it is. The first column is the baseline.
 */
const { values: options } = parseArgs({
  options: {
    subscriptions: { type: 'string', default: '10000' },
    samples: { type: 'string', default: '300' },
    store: { type: 'string', default: 'sqlite' },
  },
});
const subscriptions = Number(options.subscriptions);
const samples = Number(options.samples);
/** Between two events of the one whose latency is measured. */
const pauseMs = 20;
const code = `export default {
  name: 'bench neighbours', version: '0.0.1',
  props: { http: '$.interface.http' },
  async run(event) { this.$emit(event.body, { name: event.body.channel ?? '' }); },
};`;

interface Source {
  id: string;
  url: string;
}

const postgres = options.store === 'postgres' ? await startPostgres() : undefined;
const sink = await startSink();
try {
  const service = await startService({
    MILLRACE_EGRESS: 'public,local',
    ...(postgres ? { MILLRACE_DATABASE_URL: postgres.url } : {}),
  });
  try {
    console.table(await measure(service, sink));
  } finally {
    await service.stop();
  }
} finally {
  await sink.close();
  await postgres?.stop();
}

async function measure(service: Service, to: Sink): Promise<object[]> {
  const one = await createSource(service, await workspace(service, 'One'));
  await listen(service, one.id, await createWebhook(service, `${to.url}/one`));
  const rows: object[] = [];
  const run = async (name: string) => {
    const latencies = await latenciesOf(one, to, name);
    alone ??= latencies.p50;
    rows.push({
      while: name,
      'p50 ms': latencies.p50.toFixed(2),
      'p99 ms': latencies.p99.toFixed(2),
      ratio: (latencies.p50 / alone).toFixed(2),
    });
  };
  let alone: number | undefined;
  await latenciesOf(one, to, 'warm-up');
  await run('alone');
  const many = await workspace(service, 'Many');
  const busy = await createSource(service, many);
  // One listener on a tenth of the channels each: nothing is sent unless they are emitted on.
  const hooks: string[] = [];
  for (let n = 0; n < 10; n += 1) hooks.push(await createWebhook(service, `${to.url}/many-${n}`, many));
  await inParallel(subscriptions, (n) =>
    service.api('POST', '/subscriptions', {
      emitter_id: busy.id,
      listener_id: hooks[n % hooks.length],
      event_name: `channel ${Math.floor(n / hooks.length)}`,
    }),
  );
  await run(`${subscriptions} subscriptions of another`);
  let emits = 0;
  const emitting = setInterval(() => {
    emits += 1;
    void post(busy, { n: emits, channel: 'channel 0' });
  }, 100);
  await run('ten events a second to ten webhooks each of another');
  clearInterval(emitting);
  return rows;
}

async function latenciesOf(source: Source, to: Sink, name: string): Promise<{ p50: number; p99: number }> {
  const path = '/one';
  const before = (await to.report(path)).received;
  for (let n = 0; n < samples; n += 1) {
    await post(source, {
      number: String(n).padStart(12, '0'),
      sent: performance.timeOrigin + performance.now(),
    });
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  await waitFor(async () => (await to.report(path)).received >= before + samples, {
    timeoutMs: 60_000,
    what: `${samples} deliveries (${name})`,
  });
  const { latencies } = await to.report(path);
  const sorted = Float64Array.from(latencies.slice(-samples)).sort();
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99) };
}

async function post(source: Source, body: object): Promise<void> {
  const response = await fetch(source.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`the endpoint answered ${response.status}`);
}

async function workspace(service: Service, name: string): Promise<string> {
  const { data } = (await service.api('POST', '/workspaces', { name })) as { data: { id: string } };
  return data.id;
}

async function createSource(service: Service, orgId: string): Promise<Source> {
  const body = { name: 'numbers', component_code: code, org_id: orgId };
  const { data } = (await service.api('POST', '/sources/', body)) as {
    data: { id: string; configured_props: { http: { endpoint_url: string } } };
  };
  return { id: data.id, url: data.configured_props.http.endpoint_url };
}

async function createWebhook(service: Service, url: string, orgId?: string): Promise<string> {
  const body = { url, ...(orgId === undefined ? {} : { org_id: orgId }) };
  const { data } = (await service.api('POST', '/webhooks', body)) as { data: { id: string } };
  return data.id;
}

async function listen(service: Service, emitterId: string, listenerId: string): Promise<void> {
  await service.api('POST', '/subscriptions', { emitter_id: emitterId, listener_id: listenerId });
}

async function inParallel(count: number, work: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let n = next++; n < count; n = next++) await work(n);
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}
