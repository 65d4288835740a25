import type { ServerResponse } from 'node:http';
import type { StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { compareEventIds, type EventId, formatEventId } from '#events/event-id.ts';
import {
  type EventBatch,
  type EventPlace,
  eventBatches,
  pageOfPlaces,
  placesAfter,
} from '#events/event-page-store.ts';
import { hasEvent, lastEventId, retainedMax } from '#events/event-store.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { SharedReads } from './shared-reads.ts';
import { type EndReason, StreamConnection } from './stream-connection.ts';
import { emitterMessage, gapMessage } from './stream-message.ts';
import type { StreamShare } from './stream-share.ts';

const catchUpRows = retainedMax;
/** Larger reads are not shared: each reader reads at its own speed. */
const sharedBytesMax = 256 * 1024;
/** Maximum events, and their size, that are kept for a reader while it catches up. Beyond that it reads them from the store. */
const arrivedEventsMax = 1000;
const arrivedBytesMax = 1024 * 1024;

export interface EmitterStreamOptions {
  store: Store;
  bus: EventBus;
  logger: Logger;
  emitterId: string;
  ownerId: string;
  channel: string;
  /** From the Last-Event-ID header: the last event the reader has seen. */
  lastEventId: EventId | undefined;
  /** True while the reader has the right to read. */
  mayRead: () => Promise<boolean>;
  /** Differences from the stream of a source. */
  style?: StreamStyle;
}

export interface StreamStyle {
  /** A reader without `Last-Event-ID` first gets this many of the newest stored events. */
  replayed: number;
  message: (event: StoredEvent) => Buffer;
  /** The comment at the beginning and at each keep-alive. */
  handshake: string;
  headers: Readonly<Record<string, string>>;
}

interface SharedStreamOptions {
  keepAliveMs: number;
  share: StreamShare;
  /** Shared by all streams of the process. */
  reads: SharedReads;
}

/**
 * One reader of an emitter's events.
 *
 * Promise: after the handshake the reader gets every event of the channel in the order of its ids, or a `gap` message
 * where events are gone, or its stream ends. `#lastSent` is the only state. An event from the bus is written if the reader is up to
 * date; otherwise the reader catches up from the store, at its own speed. Only durable events carry an `id:`, so `Last-Event-ID` always
 * names a position in the log.
 */
export class EmitterStream {
  readonly #options: EmitterStreamOptions & SharedStreamOptions;
  readonly #connection: StreamConnection;
  #lastSent: EventId = { ms: 0, seq: 0 };
  /** The newest event of the emitter, on any channel, from the bus. By it the stream sees whether the next one follows without a gap. */
  #lastSeen: EventId = { ms: 0, seq: 0 };
  /** False: events from the bus are only kept. */
  #isStarted = false;
  /** The store may have events that were not sent. */
  #behind = false;
  #catchingUp = false;
  /** Events from the bus while the reader was not up to date. */
  #arrived: StoredEvent[] = [];
  #arrivedBytes = 0;
  /** A gap was reported, and is not reported again before the next event. */
  #toldOfGap = false;
  /** The newest event of the emitter, on any channel, when it was last looked for. */
  #lastFound: EventId = { ms: 0, seq: 0 };
  #unsubscribe: (() => void) | undefined;

  constructor(
    response: ServerResponse,
    options: EmitterStreamOptions & SharedStreamOptions,
    onEnd: () => void,
  ) {
    this.#options = options;
    this.#connection = new StreamConnection(response, {
      logger: options.logger,
      about: { emitter: options.emitterId },
      ...{ keepAliveMs: options.keepAliveMs, share: options.share },
      mayRead: options.mayRead,
      look: () => this.#look(),
      ...(options.style && { handshake: options.style.handshake, headers: options.style.headers }),
      onEnd: () => {
        this.#unsubscribe?.();
        onEnd();
      },
    });
  }

  async start(): Promise<void> {
    const { bus, emitterId, store, channel, lastEventId: seen } = this.#options;
    // Subscribes before it reads: an event that is stored from here on is read, or makes the stream catch up.
    this.#unsubscribe = bus.subscribe(emitterId, {
      event: (event) => this.#receive(event),
      storedElsewhere: () => this.#catchUp(),
      emitterRemoved: () => this.#connection.end('the emitter was removed'),
    });
    const found = await lastEventId(store.read, emitterId);
    const newest = found ?? this.#lastSent;
    this.#lastFound = newest;
    // An id that does not exist yet means that no event was missed. Used as it is, it would hold back all events up to it.
    const resumes = seen !== undefined && compareEventIds(newest, seen) > 0;
    this.#lastSent = resumes ? seen : newest;
    const replays = !resumes && (await this.#goBack());
    const lostSomething = resumes && !(await hasEvent(store.read, { emitterId, channel, id: seen }));
    this.#connection.open();
    if (found === undefined) {
      this.#connection.end('the emitter was removed');
      return;
    }
    if (lostSomething) this.#writeGap();
    this.#isStarted = true;
    this.#lastSeen = newest;
    // A reader that missed nothing causes no query, because a thousand readers may connect at the same time.
    if (resumes || replays || this.#behind) this.#catchUp();
    for (const event of this.#takeArrived(undefined)) this.#receive(event);
  }

  end(reason: EndReason): void {
    this.#connection.end(reason);
  }

  /** Sets the position before the first replayed event; false when there are none. */
  async #goBack(): Promise<boolean> {
    const { store, emitterId, channel, style } = this.#options;
    if (style === undefined) return false;
    const first = (await pageOfPlaces(store.read, { emitterId, channel, limit: style.replayed })).at(-1);
    if (first === undefined) return false;
    this.#lastSent = { ms: first.ms, seq: first.seq - 1 };
    // A reader that asked for no older events has missed none.
    this.#toldOfGap = true;
    return true;
  }

  /** Asks at once whether its reader may still read. */
  recheck(): void {
    this.#connection.recheck();
  }

  cutOff(error: Error): void {
    this.#connection.cutOff(error);
  }

  /** Looks for events without a notification, because notifications from other processes can be lost. */
  async #look(): Promise<void> {
    const { store, emitterId } = this.#options;
    const newest = await lastEventId(store.read, emitterId);
    if (newest === undefined) {
      this.#connection.end('the emitter was removed');
      return;
    }
    const isNews =
      compareEventIds(newest, this.#lastFound) > 0 && compareEventIds(newest, this.#lastSeen) > 0;
    this.#lastFound = newest;
    if (isNews) this.#catchUp();
  }

  #receive(event: StoredEvent): void {
    if (!this.#isStarted) {
      if (event.channel === this.#options.channel) this.#keep(event);
      return;
    }
    // Another process may have stored the one before: then the store has to be read before this one is sent.
    if (event.previous !== undefined && compareEventIds(event.previous, this.#lastSeen) > 0)
      this.#behind = true;
    if (compareEventIds(event, this.#lastSeen) > 0) this.#lastSeen = { ms: event.ms, seq: event.seq };
    if (event.channel !== this.#options.channel) return;
    const isUpToDate = !this.#behind && !this.#catchingUp;
    if (isUpToDate && !this.#connection.isFull) {
      this.#send(event);
      return;
    }
    this.#keep(event);
    if (!this.#catchingUp) this.#catchUp();
  }

  #keep(event: StoredEvent): void {
    this.#arrived.push(event);
    this.#arrivedBytes += event.event.length;
    if (this.#arrived.length <= arrivedEventsMax && this.#arrivedBytes <= arrivedBytesMax) return;
    this.#takeArrived(undefined);
    this.#behind = true;
  }

  /** Sends the stored events after `#lastSent` and those that arrived, until no more arrive meanwhile. */
  #catchUp(): void {
    this.#behind = true;
    if (!this.#isStarted || this.#catchingUp || this.#connection.ended) return;
    this.#catchingUp = true;
    this.#sendMissed()
      .catch((error: unknown) => this.#connection.fail(error, 'catch-up'))
      .finally(() => {
        this.#catchingUp = false;
        if ((this.#behind || this.#arrived.length > 0) && !this.#connection.ended) this.#catchUp();
      });
  }

  async #sendMissed(): Promise<void> {
    const { store, emitterId, channel } = this.#options;
    for (let complete = false; !complete && !this.#connection.ended; ) {
      this.#behind = false;
      await this.#connection.untilTaken();
      const after = this.#lastSent;
      const missed = await this.#places(after);
      complete = missed.length < catchUpRows;
      if (!complete && !(await hasEvent(store.read, { emitterId, channel, id: after }))) {
        // Pruning takes the oldest first, and only what the bus has brought: were the last one sent there, or fewer
        // newer ones than are kept, or had they arrived, nothing in between could be gone.
        const first = this.#arrived[0];
        const covered =
          first !== undefined && missed[0] !== undefined && compareEventIds(first, missed[0]) < 0;
        if (!covered) this.#writeGap();
      }
      for await (const batch of await this.#batches(missed)) {
        if (this.#connection.ended) return;
        // Pruned or deleted while the batches before were sent.
        if (batch.events.length < batch.places.length) this.#writeGap();
        if (batch.events.length === 0) {
          // More may be gone than that: what is there now is looked for, instead of each of the places.
          complete = false;
          break;
        }
        const arrived = this.#takeArrived(batch.places.at(-1));
        for (const event of [...batch.events, ...arrived].sort(compareEventIds)) {
          await this.#connection.untilTaken();
          this.#send(event);
        }
        // The next batch is read when it can be sent.
        await this.#connection.untilTaken();
      }
    }
    // What arrived beyond that follows it without a break, unless something was stored elsewhere meanwhile.
    for (let event = this.#arrived[0]; event !== undefined && !this.#behind; event = this.#arrived[0]) {
      await this.#connection.untilTaken();
      this.#takeArrived(event);
      this.#send(event);
    }
  }

  #places(after: EventId): Promise<EventPlace[]> {
    const { store, emitterId, channel, reads } = this.#options;
    return reads.read(`${emitterId} ${channel} after ${formatEventId(after)}`, () =>
      placesAfter(store.read, { emitterId, channel, after, limit: catchUpRows }),
    );
  }

  async #batches(places: readonly EventPlace[]): Promise<AsyncIterable<EventBatch> | EventBatch[]> {
    const { store, emitterId, channel, reads, share } = this.#options;
    const [first, last] = [places[0], places.at(-1)];
    if (first === undefined || last === undefined) return [];
    const batches = () =>
      eventBatches(store.read, { emitterId, channel }, places, { bytesMax: share.keptBytesMax });
    if (places.reduce((sum, { bytes }) => sum + bytes, 0) > sharedBytesMax) return batches();
    const key = `${emitterId} ${channel} ${places.length} ${formatEventId(first)} ${formatEventId(last)}`;
    return reads.read(key, () => Array.fromAsync(batches()));
  }

  /** What arrived up to `last`; all of it without one. */
  #takeArrived(last: EventId | undefined): StoredEvent[] {
    const until =
      last === undefined ? -1 : this.#arrived.findIndex((event) => compareEventIds(event, last) > 0);
    const taken = this.#arrived.splice(0, until === -1 ? this.#arrived.length : until);
    this.#arrivedBytes -= taken.reduce((sum, event) => sum + event.event.length, 0);
    return taken;
  }

  #send(event: StoredEvent): void {
    if (this.#connection.ended || compareEventIds(event, this.#lastSent) <= 0) return;
    this.#lastSent = { ms: event.ms, seq: event.seq };
    this.#toldOfGap = false;
    const { style } = this.#options;
    this.#connection.write(style === undefined ? emitterMessage(event) : style.message(event));
  }

  #writeGap(): void {
    if (this.#toldOfGap) return;
    this.#toldOfGap = true;
    this.#connection.write(gapMessage(this.#lastSent));
  }
}
