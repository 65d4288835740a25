import type { EventSummary } from './generated/api-types.ts';
import { MillraceConnectionError, MillraceError } from './millrace-error.ts';
import type { StreamOptions } from './request-options.ts';
import { backoffMs, delay } from './retry.ts';
import { type SseMessage, SseParser } from './sse-parser.ts';

/** What a stream of an emitter has as `data`: the event with its id, as in event summaries with `expand=event`. */
export type StreamedEvent<Event> = EventSummary & { event: Event };

/** What comes from a stream. */
export type StreamMessage<Data> =
  | {
      readonly type: 'event';
      readonly data: Data;
      /** `message`; in the stream of what a workflow sends, the channel. */
      readonly name: string;
      /** Continues after this message later, as the option of this name. Undefined: no place is known yet. */
      readonly lastEventId: string | undefined;
    }
  | {
      /** Events may be missing here: only the last 100 of each emitter are kept, and they can be deleted. */
      readonly type: 'gap';
      /** The event after which they may be missing, where that is known. */
      readonly after: string | undefined;
      /** The emitter of the event; undefined if the stream has only one emitter. */
      readonly emitterId: string | undefined;
      /** A sentence. */
      readonly reason: string;
      readonly lastEventId: string | undefined;
    };

export interface StreamSource {
  /** Opens a connection behind this place; rejects as requests do. */
  open(lastEventId: string | undefined, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  /** The place where the stream is now, asked once before the first connection. Absent: it cannot be asked. */
  newest?(signal: AbortSignal): Promise<string | undefined>;
  readonly method: string;
  readonly path: string;
}

const idleTimeoutDefaultMs = 60_000;
const failuresMaxDefault = 20;
/** A connection that lived so long was a good one: failures after it are counted from zero. */
const goodAfterMs = 10_000;
const wait = { firstMs: 500, maxMs: 30_000 };
/** The reason that the service gives when there is nothing to come back to. */
const removal = 'the emitter was removed';
/** Every event is after it; where streams resume whose emitter had none when they were opened. */
const beforeEverything = '0-0';

/** Statuses after which connecting again may help. */
const passing: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/**
 * A live stream, which is opened when it is iterated and closed when the loop is left. When its connection breaks, or the service
 * restarts, it connects again and resumes behind the last message: no event is lost silently, and an event is repeated
 * only in streams of workspaces (recognisable by `data.metadata.emitter_id` and `data.id`).
 *
 * The loop ends without an error when the signal is aborted and when the emitter is removed while the stream is open. It throws
 * MillraceError when the service refuses the stream (`unauthorized`, `not_found`, …), and MillraceConnectionError when
 * `failuresMax` attempts to connect failed in a row.
 */
export class EventStream<Data> implements AsyncIterable<StreamMessage<Data>> {
  readonly #source: StreamSource;
  readonly #options: StreamOptions;

  constructor(source: StreamSource, options: StreamOptions) {
    this.#source = source;
    this.#options = options;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StreamMessage<Data>, void, undefined> {
    const { signal, failuresMax = failuresMaxDefault, onConnect, onReconnect } = this.#options;
    let { lastEventId } = this.#options;
    let isPlaced = lastEventId !== undefined;
    let hasConnected = false;
    /** Until a message names another place. */
    let resumeFrom: string | undefined;
    let failures = 0;
    while (!isAborted(signal)) {
      const connection = new AbortController();
      const abort = () => connection.abort(signal?.reason);
      signal?.addEventListener('abort', abort, { once: true });
      const openedAtMs = Date.now();
      let error: Error | undefined;
      let endReason: string | undefined;
      try {
        if (!isPlaced && this.#source.newest !== undefined) {
          lastEventId = await this.#source.newest(connection.signal);
          if (lastEventId === undefined) resumeFrom = beforeEverything;
        }
        isPlaced = true;
        const place = lastEventId ?? (hasConnected ? resumeFrom : undefined);
        const body = await this.#source.open(place, connection.signal);
        if (hasConnected && place === undefined) yield unknownPlace();
        hasConnected = true;
        onConnect?.();
        for await (const message of this.#read(body)) {
          lastEventId = message.id ?? lastEventId;
          if (message.id === undefined && message.event === 'end') {
            endReason = reasonOf(message);
            if (endReason === removal) return;
            break;
          }
          failures = 0;
          const told = tell<Data>(message, lastEventId);
          if (told !== undefined) yield told;
        }
      } catch (thrown) {
        if (isAborted(signal)) return;
        error = thrown instanceof Error ? thrown : new Error(String(thrown));
        if (!isPassing(error)) throw error;
      } finally {
        signal?.removeEventListener('abort', abort);
        connection.abort();
      }
      if (Date.now() - openedAtMs >= goodAfterMs) failures = 0;
      failures += 1;
      if (failures > failuresMax) throw this.#gaveUp(error, failures);
      const askedMs = error instanceof MillraceError ? (error.retryAfterMs ?? 0) : 0;
      const waitMs = Math.max(
        Math.min(askedMs, wait.maxMs),
        backoffMs(failures, { ...wait, random: Math.random() }),
      );
      onReconnect?.({ error, endReason, waitMs, lastEventId });
      try {
        await delay(waitMs, signal);
      } catch {
        return;
      }
    }
  }

  /** Messages until the connection ends; throws when it breaks, or when nothing comes for too long. */
  async *#read(body: ReadableStream<Uint8Array>): AsyncGenerator<SseMessage, void, undefined> {
    const { idleTimeoutMs = idleTimeoutDefaultMs } = this.#options;
    const reader = body.getReader();
    const parser = new SseParser();
    const decoder = new TextDecoder();
    try {
      for (;;) {
        const piece = await this.#beforeIdle(reader.read(), idleTimeoutMs);
        if (piece.done) return;
        yield* parser.push(decoder.decode(piece.value, { stream: true }));
      }
    } catch (thrown) {
      if (thrown instanceof MillraceConnectionError || thrown instanceof RangeError) throw thrown;
      throw this.#broken('the connection of the stream broke', thrown);
    } finally {
      reader.cancel().catch(() => undefined);
    }
  }

  async #beforeIdle<T>(reading: Promise<T>, idleTimeoutMs: number): Promise<T> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const idle = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(
        () => reject(this.#broken(`nothing came from the stream for ${idleTimeoutMs} ms`, undefined)),
        idleTimeoutMs,
      );
    });
    try {
      return await Promise.race([reading, idle]);
    } finally {
      clearTimeout(timer);
    }
  }

  #broken(message: string, cause: unknown): MillraceConnectionError {
    const { method, path } = this.#source;
    return new MillraceConnectionError(`${method} ${path}: ${message}`, { method, path, cause });
  }

  #gaveUp(error: Error | undefined, failures: number): Error {
    if (error instanceof MillraceError) return error;
    return this.#broken(`the stream could not be kept open, ${failures} attempts failed in a row`, error);
  }
}

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

function isPassing(error: Error): boolean {
  return error instanceof MillraceError
    ? passing.has(error.status)
    : error instanceof MillraceConnectionError;
}

function reasonOf({ data }: SseMessage): string | undefined {
  const { reason } = JSON.parse(data) as { reason?: unknown };
  return typeof reason === 'string' ? reason : undefined;
}

/** Messages of kinds that are not known yet are left out. */
function tell<Data>(message: SseMessage, lastEventId: string | undefined): StreamMessage<Data> | undefined {
  const { event: name, id } = message;
  if (id === undefined && name === 'gap') {
    const {
      after,
      emitter_id: emitterId,
      reason,
    } = JSON.parse(message.data) as Record<string, string | undefined>;
    return { type: 'gap', after, emitterId, reason: reason ?? 'events may be missing', lastEventId };
  }
  if (id === undefined && name !== 'message') return undefined;
  return { type: 'event', data: JSON.parse(message.data) as Data, name, lastEventId };
}

function unknownPlace(): StreamMessage<never> {
  return {
    type: 'gap',
    after: undefined,
    emitterId: undefined,
    reason: 'the connection broke before the stream told a place to resume from',
    lastEventId: undefined,
  };
}
