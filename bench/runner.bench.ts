/**
 * Warm calls per second and cold starts of the runner, beside a plain call of the same function in this process.
 * At each level of the sandbox that works here, one after the other.
 * Run: node bench/runner.bench.ts [seconds per row]
 */
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AddressPolicy } from '#egress/address-policy.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { createProcessRunner } from '#runner/process-runner.ts';
import type { Bundle, CallRequest, Runner } from '#runner/runner.ts';

const seconds = Number(process.argv[2] ?? 3);

/** What an HTTP source does: reads and writes its db, answers, emits, returns. */
const code = `
function run(event) {
  const count = this.db.get('count') ?? 0;
  this.db.set('count', count + 1);
  this.http.respond({ status: 200, body: 'ok' });
  this.$emit(event, { id: count, summary: 'an event', ts: 1700000000000 });
  return { count };
}
module.exports = { name: 'bench', props: { http: '$.interface.http', db: '$.service.db' }, run };`;
const bundle: Bundle = { hash: createHash('sha256').update(code).digest('hex'), code, format: 'cjs' };
const event = JSON.stringify({ method: 'POST', path: '/', body: { text: 'x'.repeat(900) } });

function request(deployment: number): CallRequest {
  return {
    deploymentId: `dc_${deployment}`,
    ownerId: 'u_bench',
    bundle,
    revision: 1,
    call: { kind: 'run', event },
    props,
    db: { count: '41' },
    deadlineMs: 10_000,
  };
}
/** A step of a workflow, with an expression in its props. */
const stepCode = `
module.exports = { props: { text: { type: 'string' } }, run({ steps, $ }) {
  $.export('$summary', this.text);
  return { length: steps.trigger.event.body.text.length };
} };`;
const stepBundle: Bundle = {
  hash: createHash('sha256').update(stepCode).digest('hex'),
  code: stepCode,
  format: 'cjs',
};
const stepProps = { text: 'a {{event.method}} to {{steps.trigger.event.path}}' };

function stepRequest(): CallRequest {
  return {
    ...request(0),
    deploymentId: 'd_0',
    bundle: stepBundle,
    module: 'c_1',
    props: stepProps,
    db: {},
    call: {
      kind: 'step',
      steps: `{"trigger":{"event":${event}}}`,
      context: '{"id":"r_1","workflow_id":"p_1","trace_id":"t_1"}',
      resumeUrl: 'https://example.com/resume',
      cancelUrl: 'https://example.com/cancel',
      scratch: 'r_1',
    },
  };
}

const props = { http: { endpoint: 'https://example.com/' } };

interface Row {
  what: string;
  concurrency: number;
  'calls/s': number;
  'p50 µs': number;
  'p99 µs': number;
}

async function measure(what: string, concurrency: number, one: () => Promise<unknown>): Promise<Row> {
  const latencies: number[] = [];
  const loop = async (until: number): Promise<void> => {
    while (performance.now() < until) {
      const start = performance.now();
      await one();
      latencies.push(performance.now() - start);
    }
  };
  const round = async (ms: number): Promise<number> => {
    latencies.length = 0;
    const start = performance.now();
    await Promise.all(Array.from({ length: concurrency }, () => loop(start + ms)));
    return performance.now() - start;
  };
  await round(1000);
  const took = await round(seconds * 1000);
  const rate = Math.round((latencies.length / took) * 1000);
  latencies.sort((a, b) => a - b);
  const at = (part: number): number =>
    Math.round((latencies[Math.floor(latencies.length * part)] ?? 0) * 10_000) / 10;
  return { what, concurrency, 'calls/s': rate, 'p50 µs': at(0.5), 'p99 µs': at(0.99) };
}

/** The same function, with the same JSON copies, in this process: what isolation is measured against. */
function plainCall(): Promise<void> {
  const db: Record<string, string> = { count: '41' };
  const count = JSON.parse(db.count ?? '0') as number;
  db.count = JSON.stringify(count + 1);
  const copy = JSON.stringify(JSON.parse(event));
  JSON.stringify({ count, length: copy.length });
  return Promise.resolve();
}

const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-'));

function openRunner(level: 'auto' | 'seat-belt', limits: { prewarmed?: number }): Promise<Runner> {
  return createProcessRunner({
    ...{ level, folder, limits },
    policy: new AddressPolicy({ allow: ['public'], deny: () => [] }),
    ...{ logger: silentLogger, clock: systemClock },
  });
}

async function measureCalls(runner: Runner): Promise<void> {
  const rows = [await measure('plain call in process', 1, plainCall)];
  for (const concurrency of [1, 10, 50])
    rows.push(await measure('warm call, one process', concurrency, () => runner.call(request(0))));
  for (const concurrency of [1, 10, 50])
    rows.push(await measure('warm step, one process', concurrency, () => runner.call(stepRequest())));
  console.table(rows);
}

async function measureFirstCalls(what: string, runner: Runner, isReady: () => boolean): Promise<void> {
  const colds: number[] = [];
  for (let i = 1; i <= 20; i += 1) {
    while (!isReady()) await new Promise((resolve) => setTimeout(resolve, 5));
    const start = performance.now();
    await runner.call(request(i));
    colds.push(performance.now() - start);
    await runner.forget(`dc_${i}`);
  }
  colds.sort((a, b) => a - b);
  console.log(`${what}: p50 ${colds[10]?.toFixed(1)} ms, max ${colds.at(-1)?.toFixed(1)} ms`);
}

try {
  for (const wanted of ['auto', 'seat-belt'] as const) {
    const runner = await openRunner(wanted, {});
    const { level } = runner.stats();
    console.log(`level ${level}`);
    await measureCalls(runner);
    await measureFirstCalls('first call on a prewarmed process', runner, () => runner.stats().prewarmed > 0);
    await runner.close();
    const cold = await openRunner(wanted, { prewarmed: 0 });
    await measureFirstCalls('first call that starts its process', cold, () => true);
    await cold.close();
    if (level !== 'kernel') break;
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
