import type { ServerResponse } from 'node:http';
import type { Caller } from '#identity/permissions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { limitReached } from '#metering/owner-limits.ts';
import type { ShareObserver } from '#metering/share-records.ts';
import { ConnectionShares } from '#runner/connection-shares.ts';

/** A user (or OAuth client) has places for this many keys whose streams are all open: more keys bring no more streams. */
const keysPerUser = 4;
/** When one of the streams may be over. */
const busySeconds = 5;

/** Places for live streams in this process. Each stream costs a connection and what its reader has not taken yet. */
export class StreamSlots {
  readonly #clock: Clock;
  readonly #perKeyMax: number;
  readonly #perOwnerMax: (ownerId: string) => number;
  readonly #onOwnerRefused: () => void;
  readonly #records: ShareObserver | undefined;
  /** Shares of the descriptors of this process. Without them, the streams of one owner could take the connections of all. */
  readonly #shares: ConnectionShares;
  /** Open streams by key (or access token), by user (or OAuth client), and by owner of what is streamed (`of o_…`). */
  readonly #open = new Map<string, number>();

  /**
   * `perOwnerMax`: of the streams of what an owner has; 0: its share. `max`: streams of all owners; absent: half of what this process may
   * have open.
   */
  constructor(options: {
    clock: Clock;
    perKeyMax: number;
    perOwnerMax?: (ownerId: string) => number;
    onOwnerRefused?: () => void;
    /** Learns whose streams are refused: those of a user with too many, or of an owner who has its limit or share. */
    shares?: ShareObserver;
    max?: number;
  }) {
    this.#clock = options.clock;
    this.#perKeyMax = options.perKeyMax;
    this.#perOwnerMax = options.perOwnerMax ?? (() => 0);
    this.#onOwnerRefused = options.onOwnerRefused ?? (() => {});
    this.#records = options.shares;
    this.#shares = new ConnectionShares(options.max);
  }

  /** Streams that are open of what this owner has. */
  openOf(ownerId: string): number {
    return this.#open.get(ofOwner(ownerId)) ?? 0;
  }

  /**
   * Counts a stream of what `ownerId` has until its connection closes. Throws CallerError `streams_busy` or `quota_exceeded`
   * (both 429).
   */
  take({ keyId, userId }: Pick<Caller, 'keyId' | 'userId'>, response: ServerResponse, ownerId: string): void {
    // Its `close` event was emitted already.
    if (response.destroyed) return;
    const limits: [string, number][] = [
      [keyId, this.#perKeyMax],
      [userId, keysPerUser * this.#perKeyMax],
    ];
    for (const [id, limit] of limits) {
      if ((this.#open.get(id) ?? 0) < limit) continue;
      const message = `too many live streams are open with this ${id === keyId ? 'key' : 'user'}: found ${limit}, expected fewer; close some`;
      this.#records?.refused(userId, 'streams', message);
      throw this.#busy(limit, message);
    }
    const ownerMax = this.#perOwnerMax(ownerId);
    if (ownerMax > 0 && this.openOf(ownerId) >= ownerMax) {
      this.#onOwnerRefused();
      this.#records?.refused(
        ownerId,
        'streams',
        `${ownerMax} live streams are open, which is the limit of this owner`,
      );
      throw limitReached('streams', ownerMax, {
        retry_after: busySeconds,
        reset_at: epochSeconds(this.#clock.now()) + busySeconds,
      });
    }
    if (!this.#shares.take(ownerId)) {
      const { max, count } = this.#shares;
      const message = `too many live streams are open: found ${this.openOf(ownerId)} of this owner, which is its share while ${count} of ${max} are open on this node; close some`;
      this.#records?.refused(ownerId, 'streams', message);
      throw this.#busy(this.openOf(ownerId), message);
    }
    const ids = [keyId, userId, ofOwner(ownerId)];
    for (const id of ids) this.#open.set(id, (this.#open.get(id) ?? 0) + 1);
    response.once('close', () => {
      for (const id of ids) {
        const left = (this.#open.get(id) ?? 1) - 1;
        if (left === 0) this.#open.delete(id);
        else this.#open.set(id, left);
      }
      this.#shares.leave(ownerId);
    });
  }

  #busy(limit: number, message: string): CallerError {
    return new CallerError('streams_busy', message, {
      limit,
      retry_after: busySeconds,
      reset_at: epochSeconds(this.#clock.now()) + busySeconds,
    });
  }
}

/** A user is an owner too, and has other places as one. */
function ofOwner(ownerId: string): string {
  return `of ${ownerId}`;
}
