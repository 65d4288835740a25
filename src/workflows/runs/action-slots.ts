import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';

/** Actions of one owner that are run by themselves at once, in this process: each takes a process of its own. */
export const actionsAtOncePerOwnerMax = 10;
/** Maximum for all owners. */
export const actionsAtOnceMax = 100;
/** When one of them may be over. */
const busySeconds = 1;

/** Places for actions, or for steps that are tried. No request waits for a place, because its caller has a connection open. */
export class ActionSlots {
  readonly #clock: Clock;
  readonly #running = new Map<string, number>();
  #all = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** What it answers gives the place back. Throws CallerError `actions_busy` (429). */
  take(ownerId: string): () => void {
    const ofOwner = this.#running.get(ownerId) ?? 0;
    if (ofOwner >= actionsAtOncePerOwnerMax || this.#all >= actionsAtOnceMax) {
      throw new CallerError(
        'actions_busy',
        'too many actions or steps are being run by themselves at the same time; try again in a moment',
        {
          limit: actionsAtOncePerOwnerMax,
          retry_after: busySeconds,
          reset_at: epochSeconds(this.#clock.now()) + busySeconds,
        },
      );
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
}
