import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseRatio, type SamplerName, samplerOf } from './sampler.ts';
import { parseExportHeaders } from './span-exporter.ts';
import { derivedIds, newSpanId, newTraceId, parseTraceparent, traceparentOf } from './trace-context.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';

describe('traceparent', () => {
  test('is read and written as W3C Trace Context has it, later versions too', () => {
    const text = `00-${traceId}-${spanId}-01`;
    assert.deepEqual(parseTraceparent(text), { traceId, spanId, sampled: true });
    assert.equal(traceparentOf({ traceId, spanId, sampled: true }), text);
    assert.equal(parseTraceparent(`00-${traceId}-${spanId}-02`)?.sampled, false);
    assert.deepEqual(parseTraceparent(`cc-${traceId}-${spanId}-03-what-follows`), {
      traceId,
      spanId,
      sampled: true,
    });
    for (const made of [
      { traceId: newTraceId(), spanId: newSpanId(), sampled: false },
      { ...derivedIds('run'), sampled: true },
    ])
      assert.deepEqual(parseTraceparent(traceparentOf(made)), made);
  });

  test('anything else counts as none', () => {
    const wrong = [
      ...[undefined, 1, '', 'x', `ff-${traceId}-${spanId}-01`, `00-${traceId}-${spanId}-01-more`],
      ...[`00-${'0'.repeat(32)}-${spanId}-01`, `00-${traceId}-${'0'.repeat(16)}-01`],
      ...[
        `00-${traceId.toUpperCase()}-${spanId}-01`,
        `00-${traceId}-${spanId}-1`,
        [`00-${traceId}-${spanId}-01`],
      ],
    ];
    for (const text of wrong) assert.equal(parseTraceparent(text), undefined, String(text));
  });
});

test('samplers follow the sender only where their name says so, and all processes decide the same for a trace', () => {
  const yes = { traceId, spanId, sampled: true };
  const no = { ...yes, sampled: false };
  const decides = (name: SamplerName, ratio = 1) =>
    [undefined, yes, no].map((parent) => samplerOf(name, ratio)(traceId, parent));
  assert.deepEqual(decides('always_on'), [true, true, true]);
  assert.deepEqual(decides('always_off'), [false, false, false]);
  assert.deepEqual(decides('parentbased_always_on'), [true, true, false]);
  assert.deepEqual(decides('parentbased_always_off'), [false, true, false]);
  assert.deepEqual(decides('traceidratio', 0), [false, false, false]);
  assert.deepEqual(decides('parentbased_traceidratio', 0), [false, true, false]);
  const sample = samplerOf('traceidratio', 0.25);
  const ids = Array.from({ length: 4_000 }, (_, n) => derivedIds(String(n)).traceId);
  const recorded = ids.filter((id) => sample(id, undefined)).length;
  assert.ok(recorded > 850 && recorded < 1_150, `${recorded} of 4,000`);
  assert.deepEqual(['', '0', '0.5', '1', '1.1', '-1', 'x'].map(parseRatio), [
    1,
    0,
    0.5,
    1,
    undefined,
    undefined,
    undefined,
  ]);
});

test('headers for the receiver are read as OpenTelemetry has them; what is wrong is said without a value', () => {
  assert.deepEqual(parseExportHeaders(''), {});
  assert.deepEqual(parseExportHeaders('X-Key=a%20b, other=c=d,'), { 'x-key': 'a b', other: 'c=d' });
  for (const wrong of ['hush', '=hush', 'a b=hush', 'x=hush%zz', 'x=hush%0a'])
    assert.throws(
      () => parseExportHeaders(wrong),
      (error: Error) => /expected/.test(error.message) && !error.message.includes('hush'),
    );
});
