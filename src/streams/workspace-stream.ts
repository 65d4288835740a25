import type { ServerResponse } from 'node:http';
import { compareEventIds, type EventId } from '#events/event-id.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { ChannelLog, LogEntry } from './channel-log.ts';
import { missedEvents } from './missed-events.ts';
import { type EndReason, StreamConnection } from './stream-connection.ts';
import type { StreamMark } from './stream-mark.ts';
import { gapMessage, workspaceMessage } from './stream-message.ts';
import type { StreamShare } from './stream-share.ts';
import type { FeedReader, WorkspaceFeed } from './workspace-feed.ts';

export interface WorkspaceStreamOptions {
  store: Store;
  logger: Logger;
  workspaceId: string;
  channel: string;
  /** From the Last-Event-ID header: what the reader has seen. */
  mark: StreamMark | undefined;
  mayRead: () => Promise<boolean>;
}

/**
 * One reader of all events of a workspace.
 *
 * Promise: after the handshake it gets every event of the channel, those of one emitter in the order of their ids, or a
 * `gap` that names the emitter, or its stream ends. Some events carry an `id:` that represents all that was sent up to
 * there; a reader that comes back with it gets everything since at least once. How: it takes what the feed passes on;
 * when it cannot, it goes through the backlog of the feed, and from the store when it fell further behind than that.
 */
export class WorkspaceStream implements FeedReader {
  readonly #options: WorkspaceStreamOptions;
  readonly #feed: WorkspaceFeed;
  readonly #connection: StreamConnection;
  #log: ChannelLog<FeedReader> | undefined;
  /** Set while it is behind: the next entry of the log, and what was sent before it. */
  #behind: { next: number; mark: StreamMark } | undefined;
  /** What comes from the feed although it was in the range that this reader has read, or came too late for. */
  #alreadyRead: ReadonlyMap<string, EventId> = new Map();

  constructor(
    response: ServerResponse,
    options: WorkspaceStreamOptions & { feed: WorkspaceFeed; keepAliveMs: number; share: StreamShare },
    onEnd: () => void,
  ) {
    this.#options = options;
    this.#feed = options.feed;
    this.#feed.enter();
    this.#connection = new StreamConnection(response, {
      logger: options.logger,
      about: { workspace: options.workspaceId },
      ...{ keepAliveMs: options.keepAliveMs, share: options.share },
      mayRead: options.mayRead,
      // The feed looks for all its readers.
      look: async () => undefined,
      onEnd: () => {
        this.#feed.part(options.channel, this);
        this.#feed.leave();
        onEnd();
      },
    });
  }

  async start(): Promise<void> {
    await this.#feed.ready;
    if (this.#connection.ended) return;
    const { channel, mark } = this.#options;
    this.#log = this.#feed.join(channel, this);
    this.#alreadyRead = this.#feed.beingRead();
    this.#connection.open();
    if (mark !== undefined) this.#fallBehind(this.#log, { next: -1, mark });
  }

  end(reason: EndReason): void {
    this.#connection.end(reason);
  }

  /** Asks at once whether its reader may still read. */
  recheck(): void {
    this.#connection.recheck();
  }

  cutOff(error: Error): void {
    this.#connection.cutOff(error);
  }

  feedFailed(): void {
    this.#connection.end('the store could not be read');
  }

  take(entry: LogEntry, number: number): void {
    if (this.#behind !== undefined || this.#log === undefined || this.#isRead(entry)) return;
    if (!this.#connection.isFull) {
      this.#connection.write(entry.message);
      return;
    }
    const mark = this.#feed.mark();
    mark.set(entry.emitterId, entry.before);
    this.#fallBehind(this.#log, { next: number, mark });
  }

  #isRead({ emitterId, place }: LogEntry): boolean {
    const read = this.#alreadyRead.get(emitterId);
    return read !== undefined && compareEventIds(place, read) <= 0;
  }

  #fallBehind(log: ChannelLog<FeedReader>, behind: { next: number; mark: StreamMark }): void {
    if (this.#connection.ended) return;
    this.#behind = behind;
    log.fallBehind(this);
    this.#catchUp(log, behind).catch((error: unknown) => this.#connection.fail(error, 'catch-up'));
  }

  async #catchUp(log: ChannelLog<FeedReader>, behind: { next: number; mark: StreamMark }): Promise<void> {
    for (;;) {
      await this.#connection.untilTaken();
      if (this.#connection.ended) return;
      const entry = log.entry(behind.next);
      if (entry === undefined) break;
      if (entry === 'gone') {
        behind.next = log.next;
        await this.#readMissed(behind.mark);
        continue;
      }
      behind.next += 1;
      if (this.#isRead(entry)) continue;
      this.#connection.write(entry.message);
      behind.mark.set(entry.emitterId, entry.place);
    }
    this.#behind = undefined;
    log.keepUp(this);
  }

  async #readMissed(mark: StreamMark): Promise<void> {
    const { store, channel } = this.#options;
    const missed = this.#feed.missedSince(mark);
    this.#alreadyRead = this.#feed.beingRead();
    for (const { emitterId, after, upTo } of missed) {
      for await (const part of missedEvents(store.read, { emitterId, channel, after, upTo })) {
        if (part === 'gap') {
          this.#connection.write(gapMessage(mark.lastSent(emitterId), emitterId));
          continue;
        }
        for (const event of part) {
          await this.#connection.untilTaken();
          if (this.#connection.ended) return;
          this.#connection.write(workspaceMessage(event, undefined));
        }
      }
      mark.set(emitterId, upTo);
    }
  }
}
