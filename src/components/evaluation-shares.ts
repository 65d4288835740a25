import { UnavailableError } from '#lib/errors.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import type { ShareObserver } from '#metering/share-records.ts';

/** Components of one owner that are evaluated at the same time. Code that never ends has a process for 30 seconds. */
const evaluationsPerOwner = 4;
/** When so many of an owner are evaluated or wait for it, none is built that would follow them. */
const enough = evaluationsPerOwner + 2;
/** Components of an owner that wait to be evaluated, at most. */
const waitingPerOwner = 64;

/**
 * Evaluations of built code, which say what it defines, by owner. Fifty deploys of code whose top level never ends would take fifty
 * processes of their owner from its runs, and two gigabytes, and would be told no sooner than with four at a time.
 */
export class EvaluationShares {
  readonly #queue = new FairQueue(Number.POSITIVE_INFINITY, { perAsker: evaluationsPerOwner });
  readonly #owners = new Map<string, EvaluationsOfOwner>();
  readonly #shares: ShareObserver | undefined;
  readonly #onEnded: () => void;

  /** `onEnded` is called after each evaluation. */
  constructor({ shares, onEnded }: { shares: ShareObserver | undefined; onEnded: () => void }) {
    this.#shares = shares;
    this.#onEnded = onEnded;
  }

  /** True while further builds of this owner would only wait to be evaluated. */
  hasEnough(ownerId: string): boolean {
    return this.#pendingOf(ownerId) >= enough;
  }

  /**
   * Evaluates when it is the turn of this one; `signal` is that of `end`. Rejects with `builder_busy` when too many of the owner wait, and with the reason
   * given to `end`.
   */
  async run<T>(ownerId: string, evaluate: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const pending = this.#pendingOf(ownerId);
    if (pending >= evaluationsPerOwner + waitingPerOwner) {
      const reason = `${evaluationsPerOwner} components of this owner are being evaluated, which is its share, and ${waitingPerOwner} wait; let the top level of their code end sooner, and try again in a moment`;
      this.#shares?.refused(ownerId, 'builds', reason);
      throw new UnavailableError('builder_busy', reason);
    }
    if (pending >= evaluationsPerOwner) this.#shares?.delayed(ownerId, 'builds');
    const owner = this.#owners.get(ownerId) ?? { pending: 0, stop: new AbortController() };
    this.#owners.set(ownerId, owner);
    owner.pending += 1;
    const { signal } = owner.stop;
    try {
      return await this.#queue.run(ownerId, async () => {
        signal.throwIfAborted();
        const result = await evaluate(signal);
        signal.throwIfAborted();
        return result;
      });
    } finally {
      owner.pending -= 1;
      if (owner.pending === 0) this.#owners.delete(ownerId);
      this.#onEnded();
    }
  }

  /** Ends the evaluations of an owner that are under way or wait. */
  end(ownerId: string, reason: Error): void {
    const owner = this.#owners.get(ownerId);
    if (owner === undefined) return;
    owner.stop.abort(reason);
    owner.stop = new AbortController();
  }

  #pendingOf(ownerId: string): number {
    return this.#owners.get(ownerId)?.pending ?? 0;
  }
}

interface EvaluationsOfOwner {
  /** Under way or waiting. */
  pending: number;
  stop: AbortController;
}
