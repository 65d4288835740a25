import type { ServerResponse } from 'node:http';
import type { EventBus } from '#events/event-bus.ts';
import type { Caller } from '#identity/permissions.ts';
import type { ActiveOwners } from '#lib/active-owners.ts';
import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import { EmitterStream, type EmitterStreamOptions } from './emitter-stream.ts';
import { SharedReads } from './shared-reads.ts';
import type { EndReason } from './stream-connection.ts';
import { type StreamShare, StreamShares } from './stream-share.ts';
import type { StreamSlots } from './stream-slots.ts';
import { WorkspaceFeed } from './workspace-feed.ts';
import { WorkspaceStream, type WorkspaceStreamOptions } from './workspace-stream.ts';

const keepAliveMsDefault = 15_000;

export interface OpenWorkspaceOptions extends WorkspaceStreamOptions {
  bus: EventBus;
  clock: Clock;
}

/** What all kinds of streams have. */
interface OpenStream {
  start(): Promise<void>;
  end(reason: EndReason): void;
  recheck(): void;
  cutOff(error: Error): void;
}

/** All open streams, so that a stopping service can end them. */
export class LiveStreams {
  readonly #open = new Set<OpenStream>();
  /** By workspace; each as long as it has readers. */
  readonly #feeds = new Map<string, WorkspaceFeed>();
  readonly #reads = new SharedReads();
  readonly #keepAliveMs: number;
  readonly #slots: StreamSlots | undefined;
  readonly #shares: StreamShares;

  /**
   * `slots`: absent where readers are counted elsewhere. `owners`: those for whom what is written to readers of one owner waits; `onDelayed`
   * is called for each such wait.
   */
  constructor(
    options: {
      keepAliveMs?: number;
      slots?: StreamSlots;
      owners?: ActiveOwners;
      onDelayed?: (ownerId: string) => void;
    } = {},
  ) {
    this.#shares = new StreamShares({ owners: options.owners, onDelayed: options.onDelayed });
    this.#slots = options.slots;
    this.#keepAliveMs = options.keepAliveMs ?? keepAliveMsDefault;
  }

  /** Open here, of what an owner has. */
  openOf(ownerId: string): number {
    return this.#slots?.openOf(ownerId) ?? 0;
  }

  get count(): number {
    return this.#open.size;
  }

  /** Before a stream of what `ownerId` has is opened for a caller. Throws as `StreamSlots.take`. */
  admit(caller: Pick<Caller, 'keyId' | 'userId'>, response: ServerResponse, ownerId: string): void {
    this.#slots?.take(caller, response, ownerId);
  }

  /** Does not reject: a reader whose stream cannot start is cut off, and may connect again. */
  async open(response: ServerResponse, options: EmitterStreamOptions): Promise<void> {
    const stream: EmitterStream = new EmitterStream(
      response,
      { ...options, ...this.#ofOwner(options.ownerId), reads: this.#reads },
      () => this.#open.delete(stream),
    );
    await this.#start(stream);
  }

  /** As `open`, for all emitters of a workspace. */
  async openWorkspace(response: ServerResponse, options: OpenWorkspaceOptions): Promise<void> {
    const feed = this.#feedOf(options);
    const stream: WorkspaceStream = new WorkspaceStream(
      response,
      { ...options, ...this.#ofOwner(options.workspaceId), feed },
      () => this.#open.delete(stream),
    );
    await this.#start(stream);
  }

  #ofOwner(ownerId: string): { keepAliveMs: number; share: StreamShare } {
    return { keepAliveMs: this.#keepAliveMs, share: this.#shares.enter(ownerId) };
  }

  /** Ends the streams of readers whose access has ended: to be called after keys, sessions, users or memberships ended. */
  recheck(): void {
    for (const stream of this.#open) stream.recheck();
  }

  close(): void {
    this.#shares.close();
    for (const stream of this.#open) stream.end('the service stops');
  }

  async #start(stream: OpenStream): Promise<void> {
    this.#open.add(stream);
    try {
      await stream.start();
    } catch (error) {
      // Only this code has the connection: if it were left open, its reader would wait for an answer for ever.
      stream.cutOff(toError(error));
    }
  }

  #feedOf({ store, bus, clock, logger, workspaceId }: OpenWorkspaceOptions): WorkspaceFeed {
    const known = this.#feeds.get(workspaceId);
    if (known !== undefined) return known;
    const feed: WorkspaceFeed = new WorkspaceFeed({
      ...{ store, bus, clock, logger, workspaceId },
      lookEveryMs: this.#keepAliveMs,
      onEnd: () => {
        if (this.#feeds.get(workspaceId) === feed) this.#feeds.delete(workspaceId);
      },
    });
    this.#feeds.set(workspaceId, feed);
    return feed;
  }
}
