/** Shorter passes have no rest. */
const restAfterMs = 3;
/** A pass is followed by a rest of so many times its time: a third of the time that the store has for writing is its owner's. */
const restTimes = 2;

/**
 * Rests between the passes over the queues of one owner, while several owners are active. A queue that many events come to has work for one
 * pass after the other, and each is a transaction that the writes of all others wait for.
 */
export class PassRests {
  readonly #areSeveral: () => boolean;
  readonly #onRested: (subjectId: string) => void;
  /** The owner of each workflow and source that had a pass. */
  readonly #owners = new Map<string, string>();
  /** What is to be looked at after the rest, by its owner. */
  readonly #resting = new Map<string, Set<string>>();

  constructor(options: { areSeveral: () => boolean; onRested: (subjectId: string) => void }) {
    this.#areSeveral = options.areSeveral;
    this.#onRested = options.onRested;
  }

  get areAny(): boolean {
    return this.#resting.size > 0;
  }

  /** True: the owner of this workflow or source rests, and it is looked at afterwards. */
  defer(subjectId: string): boolean {
    const deferred = this.#resting.get(this.#owners.get(subjectId) ?? '');
    deferred?.add(subjectId);
    return deferred !== undefined;
  }

  /** A pass has held the store for so long. */
  passed(subjectId: string, { ownerId, ms }: { ownerId: string; ms: number }): void {
    this.#owners.set(subjectId, ownerId);
    if (ms < restAfterMs || this.#resting.has(ownerId) || !this.#areSeveral()) return;
    const deferred = new Set<string>();
    this.#resting.set(ownerId, deferred);
    setTimeout(() => {
      this.#resting.delete(ownerId);
      for (const id of deferred) this.#onRested(id);
    }, restTimes * ms).unref();
  }

  /** Forgets all but these. */
  keep(subjectIds: ReadonlySet<string>): void {
    for (const id of this.#owners.keys()) if (!subjectIds.has(id)) this.#owners.delete(id);
  }
}
