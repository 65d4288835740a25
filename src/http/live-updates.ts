import type { ServerResponse } from 'node:http';
import { eventMessageJson, type StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { compareEventIds, type EventId, formatEventId } from '#events/event-id.ts';
import { hasEvent, lastEventId, readEventsAfter } from '#events/event-store.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';

/** The comment that opens the stream and keeps it alive; clients of the original know this text. */
const handshake = ':sse-handshake\n\n';
const keepAliveMs = 15_000;
/** A reader this far behind is cut off: events are in the store, so it can resume, and memory stays bounded. */
const unsentBytesMax = 1024 * 1024;
const catchUpRows = 100;

export interface LiveStreamOptions {
  store: Store;
  bus: EventBus;
  logger: Logger;
  emitterId: string;
  channel: string;
  /** From the Last-Event-ID header: the last event the reader has seen. */
  lastEventId: EventId | undefined;
}

/**
 * One reader of an emitter's events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
 *
 * Promise: after the handshake the reader gets every event of the channel in the order of its ids, or a `gap` message
 * where something is gone, or its stream ends. How: `#lastSent` is the only state; an event from the bus is written
 * when the reader is up to date, and otherwise the reader catches up from the store, which has all of them.
 * Only durable events carry an `id:`, so `Last-Event-ID` always means a place in the log.
 */
export class LiveStream {
  readonly #options: LiveStreamOptions;
  readonly #response: ServerResponse;
  #lastSent: EventId = { ms: 0, seq: 0 };
  /** The store may hold events that were not sent: set by whatever could not be written directly. */
  #behind = true;
  #catchingUp = false;
  #ended = false;
  #keepAlive: NodeJS.Timeout | undefined;
  #unsubscribe: (() => void) | undefined;
  readonly #onEnd: () => void;

  constructor(response: ServerResponse, options: LiveStreamOptions, onEnd: () => void) {
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
    const newest = await lastEventId(store.read, emitterId);
    this.#lastSent = seen ?? newest;
    const lostSomething =
      seen !== undefined &&
      compareEventIds(newest, seen) > 0 &&
      !(await hasEvent(store.read, { emitterId, channel, id: seen }));
    if (this.#ended) return;
    this.#response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      connection: 'keep-alive',
      'x-accel-buffering': 'no',
    });
    this.#write(handshake);
    if (lostSomething && seen !== undefined) {
      this.#write(
        `event: gap\ndata: ${JSON.stringify({ after: formatEventId(seen), reason: 'events after this one may have been removed' })}\n\n`,
      );
    }
    this.#keepAlive = setInterval(() => this.#write(handshake), keepAliveMs);
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

  #receive(event: StoredEvent): void {
    if (event.channel !== this.#options.channel) return;
    if (this.#behind || this.#catchingUp) {
      this.#behind = true;
      return;
    }
    this.#send(event);
  }

  /** Sends what the store has beyond `#lastSent` until nothing more came in between. */
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
        if (this.#behind && !this.#ended) this.#catchUp();
      });
  }

  async #sendMissed(): Promise<void> {
    const { store, emitterId, channel } = this.#options;
    this.#behind = false;
    for (;;) {
      const events = await readEventsAfter(store.read, {
        emitterId,
        channel,
        after: this.#lastSent,
        limit: catchUpRows,
      });
      for (const event of events) this.#send(event);
      if (events.length < catchUpRows || this.#ended) return;
    }
  }

  #send(event: StoredEvent): void {
    if (this.#ended || compareEventIds(event, this.#lastSent) <= 0) return;
    this.#lastSent = { ms: event.ms, seq: event.seq };
    this.#write(messageOf(event));
  }

  #write(text: string): void {
    if (this.#ended) return;
    this.#response.write(text);
    if (this.#response.writableLength > unsentBytesMax) {
      this.#response.destroy();
      this.end('the reader is too slow');
    }
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

  get count(): number {
    return this.#open.size;
  }

  async open(response: ServerResponse, options: LiveStreamOptions): Promise<void> {
    const stream = new LiveStream(response, options, () => this.#open.delete(stream));
    this.#open.add(stream);
    await stream.start();
  }

  close(): void {
    for (const stream of this.#open) stream.end('the service stops');
  }
}
