import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import { traceRequestJson } from './otlp-json.ts';
import type { EndedSpan, SpanAttributes } from './span.ts';

/** Spans in memory; one has less than 2 KB. What comes when there are as many is dropped and counted. */
const waitingMax = 8_192;
/** Spans in one request. */
const batchMax = 512;
const everyMs = 1_000;
/** A receiver that does not answer by then has failed. */
const answerTimeoutMs = 10_000;
/** The same spans are sent this often at most. */
const triesMax = 5;
/** What a stop waits for the last spans. */
const stopMs = 1_500;
/** Answers after which the same spans are sent again, as OTLP has it. */
const repeatable = [429, 502, 503, 504];

/** Posts JSON to the receiver. Rejects when it does not answer in time, or `signal` is aborted. */
export type PostSpans = (
  json: Buffer,
  options: { timeoutMs: number; signal: AbortSignal },
) => Promise<{ status: number; body: string }>;

/** Spans by outcome, since the start. */
export type SpanCounts = Record<'exported' | 'dropped' | 'failed', number>;

/**
 * Sends spans to a receiver of OTLP over HTTP as JSON. Work never waits for it: spans go into a bounded queue, one request at a time
 * takes a batch from it, and what a receiver that is slow or away does not take in time is dropped.
 */
export class SpanExporter {
  readonly #post: PostSpans;
  readonly #resource: { attributes: SpanAttributes; version: string };
  readonly #answerTimeoutMs: number;
  readonly #task: PeriodicTask;
  readonly #stop = new AbortController();
  readonly #counts: SpanCounts = { exported: 0, dropped: 0, failed: 0 };
  #waiting: EndedSpan[] = [];
  /** The batch that is sent, or is to be sent again. */
  #batch: readonly EndedSpan[] = [];
  #tries = 0;

  constructor(options: {
    post: PostSpans;
    /** Host of the receiver, for the log. */
    receiver: string;
    resource: { attributes: SpanAttributes; version: string };
    logger: Logger;
    everyMs?: number;
    answerTimeoutMs?: number;
  }) {
    this.#post = options.post;
    this.#resource = options.resource;
    this.#answerTimeoutMs = options.answerTimeoutMs ?? answerTimeoutMs;
    this.#task = new PeriodicTask({
      everyMs: options.everyMs ?? everyMs,
      work: () => this.#send(),
      logger: options.logger,
      failure: 'trace.export-failed',
      about: { receiver: options.receiver },
    });
  }

  start(): void {
    this.#task.start();
  }

  /** Sends what is left, for a moment; a receiver that hangs does not hold up the stop. May be called twice. */
  async stop(): Promise<void> {
    const timer = setTimeout(() => this.#stop.abort(), stopMs);
    await this.#task.stop();
    // The last requests of a service that stops failed: there is no later time to send them again.
    await this.#send().catch(() => {});
    clearTimeout(timer);
    this.#counts.failed += this.#batch.length + this.#waiting.length;
    this.#batch = [];
    this.#waiting = [];
  }

  add(span: EndedSpan): void {
    if (this.#waiting.length >= waitingMax) this.#counts.dropped += 1;
    else this.#waiting.push(span);
  }

  counts(): SpanCounts & { waiting: number } {
    return { ...this.#counts, waiting: this.#waiting.length + this.#batch.length };
  }

  /** Sends all that waits, batch by batch. Rejects when the receiver did not take one. */
  async #send(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      if (this.#batch.length === 0) {
        this.#batch = this.#waiting.splice(0, batchMax);
        this.#tries = 0;
      }
      if (this.#batch.length === 0) return;
      this.#tries += 1;
      const failure = await this.#sendBatch(this.#batch);
      if (failure === undefined) continue;
      if (!failure.mayRepeat || this.#tries >= triesMax) {
        this.#counts.failed += this.#batch.length;
        this.#batch = [];
      }
      throw new Error(failure.reason);
    }
  }

  /** Undefined: the receiver has the batch. */
  async #sendBatch(batch: readonly EndedSpan[]): Promise<{ reason: string; mayRepeat: boolean } | undefined> {
    let answer: { status: number; body: string };
    try {
      answer = await this.#post(Buffer.from(traceRequestJson(batch, this.#resource)), {
        timeoutMs: this.#answerTimeoutMs,
        signal: this.#stop.signal,
      });
    } catch (error) {
      return { reason: `the receiver cannot be reached: ${toError(error).message}`, mayRepeat: true };
    }
    const { status, body } = answer;
    if (status < 200 || status > 299)
      return {
        reason: `the receiver answered ${status}, expected 200`,
        mayRepeat: repeatable.includes(status),
      };
    const rejected = Math.min(rejectedSpans(body), batch.length);
    this.#counts.exported += batch.length - rejected;
    this.#counts.failed += rejected;
    this.#batch = [];
    return undefined;
  }
}

/** How many spans the receiver says that it did not take. */
function rejectedSpans(answer: string): number {
  try {
    const { partialSuccess } = JSON.parse(answer) as { partialSuccess?: { rejectedSpans?: unknown } };
    const count = Number(partialSuccess?.rejectedSpans ?? 0);
    return Number.isSafeInteger(count) && count > 0 ? count : 0;
  } catch {
    return 0;
  }
}

/**
 * Headers as `OTEL_EXPORTER_OTLP_HEADERS` has them: `name=value,name=value`, percent-encoded. Throws an Error that names the problem
 * and no value.
 */
export function parseExportHeaders(text: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [index, part] of text.split(',').entries()) {
    if (part.trim() === '') continue;
    const at = part.indexOf('=');
    const name = part.slice(0, at).trim().toLowerCase();
    if (at < 1 || !/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name))
      throw new Error(
        `expected name=value,name=value with names of headers, found something else in part ${index + 1}`,
      );
    let value: string;
    try {
      value = decodeURIComponent(part.slice(at + 1).trim());
    } catch {
      throw new Error(
        `expected a percent-encoded value of ${name}, found a percent sign without two hexadecimal digits`,
      );
    }
    if (!/^[\t\x20-\x7e]*$/.test(value))
      throw new Error(`expected a value of ${name} in printable ASCII, found other characters`);
    headers[name] = value;
  }
  return headers;
}
