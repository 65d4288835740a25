/** What the shares have to know of a process. */
interface Taken {
  /** No call runs in it: it can be ended to make room. */
  readonly idle: boolean;
  readonly hasCode: boolean;
}

/** While another owner waits, nobody gets more than this part of the processes. */
const partWhileOthersWait = 1 / 4;
/** So many are left for somebody who has not come yet, also by an owner who is alone. */
const partForNewcomers = 1 / 4;

/**
 * How many sandboxed processes an owner may have at work. One who is alone may have three quarters. Where there are
 * others, an owner may have a quarter, and beyond it no more than what is left for everybody else: so that code that sleeps in all
 * processes of one owner leaves room for the first call of another.
 */
export class ProcessShares {
  readonly #max: number;
  readonly #ownerOf = new Map<Taken, string>();
  readonly #seen = new Set<string>();

  /** `max`: processes of all owners together. */
  constructor(max: number) {
    this.#max = max;
  }

  took(process: Taken, ownerId: string): void {
    this.#seen.add(ownerId);
    this.#ownerOf.set(process, ownerId);
  }

  left(process: Taken): void {
    this.#ownerOf.delete(process);
  }

  /** `waiting`: the owners whose calls wait for a process. */
  mayTake(ownerId: string, waiting: ReadonlySet<string>): boolean {
    return this.order(new Set([...waiting, ownerId])).has(ownerId);
  }

  /** Of the owners who wait those who may have one more process, with the number that each has at work. */
  order(waiting: ReadonlySet<string>): Map<string, number> {
    for (const ownerId of waiting) this.#seen.add(ownerId);
    const { busy, all } = this.#busy();
    const guaranteed = Math.max(1, Math.floor(this.#max * partWhileOthersWait));
    const counts = [...waiting].map((ownerId) => [ownerId, busy.get(ownerId) ?? 0] as const);
    if (this.#seen.size === 1) {
      const mayHave = Math.ceil(this.#max * (1 - partForNewcomers));
      return new Map(counts.filter(([, own]) => own < mayHave));
    }
    const isOneShort = counts.some(([, own]) => own < guaranteed);
    const mayHave = isOneShort ? guaranteed : this.#max - all;
    return new Map(counts.filter(([, own]) => own < mayHave));
  }

  /** Why an owner gets no process now, and what to do about it. */
  whyNone(ownerId: string): string {
    const { busy, all } = this.#busy();
    const own = busy.get(ownerId) ?? 0;
    const others = all - own;
    const guaranteed = Math.max(1, Math.floor(this.#max * partWhileOthersWait));
    if (own >= guaranteed)
      return `${own} of ${this.#max} processes are busy with runs of this owner, which is its share; let runs that sleep end sooner, with $.flow.delay or a shorter timeout`;
    if (all >= this.#max * (1 - partForNewcomers))
      return `${others} of ${this.#max} processes are busy with runs of other owners; try again, or ask the operator for another node`;
    return 'the machine started none in time; try again, and look into the log of the service';
  }

  /** Processes with work, by owner; one that was just given away is about to get some. */
  #busy(): { busy: Map<string, number>; all: number } {
    const busy = new Map<string, number>();
    let all = 0;
    for (const [process, ownerId] of this.#ownerOf) {
      if (process.hasCode && process.idle) continue;
      busy.set(ownerId, (busy.get(ownerId) ?? 0) + 1);
      all += 1;
    }
    return { busy, all };
  }
}
