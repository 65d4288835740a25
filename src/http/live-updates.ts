import type { ServerResponse } from 'node:http';
import { eventMessageJson, type StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { compareEventIds, type EventId, formatEventId } from '#events/event-id.ts';
import { eventBatches, placesAfter } from '#events/event-page-store.ts';
import { hasEvent, lastEventId, retainedMax } from '#events/event-store.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';

/** The comment that opens the stream and keeps it alive; clients of the original know this text. */
const handshake = ':sse-handshake\n\n';
const keepAliveMsDefault = 15_000;
/** Nothing more is written to a reader that has this much still to take (and one event, however large). */
const unsentBytesMax = 1024 * 1024;
/** It gets this long to take it, then it is cut off: events are in the store, so it can resume. */
const slowReaderMs = 10_000;
const catchUpRows = retainedMax;
/** Events that arrive while a reader catches up are kept for it, up to so many and so much; beyond, the store has them. */
const arrivedEventsMax = 1000;
const arrivedBytesMax = 1024 * 1024;

export interface LiveStreamOptions {
  store: Store;
  bus: EventBus;
  logger: Logger;
  emitterId: string;
  channel: string;
  /** From the Last-Event-ID header: the last event the reader has seen. */
  lastEventId: EventId | undefined;
  /** Whether the reader may still read: its key, its membership and the source may have gone since it came. */
  mayRead: () => Promise<boolean>;
}

/**
 * One reader of an emitter's events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
 *
 * Promise: after the handshake the reader gets every event of the channel in the order of its ids, or a `gap` message
 * where something is gone, or its stream ends. How: `#lastSent` is the only state; an event from the bus is written
 * when the reader is up to date, and otherwise the reader catches up from the store, as fast as it takes what it gets.
 * Only durable events carry an `id:`, so `Last-Event-ID` always means a place in the log.
 */
export class LiveStream {
  readonly #options: LiveStreamOptions;
  readonly #response: ServerResponse;
  #lastSent: EventId = { ms: 0, seq: 0 };
  /** The newest event of the emitter, on any channel, that the bus brought: whether another one follows it unbroken. */
  #lastSeen: EventId = { ms: 0, seq: 0 };
  /** The store may hold events that were not sent: set by whatever could not be written directly. */
  #behind = true;
  #catchingUp = false;
  /** What the bus brought while the reader was not up to date. */
  #arrived: StoredEvent[] = [];
  #arrivedBytes = 0;
  /** A reader is told once of a gap, not again before its next event. */
  #toldOfGap = false;
  /** The newest event of the emitter, on any channel, when it was last looked for. */
  #lastFound: EventId = { ms: 0, seq: 0 };
  #looking = false;
  #ended = false;
  #keepAlive: NodeJS.Timeout | undefined;
  #unsubscribe: (() => void) | undefined;
  readonly #onEnd: () => void;

  readonly #keepAliveMs: number;

  constructor(
    response: ServerResponse,
    options: LiveStreamOptions & { keepAliveMs: number },
    onEnd: () => void,
  ) {
    this.#keepAliveMs = options.keepAliveMs;
    this.#response = response;
    this.#options = options;
    this.#onEnd = onEnd;
  }

  async start(): Promise<void> {
    const { bus, emitterId, store, channel, lastEventId: seen } = this.#options;
    this.#response.on('close', () => this.end('closed by the reader'));
    this.#response.on('error', () => this.end('connection failed'));
    // Subscribed before looking: what is stored from here on is either in the look or makes the stream catch up.
    this.#unsubscribe = bus.subscribe(emitterId, {
      event: (event) => this.#receive(event),
      storedElsewhere: () => this.#catchUp(),
      emitterRemoved: () => this.end('the emitter was removed'),
    });
    const found = await lastEventId(store.read, emitterId);
    const newest = found ?? this.#lastSent;
    this.#lastFound = newest;
    // An id that was never given means nothing was missed; taken as it is, it would hold back all events up to it.
    const resumes = seen !== undefined && compareEventIds(newest, seen) > 0;
    this.#lastSent = resumes ? seen : newest;
    const lostSomething = resumes && !(await hasEvent(store.read, { emitterId, channel, id: seen }));
    if (this.#ended) return;
    this.#response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      connection: 'keep-alive',
      'x-accel-buffering': 'no',
    });
    this.#write(handshake);
    if (found === undefined) {
      this.end('the emitter was removed');
      return;
    }
    if (lostSomething) this.#writeGap();
    this.#keepAlive = setInterval(() => {
      this.#write(handshake);
      void this.#look();
    }, this.#keepAliveMs);
    this.#catchUp();
  }

  /** Ends the stream; the reader may connect again and resume. */
  end(reason: string): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#keepAlive);
    this.#unsubscribe?.();
    this.#options.logger.info({ emitter: this.#options.emitterId, reason }, 'stream.ended');
    this.#response.end();
    this.#onEnd();
  }

  /** Ends the stream without an answer, for a reader that got none yet: an empty one would look complete. */
  cutOff(error: Error): void {
    const { emitterId, logger } = this.#options;
    logger.warn({ emitter: emitterId, error: error.message }, 'stream.start-failed');
    this.#response.destroy();
    this.end('the store could not be read');
  }

  /**
   * Whether the stream may go on, and whether there is anything it was not told of: notifications of other processes can
   * be lost.
   */
  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    const { store, emitterId, logger, mayRead } = this.#options;
    try {
      if (!(await mayRead())) {
        this.end('the reader may not read this any more');
        return;
      }
      const newest = await lastEventId(store.read, emitterId);
      if (newest === undefined) {
        this.end('the emitter was removed');
        return;
      }
      const isNews =
        compareEventIds(newest, this.#lastFound) > 0 && compareEventIds(newest, this.#lastSeen) > 0;
      this.#lastFound = newest;
      if (isNews) this.#catchUp();
    } catch (error) {
      logger.warn({ emitter: emitterId, error: toError(error).message }, 'stream.look-failed');
      this.end('the store could not be read');
    } finally {
      this.#looking = false;
    }
  }

  #receive(event: StoredEvent): void {
    // Another process may have stored the one before: then the store has to be read before this one is sent.
    if (event.previous !== undefined && compareEventIds(event.previous, this.#lastSeen) > 0)
      this.#behind = true;
    if (compareEventIds(event, this.#lastSeen) > 0) this.#lastSeen = { ms: event.ms, seq: event.seq };
    if (event.channel !== this.#options.channel) return;
    const isUpToDate = !this.#behind && !this.#catchingUp;
    if (isUpToDate && this.#response.writableLength <= unsentBytesMax) {
      this.#send(event);
      return;
    }
    this.#arrived.push(event);
    this.#arrivedBytes += event.event.length;
    if (this.#arrived.length > arrivedEventsMax || this.#arrivedBytes > arrivedBytesMax) {
      this.#takeArrived(undefined);
      this.#behind = true;
    }
    if (!this.#catchingUp) this.#catchUp();
  }

  /** Sends what the store has beyond `#lastSent`, and what arrived, until nothing more came in between. */
  #catchUp(): void {
    this.#behind = true;
    if (this.#catchingUp || this.#ended) return;
    this.#catchingUp = true;
    this.#sendMissed()
      .catch((error: unknown) => {
        this.#options.logger.warn(
          { emitter: this.#options.emitterId, error: toError(error).message },
          'stream.catch-up-failed',
        );
        this.end('the store could not be read');
      })
      .finally(() => {
        this.#catchingUp = false;
        if ((this.#behind || this.#arrived.length > 0) && !this.#ended) this.#catchUp();
      });
  }

  async #sendMissed(): Promise<void> {
    const { store, emitterId, channel } = this.#options;
    for (let complete = false; !complete && !this.#ended; ) {
      this.#behind = false;
      await this.#untilTaken();
      const after = this.#lastSent;
      const missed = await placesAfter(store.read, { emitterId, channel, after, limit: catchUpRows });
      complete = missed.length < catchUpRows;
      if (!complete && !(await hasEvent(store.read, { emitterId, channel, id: after }))) {
        // Pruning takes the oldest first, and only what the bus has brought: were the last one sent there, or fewer
        // newer ones than are kept, or had they arrived, nothing in between could be gone.
        const first = this.#arrived[0];
        const covered =
          first !== undefined && missed[0] !== undefined && compareEventIds(first, missed[0]) < 0;
        if (!covered) this.#writeGap();
      }
      for await (const batch of eventBatches(store.read, { emitterId, channel }, missed)) {
        if (this.#ended) return;
        // Pruned or deleted while the batches before were sent.
        if (batch.events.length < batch.places.length) this.#writeGap();
        const arrived = this.#takeArrived(batch.places.at(-1));
        for (const event of [...batch.events, ...arrived].sort(compareEventIds)) {
          await this.#untilTaken();
          this.#send(event);
        }
      }
    }
    // What arrived beyond that follows it without a break, unless something was stored elsewhere meanwhile.
    for (let event = this.#arrived[0]; event !== undefined && !this.#behind; event = this.#arrived[0]) {
      await this.#untilTaken();
      this.#takeArrived(event);
      this.#send(event);
    }
  }

  /** What arrived up to `last`; all of it without one. */
  #takeArrived(last: EventId | undefined): StoredEvent[] {
    const until =
      last === undefined ? -1 : this.#arrived.findIndex((event) => compareEventIds(event, last) > 0);
    const taken = this.#arrived.splice(0, until === -1 ? this.#arrived.length : until);
    this.#arrivedBytes -= taken.reduce((sum, event) => sum + event.event.length, 0);
    return taken;
  }

  /** Waits until the reader took what was written, if that is much; ends the stream of one that takes too long. */
  async #untilTaken(): Promise<void> {
    if (this.#ended || this.#response.writableLength <= unsentBytesMax) return;
    const taken = Promise.withResolvers<void>();
    const tooSlow = setTimeout(() => {
      this.#response.destroy();
      this.end('the reader is too slow');
      taken.resolve();
    }, slowReaderMs);
    this.#response.once('drain', taken.resolve);
    this.#response.once('close', taken.resolve);
    await taken.promise;
    clearTimeout(tooSlow);
    this.#response.off('drain', taken.resolve);
    this.#response.off('close', taken.resolve);
  }

  #send(event: StoredEvent): void {
    if (this.#ended || compareEventIds(event, this.#lastSent) <= 0) return;
    this.#lastSent = { ms: event.ms, seq: event.seq };
    this.#toldOfGap = false;
    this.#write(messageOf(event));
  }

  #writeGap(): void {
    if (this.#toldOfGap) return;
    this.#toldOfGap = true;
    const gap = {
      after: formatEventId(this.#lastSent),
      reason: 'events after this one may have been removed',
    };
    this.#write(`event: gap\ndata: ${JSON.stringify(gap)}\n\n`);
  }

  #write(text: string): void {
    if (!this.#ended) this.#response.write(text);
  }
}

/** One text for all readers of an event. */
const messages = new WeakMap<StoredEvent, string>();

function messageOf(event: StoredEvent): string {
  const known = messages.get(event);
  if (known !== undefined) return known;
  const text = `id: ${formatEventId(event)}\ndata: ${eventMessageJson(event)}\n\n`;
  messages.set(event, text);
  return text;
}

/** All open streams, so that a stopping service can end them. */
export class LiveStreams {
  readonly #open = new Set<LiveStream>();
  readonly #keepAliveMs: number;

  constructor(options: { keepAliveMs?: number } = {}) {
    this.#keepAliveMs = options.keepAliveMs ?? keepAliveMsDefault;
  }

  get count(): number {
    return this.#open.size;
  }

  /** Does not reject: a reader whose stream cannot start is cut off, and may connect again. */
  async open(response: ServerResponse, options: LiveStreamOptions): Promise<void> {
    const stream = new LiveStream(response, { ...options, keepAliveMs: this.#keepAliveMs }, () =>
      this.#open.delete(stream),
    );
    this.#open.add(stream);
    try {
      await stream.start();
    } catch (error) {
      // Nobody else has the connection: left alone, its reader would wait for an answer for ever.
      stream.cutOff(toError(error));
    }
  }

  close(): void {
    for (const stream of this.#open) stream.end('the service stops');
  }
}
