import assert from 'node:assert/strict';
import { HttpReceiver } from './http-receiver.ts';
import { waitFor } from './wait-for.ts';

interface KeyValue {
  key: string;
  value: { stringValue?: string; intValue?: string; doubleValue?: number; boolValue?: boolean };
}

interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: KeyValue[];
  events: { name: string; attributes: KeyValue[] }[];
  status: { code?: number; message?: string };
}

interface TraceRequest {
  resourceSpans: {
    resource: { attributes: KeyValue[] };
    scopeSpans: { scope: { name: string; version: string }; spans: OtlpSpan[] }[];
  }[];
}

/** A span as a receiver got it; numbers are texts. */
export interface ReceivedSpan extends Omit<OtlpSpan, 'attributes' | 'events'> {
  attributes: Record<string, string>;
  events: { name: string; attributes: Record<string, string> }[];
  resource: Record<string, string>;
}

/** A real receiver of OTLP over HTTP, as a collector is one: it decodes the JSON of the requests that it gets. */
export class TraceReceiver {
  readonly http: HttpReceiver;

  private constructor(http: HttpReceiver) {
    this.http = http;
  }

  static async start(): Promise<TraceReceiver> {
    return new TraceReceiver(await HttpReceiver.start({ answer: { body: {} } }));
  }

  /** The value of `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  get url(): string {
    return this.http.url;
  }

  spans(): ReceivedSpan[] {
    return this.http.requests.flatMap(({ url, method, body }) => {
      assert.equal(`${method} ${url}`, 'POST /v1/traces');
      return decode(JSON.parse(body.toString()) as TraceRequest);
    });
  }

  /** All requests as they came, to look for what must not be in them. */
  text(): string {
    return this.http.requests.map(({ body }) => body.toString()).join('\n');
  }

  /** The first span that fits; waits until it has come. */
  async waitForSpan(what: string, fits: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan> {
    return waitFor(() => this.spans().find(fits), { what: `the span of ${what}` });
  }

  close(): Promise<void> {
    return this.http.close();
  }
}

function decode({ resourceSpans }: TraceRequest): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans }) => {
      assert.equal(scope.name, 'millrace');
      return spans.map((span) => {
        assert.match(span.traceId, /^[0-9a-f]{32}$/);
        assert.match(span.spanId, /^[0-9a-f]{16}$/);
        assert.match(span.startTimeUnixNano, /^\d{19}$/);
        assert.ok(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano), span.name);
        const events = span.events.map((event) => ({ ...event, attributes: valuesOf(event.attributes) }));
        const attributes = valuesOf(span.attributes);
        return { ...span, events, attributes, resource: valuesOf(resource.attributes) };
      });
    }),
  );
}

function valuesOf(attributes: readonly KeyValue[]): Record<string, string> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => {
      const [text, ...others] = Object.values(value);
      assert.deepEqual(others, [], `${key} has one value`);
      return [key, String(text)];
    }),
  );
}
