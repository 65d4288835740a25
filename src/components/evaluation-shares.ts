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
  /** Evaluations by owner, under way or waiting. */
  readonly #pending = new Map<string, number>();
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

  /** Evaluates when it is the turn of this one. Rejects with `builder_busy` when too many of the owner wait. */
  async run<T>(ownerId: string, evaluate: () => Promise<T>): Promise<T> {
    const pending = this.#pendingOf(ownerId);
    if (pending >= evaluationsPerOwner + waitingPerOwner) {
      const reason = `${evaluationsPerOwner} components of this owner are being evaluated, which is its share, and ${waitingPerOwner} wait; let the top level of their code end sooner, and try again in a moment`;
      this.#shares?.refused(ownerId, 'builds', reason);
      throw new UnavailableError('builder_busy', reason);
    }
    if (pending >= evaluationsPerOwner) this.#shares?.delayed(ownerId, 'builds');
    this.#pending.set(ownerId, pending + 1);
    try {
      return await this.#queue.run(ownerId, evaluate);
    } finally {
      const left = this.#pendingOf(ownerId) - 1;
      if (left === 0) this.#pending.delete(ownerId);
      else this.#pending.set(ownerId, left);
      this.#onEnded();
    }
  }

  #pendingOf(ownerId: string): number {
    return this.#pending.get(ownerId) ?? 0;
  }
}
