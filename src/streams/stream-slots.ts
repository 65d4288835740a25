import type { ServerResponse } from 'node:http';
import type { Caller } from '#identity/permissions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';

/** A user (or OAuth client) has places for this many keys whose streams are all open: more keys bring no more streams. */
const keysPerUser = 4;
/** When one of the streams may be over. */
const busySeconds = 5;

/** Places for live streams in this process. Each stream costs a connection and what its reader has not taken yet. */
export class StreamSlots {
  readonly #clock: Clock;
  readonly #perKeyMax: number;
  /** Open streams by key (or access token), and by user (or OAuth client). */
  readonly #open = new Map<string, number>();

  constructor(options: { clock: Clock; perKeyMax: number }) {
    this.#clock = options.clock;
    this.#perKeyMax = options.perKeyMax;
  }

  /** Counts a stream until its connection closes. Throws CallerError `streams_busy` (429). */
  take({ keyId, userId }: Pick<Caller, 'keyId' | 'userId'>, response: ServerResponse): void {
    // Its `close` event was emitted already.
    if (response.destroyed) return;
    const limits: [string, number][] = [
      [keyId, this.#perKeyMax],
      [userId, keysPerUser * this.#perKeyMax],
    ];
    for (const [id, limit] of limits) {
      if ((this.#open.get(id) ?? 0) < limit) continue;
      throw new CallerError(
        'streams_busy',
        `too many live streams are open with this ${id === keyId ? 'key' : 'user'}: found ${limit}, expected fewer; close some`,
        {
          limit,
          retry_after: busySeconds,
          reset_at: epochSeconds(this.#clock.now()) + busySeconds,
        },
      );
    }
    for (const [id] of limits) this.#open.set(id, (this.#open.get(id) ?? 0) + 1);
    response.once('close', () => {
      for (const [id] of limits) {
        const left = (this.#open.get(id) ?? 1) - 1;
        if (left === 0) this.#open.delete(id);
        else this.#open.set(id, left);
      }
    });
  }
}
