import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { createSource, createWebhook, latenciesOf, listen, post } from './support/numbers-source.ts';
import { type Service, startService } from './support/service.ts';
import { type Sink, startSink } from './support/sink.ts';

/**
 * Measures the effect of receivers that hang or are slow on a healthy one of the same owner: the time of an event to its one webhook,
 * alone, and while another source of the owner emits to this many that do not respond, or respond late. The first row is the baseline. A
 * thousand requests in the same moment cost time by themselves: the row of a thousand that respond at once shows how much.
 */
const { values: options } = parseArgs({
  options: { samples: { type: 'string', default: '1000' } },
});
const samples = Number(options.samples);
type Kind = 'hang' | 'respond' | 'are-slow';
const slowMs = 2_000;
/** Events that the others get before anything is measured, and then one in so many milliseconds. */
const backlog = 20;
const everyMs = 2_000;

const sink = await startSink();
// In a thread of its own: the loop that measures must not wait for them.
const others = new Worker(
  `const { createServer } = require('node:http');
  const server = createServer((request, response) => {
    request.resume();
    if (request.url.startsWith('/respond')) response.end();
    if (request.url.startsWith('/are-slow')) setTimeout(() => response.end(), ${slowMs});
  }).listen(0, '127.0.0.1', () => require('node:worker_threads').parentPort.postMessage(server.address().port));`,
  { eval: true },
);
const [port] = (await once(others, 'message')) as [number];
const othersUrl = `http://127.0.0.1:${port}`;
const rows: object[] = [];
let alone: { p50: number; p99: number } | undefined;
try {
  for (const [count, kind] of [
    [0, 'hang'],
    [5, 'hang'],
    [15, 'hang'],
    [100, 'hang'],
    [1_000, 'respond'],
    [1_000, 'are-slow'],
  ] as const) {
    const service = await startService({
      MILLRACE_EGRESS: 'public,local',
    });
    try {
      rows.push(await measure(service, sink, { count, kind }));
    } finally {
      await service.stop();
    }
  }
  console.table(rows);
} finally {
  await others.terminate();
  await sink.close();
}

async function measure(
  service: Service,
  to: Sink,
  { count, kind }: { count: number; kind: Kind },
): Promise<object> {
  const one = await createSource(service);
  await listen(service, one.id, await createWebhook(service, `${to.url}/one`));
  await latenciesOf(one, to, { samples, name: 'warm-up' });
  const busy = await createSource(service);
  for (let n = 0; n < count; n += 1)
    await listen(service, busy.id, await createWebhook(service, `${othersUrl}/${kind}-${n}`));
  if (count > 0) for (let n = 0; n < backlog; n += 1) await post(busy, { n });
  const emitting = setInterval(() => void post(busy, {}), everyMs);
  const latencies = await latenciesOf(one, to, { samples, name: `${count} ${kind}` });
  clearInterval(emitting);
  alone ??= latencies;
  return {
    while: count === 0 ? 'alone' : `${count} of the same owner ${kind.replace('-', ' ')}`,
    'p50 ms': latencies.p50.toFixed(2),
    'p99 ms': latencies.p99.toFixed(2),
    'p99 ratio': (latencies.p99 / alone.p99).toFixed(2),
  };
}
