import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { samplerOf } from './sampler.ts';
import { currentSpan, inSpan, traceFields } from './span.ts';
import { type PostSpans, SpanExporter } from './span-exporter.ts';
import { noTracer, Tracer } from './tracer.ts';

const resource = { attributes: { 'service.name': 'test' }, version: '1' };

function open(post: PostSpans) {
  const exporter = new SpanExporter({ post, receiver: 'test', resource, logger: silentLogger, everyMs: 1 });
  const tracer = new Tracer({ exporter, sampler: samplerOf('always_on', 1), nowMs: Date.now });
  return { exporter, end: (name: string) => tracer.start({ name })?.end() };
}

const namesIn = (json: Buffer): string[] =>
  (
    JSON.parse(json.toString()) as { resourceSpans: [{ scopeSpans: [{ spans: { name: string }[] }] }] }
  ).resourceSpans[0].scopeSpans[0].spans.map(({ name }) => name);

describe('the exporter of spans', () => {
  test('keeps a bounded number while the receiver is away, drops and counts the rest, and sends what it kept', async () => {
    const away = Promise.withResolvers<void>();
    const received: string[] = [];
    const { exporter, end } = open(async (json) => {
      await away.promise;
      received.push(...namesIn(json));
      return { status: 200, body: '{}' };
    });
    for (let n = 0; n < 10_000; n += 1) end(`span ${n}`);
    assert.deepEqual(exporter.counts(), { exported: 0, dropped: 10_000 - 8_192, failed: 0, waiting: 8_192 });
    exporter.start();
    away.resolve();
    await waitFor(() => exporter.counts().waiting === 0, { what: 'the spans to be sent' });
    assert.equal(exporter.counts().exported, 8_192);
    assert.deepEqual([received.length, received[0], received.at(-1)], [8_192, 'span 0', 'span 8191']);
    await exporter.stop();
  });

  test('sends again what a receiver could not take for now, and gives up what it refuses, or fails to take five times', async () => {
    const answers: (number | Error)[] = [503, new Error('reset'), 200, 400, ...[429, 502, 503, 504, 503]];
    const tries: string[] = [];
    const { exporter, end } = open(async (json) => {
      tries.push(...namesIn(json));
      const answer = answers.shift() ?? 200;
      if (answer instanceof Error) throw answer;
      return { status: answer, body: '' };
    });
    exporter.start();
    for (const [name, ended] of [
      ['late', 1],
      ['refused', 2],
      ['lost', 3],
    ] as const) {
      end(name);
      await waitFor(() => exporter.counts().exported + exporter.counts().failed === ended, {
        what: `the end of ${name}`,
      });
    }
    assert.deepEqual(tries, ['late', 'late', 'late', 'refused', ...Array.from({ length: 5 }, () => 'lost')]);
    assert.deepEqual(exporter.counts(), { exported: 1, dropped: 0, failed: 2, waiting: 0 });
    await exporter.stop();
  });

  test('counts what a receiver took only in part, and stops although the receiver hangs', async () => {
    const answers = [{ status: 200, body: '{"partialSuccess":{"rejectedSpans":"2"}}' }];
    const { exporter, end } = open((_json, { signal }) => {
      const answer = answers.shift();
      if (answer !== undefined) return Promise.resolve(answer);
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    });
    for (let n = 0; n < 3; n += 1) end('one');
    exporter.start();
    await waitFor(() => exporter.counts().waiting === 0, { what: 'the answer' });
    assert.deepEqual(exporter.counts(), { exported: 1, dropped: 0, failed: 2, waiting: 0 });
    end('never');
    await exporter.stop();
    await exporter.stop();
    assert.deepEqual(exporter.counts(), { exported: 1, dropped: 0, failed: 3, waiting: 0 });
  });
});

test('a span is current in its work only, and there is none when tracing is off', async () => {
  const tracer = new Tracer({ exporter: { add() {} }, sampler: samplerOf('always_on', 1), nowMs: Date.now });
  const span = tracer.start({ name: 'one' });
  await inSpan(span, async () => {
    await Promise.resolve();
    assert.equal(currentSpan(), span);
    assert.deepEqual(traceFields(), { trace_id: span?.context.traceId, span_id: span?.context.spanId });
    inSpan(undefined, () => assert.equal(currentSpan(), undefined));
  });
  assert.equal(currentSpan(), undefined);
  assert.deepEqual(traceFields(), {});
  assert.equal(noTracer.start({ name: 'one' }), undefined);
  assert.equal(noTracer.resume({ name: 'one', id: 'x' }), undefined);
});
