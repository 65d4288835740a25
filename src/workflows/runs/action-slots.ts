import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { ShareObserver } from '#metering/share-records.ts';

/** Actions of one owner that are run by themselves at once, in this process: each takes a process of its own. */
export const actionsAtOncePerOwnerMax = 10;
/** Maximum for all owners. */
export const actionsAtOnceMax = 100;
/** Places beyond the maximum, one each for owners that have none. */
export const actionsOfNewcomersMax = 20;
/** An owner may take this part of the free places, so that its share shrinks as places are taken. */
const freePart = 1 / 4;
/** When one of them may be over. */
const busySeconds = 1;

/**
 * Places for actions, or for steps that are tried. No request waits for a place, because its caller has a connection open. So there are no turns
 * either: each owner may have few while most places are taken, and some are kept for owners that have none.
 */
export class ActionSlots {
  readonly #clock: Clock;
  readonly #shares: ShareObserver | undefined;
  readonly #running = new Map<string, number>();
  #all = 0;

  /** `shares` learns whose actions are refused. */
  constructor(clock: Clock, shares?: ShareObserver) {
    this.#clock = clock;
    this.#shares = shares;
  }

  /** What it answers gives the place back. Throws CallerError `actions_busy` (429). */
  take(ownerId: string): () => void {
    const ofOwner = this.#running.get(ownerId) ?? 0;
    if (ofOwner >= this.#maxOf(ofOwner)) {
      const message =
        'too many actions or steps are being run by themselves at the same time; try again in a moment';
      this.#shares?.refused(ownerId, 'actions', message);
      throw new CallerError('actions_busy', message, {
        limit: Math.max(1, this.#maxOf(ofOwner)),
        retry_after: busySeconds,
        reset_at: epochSeconds(this.#clock.now()) + busySeconds,
      });
    }
    this.#all += 1;
    this.#running.set(ownerId, ofOwner + 1);
    return () => {
      this.#all -= 1;
      const left = (this.#running.get(ownerId) ?? 1) - 1;
      if (left === 0) this.#running.delete(ownerId);
      else this.#running.set(ownerId, left);
    };
  }

  /** How many an owner may have at this moment. */
  #maxOf(ofOwner: number): number {
    if (ofOwner === 0) return this.#all < actionsAtOnceMax + actionsOfNewcomersMax ? 1 : 0;
    const free = Math.max(0, actionsAtOnceMax - this.#all);
    return Math.min(actionsAtOncePerOwnerMax, Math.floor(free * freePart));
  }
}
