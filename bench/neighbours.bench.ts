import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres-server.ts';
import { createSource, createWebhook, latenciesOf, listen, post } from './support/numbers-source.ts';
import { type Service, startService } from './support/service.ts';
import { type Sink, startSink } from './support/sink.ts';

/**
 * Measures the effect of one owner's subscriptions on others: the time of an event of one workspace to its one webhook, before
 * another workspace has thousands of subscriptions, while it has them, and while it also emits events that go to
 * thousands of listeners. The last case shares the two cores. The first column is the baseline.
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
    const latencies = await latenciesOf(one, to, { samples, name });
    alone ??= latencies.p50;
    rows.push({
      while: name,
      'p50 ms': latencies.p50.toFixed(2),
      'p99 ms': latencies.p99.toFixed(2),
      ratio: (latencies.p50 / alone).toFixed(2),
    });
  };
  let alone: number | undefined;
  await latenciesOf(one, to, { samples, name: 'warm-up' });
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

async function workspace(service: Service, name: string): Promise<string> {
  const { data } = (await service.api('POST', '/workspaces', { name })) as { data: { id: string } };
  return data.id;
}

async function inParallel(count: number, work: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let n = next++; n < count; n = next++) await work(n);
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}
