import { AsyncLocalStorage } from 'node:async_hooks';
import { type TraceContext, traceparentOf } from './trace-context.ts';

export type SpanKind = 'internal' | 'server' | 'client' | 'producer' | 'consumer';
/** Ids, states and numbers. Never a payload, a URL of a user, or a secret. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** A span that has ended, as it is exported. */
export interface EndedSpan {
  context: TraceContext;
  /** Undefined: the span is the root of its trace. */
  parentSpanId: string | undefined;
  name: string;
  kind: SpanKind;
  /** Epoch ms, with fractions. */
  startMs: number;
  endMs: number;
  attributes: SpanAttributes;
  events: readonly SpanEvent[];
  /** Undefined: the work did not fail. */
  error: string | undefined;
}

export interface SpanEvent {
  name: string;
  atMs: number;
  attributes: SpanAttributes;
}

export interface SpanOptions {
  name: string;
  kind?: SpanKind;
  attributes?: SpanAttributes;
  /** Epoch ms; default now. */
  startMs?: number;
}

/** Maximum of events of one span. */
const eventsMax = 64;
/** Maximum characters of an error. */
const errorCharactersMax = 1_000;

/** What spans need of their tracer. */
export interface SpanRecorder {
  readonly nowMs: () => number;
  child(parent: TraceContext, options: SpanOptions): Span;
  ended(span: EndedSpan): void;
}

/** Work under way. Of a trace that is not sampled it only carries the context; nothing is recorded. */
export class Span {
  readonly context: TraceContext;
  readonly #recorder: SpanRecorder;
  readonly #parentSpanId: string | undefined;
  readonly #options: SpanOptions;
  readonly #startMs: number;
  /** Measures the duration where the span began now: the wall clock may step. */
  readonly #begunMs: number | undefined;
  readonly #events: SpanEvent[] = [];
  #attributes: SpanAttributes;
  #error: string | undefined;
  #isEnded = false;

  constructor(
    recorder: SpanRecorder,
    options: SpanOptions & { context: TraceContext; parentSpanId: string | undefined },
  ) {
    this.context = options.context;
    this.#recorder = recorder;
    this.#parentSpanId = options.parentSpanId;
    this.#options = options;
    this.#startMs = options.startMs ?? recorder.nowMs();
    this.#begunMs = options.startMs === undefined ? performance.now() : undefined;
    this.#attributes = options.attributes ?? {};
  }

  set(attributes: SpanAttributes): void {
    if (this.context.sampled) this.#attributes = { ...this.#attributes, ...attributes };
  }

  /** Further events than the maximum are left out. */
  addEvent(name: string, attributes: SpanAttributes): void {
    if (this.context.sampled && this.#events.length < eventsMax)
      this.#events.push({ name, atMs: this.#recorder.nowMs(), attributes });
  }

  /** The work failed. `message` is redacted already. */
  fail(message: string): void {
    this.#error = message.slice(0, errorCharactersMax);
  }

  child(options: SpanOptions): Span {
    return this.#recorder.child(this.context, options);
  }

  /** Only the first call counts. */
  end(attributes: SpanAttributes = {}): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (!this.context.sampled) return;
    const { name, kind = 'internal' } = this.#options;
    const endMs =
      this.#begunMs === undefined
        ? this.#recorder.nowMs()
        : this.#startMs + performance.now() - this.#begunMs;
    this.#recorder.ended({
      context: this.context,
      parentSpanId: this.#parentSpanId,
      name,
      kind,
      startMs: this.#startMs,
      endMs: Math.max(endMs, this.#startMs),
      attributes: { ...this.#attributes, ...attributes },
      events: this.#events,
      error: this.#error,
    });
  }
}

const current = new AsyncLocalStorage<Span | undefined>();

/** The span in which the caller works; undefined when there is none, or tracing is off. */
export function currentSpan(): Span | undefined {
  return current.getStore();
}

/** Fields that join a line of the log with its trace, named as OpenTelemetry has them. */
export function traceFields(): { trace_id?: string; span_id?: string } {
  const span = current.getStore();
  return span === undefined ? {} : { trace_id: span.context.traceId, span_id: span.context.spanId };
}

/** For work that continues later or elsewhere, and is stored until then: the `traceparent` of the current span. */
export function carriedTrace(): { trace?: string } {
  const span = current.getStore();
  return span === undefined ? {} : { trace: traceparentOf(span.context) };
}

/** Does the work in a span; with undefined in none, for loops that one piece of work wakes and that serve all. */
export function inSpan<T>(span: Span | undefined, work: () => T): T {
  return span === current.getStore() ? work() : current.run(span, work);
}
