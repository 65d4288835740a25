import type { Sampler } from './sampler.ts';
import { type EndedSpan, Span, type SpanOptions, type SpanRecorder } from './span.ts';
import { derivedIds, newSpanId, newTraceId, parseTraceparent, type TraceContext } from './trace-context.ts';

/** Starts the spans that other spans are below: of requests, jobs and deliveries. Without an exporter tracing is off and there are no spans at all. */
export class Tracer implements SpanRecorder {
  readonly nowMs: () => number;
  readonly #exporter: { add(span: EndedSpan): void } | undefined;
  readonly #sampler: Sampler;

  constructor(options: {
    exporter: { add(span: EndedSpan): void } | undefined;
    sampler: Sampler;
    nowMs: () => number;
  }) {
    this.#exporter = options.exporter;
    this.#sampler = options.sampler;
    this.nowMs = options.nowMs;
  }

  get isOn(): boolean {
    return this.#exporter !== undefined;
  }

  /**
   * Starts a span below the sender's, or at the root of a new trace. Undefined when tracing is off.
   * @param parent the `traceparent` that came with the work; anything else counts as none
   */
  start(options: SpanOptions, parent?: unknown): Span | undefined {
    if (this.#exporter === undefined) return undefined;
    const from = parseTraceparent(parent);
    return this.#span(options, from, { traceId: from?.traceId ?? newTraceId(), spanId: newSpanId() });
  }

  /** Like `start`, for work that processes take from each other: its span has the same ids in each of them, derived from the id of the work. */
  resume(options: SpanOptions & { id: string }, parent?: unknown): Span | undefined {
    if (this.#exporter === undefined) return undefined;
    const from = parseTraceparent(parent);
    const { traceId, spanId } = derivedIds(options.id);
    return this.#span(options, from, { traceId: from?.traceId ?? traceId, spanId });
  }

  /** Part of `SpanRecorder`: use `Span.child`. */
  child(parent: TraceContext, options: SpanOptions): Span {
    const context = { ...parent, spanId: newSpanId() };
    return new Span(this, { ...options, context, parentSpanId: parent.spanId });
  }

  ended(span: EndedSpan): void {
    this.#exporter?.add(span);
  }

  #span(
    options: SpanOptions,
    from: TraceContext | undefined,
    ids: Pick<TraceContext, 'traceId' | 'spanId'>,
  ): Span {
    const context = { ...ids, sampled: this.#sampler(ids.traceId, from) };
    return new Span(this, { ...options, context, parentSpanId: from?.spanId });
  }
}

/** For tests, and processes that trace nothing. */
export const noTracer = new Tracer({ exporter: undefined, sampler: () => false, nowMs: () => 0 });
