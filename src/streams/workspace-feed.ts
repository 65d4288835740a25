import { emittersOf } from '#events/emitter-store.ts';
import type { StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { compareEventIds, type EventId } from '#events/event-id.ts';
import { lastEventId } from '#events/event-store.ts';
import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { ChannelLog, type LogReader } from './channel-log.ts';
import { HeldEvents } from './held-events.ts';
import { type MissedRange, missedEvents } from './missed-events.ts';
import { RecentPlaces, type StreamMark } from './stream-mark.ts';
import { gapMessage, workspaceMessage } from './stream-message.ts';

/** A mark can be as long as several events, so it is sent only this often. A reader that reconnects gets the events of this time twice at most. */
const markEveryMs = 1000;
/** Emitters that are read from the store at the same time. */
const readsMax = 4;

const noEvent: EventId = { ms: 0, seq: 0 };

export interface WorkspaceFeedOptions {
  store: Store;
  bus: EventBus;
  clock: Clock;
  logger: Logger;
  workspaceId: string;
  /** Interval of the poll for events without a notification. */
  lookEveryMs: number;
  onEnd: () => void;
}

/** The position of the feed in the events of one emitter. */
interface Position {
  /** All events up to this one were sent to readers, or are being read. */
  last: EventId;
  /** The newest event that was sent to readers, and its channel. */
  sent?: { channel: string; id: EventId };
}

export interface FeedReader extends LogReader {
  /** The store could not be read, so events may be missing from here on. */
  feedFailed(): void;
}

interface ReaderChannel {
  log: ChannelLog<FeedReader>;
  /** Epoch ms. */
  nextMarkMs: number;
}

/**
 * All events of a workspace in one order, for all its readers in this process: each event of each emitter once, by
 * ascending id, whichever process stored it, or a `gap` where events may be gone. Events come from the bus. An event that does
 * not follow the last one sent, or that another process stored, makes the feed read its emitter from the store.
 *
 * Events of different emitters are in the order of their arrival here. The store has no such order: ids are per emitter,
 * and transactions do not commit in the order in which they begin. So a position in the feed has one id per emitter
 * (`StreamMark`). Memory: one position per emitter of the workspace, and events that are held for a bounded time.
 */
export class WorkspaceFeed {
  readonly #options: WorkspaceFeedOptions;
  readonly #channels = new Map<string, ReaderChannel>();
  readonly #positions = new Map<string, Position>();
  readonly #recent = new RecentPlaces();
  /** Emitters that have to be read, that are being read, and what arrived of them meanwhile. */
  readonly #behind = new Set<string>();
  readonly #reading = new Set<string>();
  readonly #held = new HeldEvents();
  /** Readers, and those that wait until it is ready. */
  #users = 0;
  #isLoaded = false;
  #looking: 'no' | 'yes' | 'again' = 'no';
  #ended = false;
  #timer: NodeJS.Timeout | undefined;
  #unsubscribe: (() => void) | undefined;
  /** Rejects when the store could not be read; the feed is over then. */
  readonly ready: Promise<void>;

  constructor(options: WorkspaceFeedOptions) {
    this.#options = options;
    this.ready = this.#start();
  }

  /** The feed continues until all readers that entered have left. */
  enter(): void {
    this.#users += 1;
  }

  leave(): void {
    this.#users -= 1;
    if (this.#users === 0) this.#end();
  }

  /** Only when `ready`. Events from now on go to the reader. */
  join(channel: string, reader: FeedReader): ChannelLog<FeedReader> {
    const readers = this.#channels.get(channel) ?? { log: new ChannelLog(), nextMarkMs: 0 };
    this.#channels.set(channel, readers);
    // A mark is sent immediately, so that a reader that leaves soon can resume too.
    readers.nextMarkMs = 0;
    readers.log.join(reader);
    return readers.log;
  }

  part(channel: string, reader: FeedReader): void {
    const log = this.#channels.get(channel)?.log;
    log?.leave(reader);
    if (log?.hasReaders === false) this.#channels.delete(channel);
  }

  mark(): StreamMark {
    return this.#recent.mark(this.#options.clock.now());
  }

  /** The ranges that were sent since the mark, by emitter. The feed itself sends what follows them. */
  missedSince(mark: StreamMark): Omit<MissedRange, 'channel'>[] {
    const missed: Omit<MissedRange, 'channel'>[] = [];
    for (const [emitterId, { last }] of this.#positions) {
      const after = mark.after(emitterId);
      if (compareEventIds(last, after) > 0) missed.push({ emitterId, after, upTo: last });
    }
    return missed;
  }

  /** The events up to these ids are being read, and will still be sent, although `missedSince` includes them. */
  beingRead(): Map<string, EventId> {
    return new Map([...this.#reading].map((id) => [id, this.#positions.get(id)?.last ?? noEvent]));
  }

  async #start(): Promise<void> {
    const { bus, store, workspaceId, lookEveryMs } = this.#options;
    // Subscribes before it reads the positions of the emitters, so that no event falls between the two.
    this.#unsubscribe = bus.subscribeToOwner(workspaceId, {
      event: (event) => this.#arrive(event),
      storedElsewhere: (emitterId) =>
        emitterId === undefined ? this.#lookSoon() : this.#fallBehind(emitterId),
      emitterRemoved: (emitterId) => this.#forget(emitterId),
    });
    try {
      const places = [];
      for await (const page of emittersOf(store.read, workspaceId)) places.push(...page);
      for (const { id, ms, seq } of places) this.#positions.set(id, { last: { ms, seq } });
      this.#recent.load(places);
    } catch (error) {
      this.#end();
      throw error;
    }
    if (this.#ended) return;
    this.#isLoaded = true;
    for (const emitterId of this.#held.emitterIds)
      for (const event of this.#held.take(emitterId)) this.#arrive(event);
    this.#readBehind();
    this.#timer = setInterval(() => this.#lookSoon(), lookEveryMs);
    if (this.#looking === 'again') {
      this.#looking = 'no';
      this.#lookSoon();
    }
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#timer);
    this.#unsubscribe?.();
    this.#options.onEnd();
  }

  #fail(error: unknown): void {
    if (this.#ended) return;
    const { logger, workspaceId } = this.#options;
    logger.warn({ workspace: workspaceId, error: toError(error).message }, 'stream.feed-failed');
    this.#end();
    for (const { log } of [...this.#channels.values()])
      for (const reader of [...log.readers]) reader.feedFailed();
  }

  #arrive(event: StoredEvent): void {
    if (this.#ended) return;
    const { emitter_id: emitterId, previous = noEvent } = event;
    const position = this.#positions.get(emitterId);
    if (!this.#isLoaded || this.#behind.has(emitterId) || this.#reading.has(emitterId)) {
      this.#hold(event);
      return;
    }
    // An unknown emitter is new: nothing of it was passed on.
    const { last } = position ?? { last: noEvent };
    if (compareEventIds(event, last) <= 0) return;
    if (compareEventIds(previous, last) > 0) {
      this.#hold(event);
      this.#fallBehind(emitterId);
      return;
    }
    this.#pass(event, position);
  }

  #pass(event: StoredEvent, position: Position | undefined): void {
    const { emitter_id: emitterId, channel } = event;
    const place = { ms: event.ms, seq: event.seq };
    const readers = this.#channels.get(channel);
    const { last: before, sent } = position ?? { last: noEvent };
    const nowSent = readers === undefined ? sent : { channel, id: place };
    this.#positions.set(emitterId, { last: place, ...(nowSent === undefined ? {} : { sent: nowSent }) });
    this.#recent.set(emitterId, place);
    if (readers !== undefined) this.#send(readers, event, before);
  }

  #send(readers: ReaderChannel, event: StoredEvent, before: EventId): void {
    const place = { ms: event.ms, seq: event.seq };
    const now = this.#options.clock.now();
    const isMarked = now >= readers.nextMarkMs || now < readers.nextMarkMs - markEveryMs;
    if (isMarked) readers.nextMarkMs = now + markEveryMs;
    const message = workspaceMessage(event, isMarked ? this.mark().toString() : undefined);
    readers.log.add({ emitterId: event.emitter_id, before, place, message });
  }

  #hold(event: StoredEvent): void {
    this.#held.add(event);
    if (!this.#held.isFull) return;
    for (const emitterId of this.#held.emitterIds) {
      this.#held.take(emitterId);
      this.#fallBehind(emitterId);
    }
  }

  #fallBehind(emitterId: string): void {
    this.#behind.add(emitterId);
    this.#readBehind();
  }

  #readBehind(): void {
    if (!this.#isLoaded) return;
    for (const emitterId of this.#behind) {
      if (this.#reading.size >= readsMax || this.#ended) return;
      if (this.#reading.has(emitterId)) continue;
      this.#behind.delete(emitterId);
      this.#reading.add(emitterId);
      this.#read(emitterId)
        .catch((error: unknown) => this.#fail(error))
        .finally(() => {
          this.#reading.delete(emitterId);
          for (const event of this.#held.take(emitterId)) this.#arrive(event);
          this.#readBehind();
        });
    }
  }

  async #read(emitterId: string): Promise<void> {
    const { store } = this.#options;
    const upTo = await lastEventId(store.read, emitterId);
    if (upTo === undefined) {
      this.#forget(emitterId);
      return;
    }
    if (this.#ended) return;
    const position = this.#positions.get(emitterId);
    const { last: after, sent } = position ?? { last: noEvent };
    if (compareEventIds(upTo, after) <= 0) return;
    // A reader that joins from here on reads up to `upTo` itself (`missedSince`), and skips these events here (`beingRead`).
    this.#positions.set(emitterId, { ...position, last: upTo });
    // A channel that gets its first reader during the loop is visited too.
    for (const [channel, readers] of this.#channels) {
      let before = after;
      const lastSent = sent?.channel === channel ? sent.id : undefined;
      for await (const part of missedEvents(store.read, { emitterId, channel, after, upTo, lastSent })) {
        if (this.#ended) return;
        if (part === 'gap') {
          readers.log.add({ emitterId, before, place: before, message: gapMessage(lastSent, emitterId) });
          continue;
        }
        for (const event of part) {
          this.#send(readers, event, before);
          before = { ms: event.ms, seq: event.seq };
        }
      }
    }
    this.#recent.set(emitterId, upTo);
  }

  #forget(emitterId: string): void {
    this.#positions.delete(emitterId);
    this.#recent.delete(emitterId);
    this.#behind.delete(emitterId);
    this.#held.take(emitterId);
  }

  #lookSoon(): void {
    if (this.#looking !== 'no' || !this.#isLoaded) {
      this.#looking = 'again';
      return;
    }
    this.#looking = 'yes';
    this.#look()
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        const again = this.#looking === 'again' && !this.#ended;
        this.#looking = 'no';
        if (again) this.#lookSoon();
      });
  }

  /** Notifications of other processes can be lost, and one of this process too when a commit ends in doubt. */
  async #look(): Promise<void> {
    const { store, workspaceId } = this.#options;
    const gone = new Set(this.#positions.keys());
    for await (const page of emittersOf(store.read, workspaceId)) {
      if (this.#ended) return;
      for (const { id, ms, seq } of page) {
        gone.delete(id);
        const { last } = this.#positions.get(id) ?? { last: noEvent };
        if (compareEventIds({ ms, seq }, last) > 0) this.#fallBehind(id);
      }
    }
    for (const emitterId of gone) this.#forget(emitterId);
  }
}
