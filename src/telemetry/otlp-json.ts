import type { EndedSpan, SpanAttributes, SpanKind } from './span.ts';

/** Numbers of the enumeration `Span.SpanKind` of OTLP. */
const kinds: Record<SpanKind, number> = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 };
/** `STATUS_CODE_ERROR`; a span without a failure has no status. */
const errorCode = 2;

/** The JSON of an `ExportTraceServiceRequest` of OTLP 1: ids in hexadecimal, 64-bit numbers as texts. */
export function traceRequestJson(
  spans: readonly EndedSpan[],
  resource: { attributes: SpanAttributes; version: string },
): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: keyValues(resource.attributes) },
        scopeSpans: [{ scope: { name: 'millrace', version: resource.version }, spans: spans.map(otlpSpan) }],
      },
    ],
  });
}

function otlpSpan(span: EndedSpan) {
  const { traceId, spanId } = span.context;
  return {
    traceId,
    spanId,
    ...(span.parentSpanId === undefined ? {} : { parentSpanId: span.parentSpanId }),
    name: span.name,
    kind: kinds[span.kind],
    startTimeUnixNano: nanoseconds(span.startMs),
    endTimeUnixNano: nanoseconds(span.endMs),
    attributes: keyValues(span.attributes),
    events: span.events.map(({ name, atMs, attributes }) => ({
      name,
      timeUnixNano: nanoseconds(atMs),
      attributes: keyValues(attributes),
    })),
    status: span.error === undefined ? {} : { code: errorCode, message: span.error },
  };
}

function nanoseconds(ms: number): string {
  return String(BigInt(Math.round(ms * 1_000)) * 1_000n);
}

function keyValues(attributes: SpanAttributes) {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: anyValue(value) }],
  );
}

function anyValue(value: string | number | boolean) {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
