import { EgressError } from '#egress/resolve-address.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import type { ShareObserver } from '#metering/share-records.ts';

/** Names that are looked up at the same time for user code. Each costs descriptors, for seconds where no name server answers. */
const lookupsMax = 256;
const lookupsPerOwner = lookupsMax / 4;
/** Look-ups of an owner that wait for its others, at most. */
const waitingPerOwner = 1_024;
/** A look-up that waited for longer than this is not made: the code that wanted it has given up, or is about to. */
const waitMaxMs = 8_000;

/**
 * Look-ups of names for user code, by owner. An owner has a quarter of those under way, its further ones wait, and owners take turns where
 * all are taken: names whose name server does not answer delay only their owner's look-ups.
 */
export class LookupShares {
  readonly #queue = new FairQueue(lookupsMax, { perAsker: lookupsPerOwner });
  /** Look-ups by owner, under way or waiting. */
  readonly #pending = new Map<string, number>();
  readonly #records: ShareObserver;
  readonly #nowMs: () => number;

  constructor({ records, nowMs }: { records: ShareObserver; nowMs: () => number }) {
    this.#records = records;
    this.#nowMs = nowMs;
  }

  /** Does `lookup` when it is the owner's turn. Rejects with EMFILE where too many wait already, EAI_AGAIN after too long a wait. */
  async run<T>(ownerId: string, lookup: () => Promise<T>): Promise<T> {
    const pending = this.#pending.get(ownerId) ?? 0;
    if (pending >= lookupsPerOwner + waitingPerOwner) {
      const reason = `${pending} look-ups of names are under way for this owner, which is its share; wait for some of them`;
      this.#records.refused(ownerId, 'lookups', reason);
      throw new EgressError('EMFILE', reason);
    }
    if (pending >= lookupsPerOwner) this.#records.delayed(ownerId, 'lookups');
    this.#pending.set(ownerId, pending + 1);
    const untilMs = this.#nowMs() + waitMaxMs;
    try {
      return await this.#queue.run(ownerId, async () => {
        if (this.#nowMs() > untilMs)
          throw new EgressError('EAI_AGAIN', 'the look-up waited too long for others of the same owner');
        return await lookup();
      });
    } finally {
      const left = (this.#pending.get(ownerId) ?? 1) - 1;
      if (left === 0) this.#pending.delete(ownerId);
      else this.#pending.set(ownerId, left);
    }
  }
}
