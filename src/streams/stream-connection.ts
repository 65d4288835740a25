import type { ServerResponse } from 'node:http';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { StreamShare } from './stream-share.ts';

/** The comment that opens a stream and keeps it alive; clients of the original know this text. */
const handshakeDefault = ':sse-handshake';
/** Response headers of every stream. A HEAD request is answered with them alone. */
export const streamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
} as const;

/** A reader gets this long to take what was written, then it is cut off: events are in the store, so it can resume. */
const slowReaderMs = 10_000;

/** Why a stream ends, in the words that its reader gets. */
export type EndReason =
  | 'the emitter was removed'
  | 'the service stops'
  /** One answer for a revoked key, a lost membership and a resource that is gone: which it was is not the reader's. */
  | 'access ended'
  | 'the store could not be read';

export interface StreamConnectionOptions {
  logger: Logger;
  /** Fields of each log line: what is read here. */
  about: Readonly<Record<string, string>>;
  keepAliveMs: number;
  share: StreamShare;
  /** The comment at the beginning and at each keep-alive, where it is not that of sources. */
  handshake?: string;
  /** Response headers in addition to those of every stream. */
  headers?: Readonly<Record<string, string>>;
  /** Asked at each keep-alive: the key, the membership and the resource may have gone since the reader came. */
  mayRead: () => Promise<boolean>;
  /** Called at each keep-alive after `mayRead`; when it rejects, the stream ends. */
  look: () => Promise<void>;
  onEnd: () => void;
}

/**
 * The connection of one reader of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html):
 * handshake, keep-alive, and an end with a reason. What is written and when is up to its user, who waits for
 * `untilTaken` while it `isFull`: a reader that does not take what it gets costs a bounded amount of memory, and ends.
 */
export class StreamConnection {
  readonly #response: ServerResponse;
  readonly #options: StreamConnectionOptions;
  #isOpen = false;
  #ended = false;
  #looking = false;
  #lookAgain = false;
  #keepAlive: NodeJS.Timeout | undefined;

  constructor(response: ServerResponse, options: StreamConnectionOptions) {
    this.#response = response;
    this.#options = options;
    response.on('close', () => this.#finish('closed by the reader'));
    response.on('error', () => this.#finish('connection failed'));
  }

  get ended(): boolean {
    return this.#ended;
  }

  get isFull(): boolean {
    return this.#isUntaken || this.#options.share.isUsedUp;
  }

  /** The reader has this much still to take, and one message, however large: nothing more is written to it. */
  get #isUntaken(): boolean {
    return this.#response.writableLength > this.#options.share.keptBytesMax;
  }

  open(): void {
    if (this.#ended) return;
    if (this.#response.destroyed) {
      // It left before this listened to it.
      this.#finish('closed by the reader');
      return;
    }
    this.#isOpen = true;
    const handshake = Buffer.from(`${this.#options.handshake ?? handshakeDefault}\n\n`);
    this.#response.writeHead(200, {
      ...streamHeaders,
      connection: 'keep-alive',
      ...this.#options.headers,
    });
    this.write(handshake);
    this.#keepAlive = setInterval(() => {
      this.write(handshake);
      void this.#look();
    }, this.#options.keepAliveMs);
  }

  /**
   * Node writes what comes in one turn with one call, so that a reader costs less the more there is to do. Gathering
   * over several turns was measured with 1,000 readers: it made 30 events a second slower, and 100 no faster.
   */
  write(message: Buffer): void {
    if (this.#ended) return;
    this.#options.share.wrote(message.length);
    this.#response.write(message);
  }

  /**
   * Waits until the reader took what was written, if that is much, and until its owner's readers may have more; cuts off one that takes
   * too long.
   */
  async untilTaken(): Promise<void> {
    if (this.#ended || !this.isFull) return;
    if (this.#isUntaken) await this.#untilDrained();
    if (!this.#ended && this.#options.share.isUsedUp) await this.#options.share.turn(() => this.#ended);
  }

  async #untilDrained(): Promise<void> {
    const taken = Promise.withResolvers<void>();
    const tooSlow = setTimeout(() => {
      // The reader does not read, so it cannot get a message.
      this.#response.destroy();
      this.#finish('the reader is too slow');
      taken.resolve();
    }, slowReaderMs);
    this.#response.once('drain', taken.resolve);
    this.#response.once('close', taken.resolve);
    await taken.promise;
    clearTimeout(tooSlow);
    this.#response.off('drain', taken.resolve);
    this.#response.off('close', taken.resolve);
  }

  /** Ends the stream with a reason; the reader may connect again and resume. */
  end(reason: EndReason): void {
    if (this.#ended) return;
    if (!this.#isOpen) {
      // It got no answer yet, and an empty one would look complete.
      this.#response.destroy();
    } else {
      this.write(Buffer.from(`event: end\ndata: ${JSON.stringify({ reason })}\n\n`));
      this.#response.end();
      const stuck = setTimeout(() => this.#response.destroy(), slowReaderMs).unref();
      this.#response.once('close', () => clearTimeout(stuck));
    }
    this.#finish(reason);
  }

  /** Asks at once whether its reader may still read: access may have ended a moment ago. */
  recheck(): void {
    // A question under way may have been asked before the change.
    this.#lookAgain = this.#looking;
    if (!this.#looking && !this.#ended) void this.#look();
  }

  /** Ends a stream that cannot start. */
  cutOff(error: Error): void {
    const { logger, about } = this.#options;
    logger.warn({ ...about, error: error.message }, 'stream.start-failed');
    this.end('the store could not be read');
  }

  /** Ends a stream that cannot continue. */
  fail(thrown: unknown, what: 'look' | 'catch-up'): void {
    if (this.#ended) return;
    const { logger, about } = this.#options;
    logger.warn({ ...about, error: toError(thrown).message }, `stream.${what}-failed`);
    this.end('the store could not be read');
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      if (await this.#options.mayRead()) await this.#options.look();
      else this.end('access ended');
    } catch (error) {
      this.fail(error, 'look');
    } finally {
      this.#looking = false;
    }
    if (this.#lookAgain) this.recheck();
  }

  #finish(reason: EndReason | 'closed by the reader' | 'connection failed' | 'the reader is too slow'): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#keepAlive);
    this.#options.share.leave();
    this.#options.logger.info({ ...this.#options.about, reason }, 'stream.ended');
    this.#options.onEnd();
  }
}
