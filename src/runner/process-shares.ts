import type { ShareResource } from '#metering/share-records.ts';

/** The state of a process that the shares depend on. */
interface Taken {
  /** True when no call runs in it, so that it can be ended to make room. */
  readonly idle: boolean;
  readonly hasCode: boolean;
}

/** The part of the processes and of the memory that an owner is guaranteed while other owners are active. */
const guaranteedPart = 1 / 4;
/** The part of the processes that is kept free for owners that have not come yet, also while only one owner is active. */
const partForNewcomers = 1 / 4;
/** The part of what is left of those that one owner may have while several others are at work: however many come, the next one finds some. */
const partOfRest = 1 / 8;
const mebibyte = 1024 * 1024;
/** Private memory of a process with small code. */
const usualProcessBytes = 16 * mebibyte;

/** What is known of an owner. Limits that an operator has set apply where they are lower than its share. */
export interface OwnerProcessLimits {
  /** The user whose workspace this owner is. Absent: it takes turns for itself. */
  createdBy?: string;
  processesMax?: number;
  memoryMbMax?: number;
}

/** The use of all owners together, or of one. */
interface Use {
  processes: number;
  /** Processes with work, and those just given to an owner, which will have some in a moment. */
  busy: number;
  /** Private memory of all its processes. */
  memoryBytes: number;
}

/**
 * The number of sandboxed processes that an owner may have, and the memory that they may use. An owner that is alone may have three quarters
 * of the processes at work, and all of the memory. Where there are others, an owner may have a quarter, and beyond it no more than what is
 * left for everyone else. The last quarter of the processes is for owners with few: the workspaces of one user are owners of their own, and four of them
 * would have everything. So code that sleeps in all processes of one owner, or fills their memory, leaves room for the first call of
 * another owner.
 */
export class ProcessShares {
  readonly #max: number;
  readonly #memoryBytesMax: number;
  readonly #limitsOf: (ownerId: string) => OwnerProcessLimits;
  readonly #taken = new Map<Taken, { ownerId: string; memoryBytes: number }>();
  readonly #seen = new Set<string>();

  /** The arguments apply to all owners together. */
  constructor(
    { processesMax, memoryBudgetMb }: { processesMax: number; memoryBudgetMb: number },
    limitsOf: (ownerId: string) => OwnerProcessLimits = () => ({}),
  ) {
    this.#max = processesMax;
    this.#memoryBytesMax = memoryBudgetMb * mebibyte;
    this.#limitsOf = limitsOf;
  }

  took(process: Taken, ownerId: string): void {
    this.#seen.add(ownerId);
    this.#taken.set(process, { ownerId, memoryBytes: 0 });
  }

  left(process: Taken): void {
    this.#taken.delete(process);
  }

  /** Records the memory at the last look. Processes without an owner are not counted. */
  sawMemory(process: Taken, bytes: number): void {
    const taken = this.#taken.get(process);
    if (taken !== undefined) taken.memoryBytes = bytes;
  }

  /** Number of further processes with small code for which there is memory. */
  get processesThatFit(): number {
    return Math.max(0, Math.floor((this.#memoryBytesMax - this.#uses().all.memoryBytes) / usualProcessBytes));
  }

  memoryOf(process: Taken): number {
    return this.#taken.get(process)?.memoryBytes ?? 0;
  }

  /** Undefined when the process was not given to an owner yet. */
  ownerOf(process: Taken): string | undefined {
    return this.#taken.get(process)?.ownerId;
  }

  /** `waiting` are the owners whose calls wait for a process. */
  mayTake(ownerId: string, waiting: ReadonlySet<string>): boolean {
    return this.#busyOfEligible(new Set([...waiting, ownerId])).has(ownerId);
  }

  /**
   * Those of the waiting owners that may have one more process. First come those with the fewest at work in all workspaces of their user, then those
   * with the fewest of their own: the workspaces of one user take turns together. When forty of them began to work at the same moment, a deploy of another
   * user waited for forty processes to start.
   */
  order(waiting: ReadonlySet<string>): string[] {
    const eligible = this.#busyOfEligible(waiting);
    const ofUsers = new Map<string, number>();
    for (const [ownerId, { busy }] of this.owners) {
      const user = this.#userOf(ownerId);
      ofUsers.set(user, (ofUsers.get(user) ?? 0) + busy);
    }
    const ofUser = (ownerId: string): number => ofUsers.get(this.#userOf(ownerId)) ?? 0;
    const own = (ownerId: string): number => eligible.get(ownerId) ?? 0;
    return [...eligible.keys()].sort((a, b) => ofUser(a) - ofUser(b) || own(a) - own(b));
  }

  #userOf(ownerId: string): string {
    return this.#limitsOf(ownerId).createdBy ?? ownerId;
  }

  /** The processes at work of each waiting owner that may have one more. */
  #busyOfEligible(waiting: ReadonlySet<string>): Map<string, number> {
    for (const ownerId of waiting) this.#seen.add(ownerId);
    const { owners, of, all } = this.#uses();
    const counts = [...waiting]
      .filter((ownerId) => of(ownerId).memoryBytes < this.#memoryShare(ownerId, of(ownerId), all))
      .filter((ownerId) => of(ownerId).busy < this.#processesMax(ownerId))
      .map((ownerId) => [ownerId, of(ownerId).busy] as const);
    if (this.#isAlone) {
      const mayHave = Math.ceil(this.#max * (1 - partForNewcomers));
      return new Map(counts.filter(([, own]) => own < mayHave));
    }
    const isOneShort = counts.some(([, own]) => own < this.#guaranteed);
    const free = this.#max - all.busy;
    const mayHave = isOneShort ? this.#guaranteed : free - this.#forNewcomers / 2;
    const atWork = [...owners.values()].filter(({ busy }) => busy > 0).length;
    const isRest = free <= this.#forNewcomers;
    const ofTheRest = Math.max(1, Math.ceil(free * partOfRest));
    return new Map(
      counts.filter(([, own]) => {
        const others = own > 0 ? atWork - 1 : atWork;
        return own < (isRest && others > 1 ? Math.min(mayHave, ofTheRest) : mayHave);
      }),
    );
  }

  /**
   * Ranks owners by the processes that they can give up for a waiting owner: the number of their processes, or 0 when they keep theirs. A waiting
   * owner within its share takes from the owner with the most. Beyond its share it takes only its own, and those of owners with more.
   */
  roomFor(ownerId: string): (of: string) => number {
    const { of } = this.#uses();
    const own = of(ownerId).processes;
    return (other) => {
      const { processes } = of(other);
      return other === ownerId || own < this.#guaranteed || processes > own ? processes : 0;
    };
  }

  /** Bytes to free by ending idle processes of these owners. Use beyond the share of one owner ends no process of the others. */
  memoryToFree(): { owners: ReadonlySet<string>; bytes: number }[] {
    const { owners, all } = this.#uses();
    const beyond = [...owners]
      .map(([ownerId, use]) => ({
        owners: new Set([ownerId]),
        bytes: use.memoryBytes - this.#memoryShare(ownerId, use, all),
      }))
      .filter(({ bytes }) => bytes > 0);
    const bytes = all.memoryBytes - this.#memoryBytesMax;
    return beyond.length > 0 || bytes <= 0 ? beyond : [{ owners: new Set(owners.keys()), bytes }];
  }

  /** The reason why an owner gets no process now, and what to do. Without a resource, the cause is not a share. */
  whyNone(ownerId: string): { resource?: ShareResource; reason: string } {
    const { of, all } = this.#uses();
    const own = of(ownerId);
    const memoryShare = this.#memoryShare(ownerId, own, all);
    if (own.memoryBytes >= memoryShare)
      return {
        resource: 'memory',
        reason: `processes of this owner use ${megabytes(own.memoryBytes)} of memory, and its share is ${megabytes(memoryShare)}; let its runs use less memory or end sooner, or ask the operator for another node`,
      };
    const processesMax = this.#processesMax(ownerId);
    if (own.busy >= processesMax)
      return {
        resource: 'processes',
        reason: `${own.busy} processes are busy with runs of this owner, and its quota is ${processesMax}; let runs that sleep end sooner, with $.flow.delay or a shorter timeout, or ask the operator for more`,
      };
    if (own.busy >= this.#guaranteed)
      return {
        resource: 'processes',
        reason: `${own.busy} of ${this.#max} processes are busy with runs of this owner, which is its share; let runs that sleep end sooner, with $.flow.delay or a shorter timeout`,
      };
    if (all.busy >= this.#max * (1 - partForNewcomers))
      return {
        resource: 'processes',
        reason: `${all.busy - own.busy} of ${this.#max} processes are busy with runs of other owners; try again, or ask the operator for another node`,
      };
    return { reason: 'the machine started none in time; try again, and look into the log of the service' };
  }

  /** Use of each owner now. */
  get owners(): ReadonlyMap<string, Readonly<Use>> {
    return this.#uses().owners;
  }

  get #isAlone(): boolean {
    return this.#seen.size === 1;
  }

  get #forNewcomers(): number {
    return Math.floor(this.#max * partForNewcomers);
  }

  get #guaranteed(): number {
    return Math.max(1, Math.floor(this.#max * guaranteedPart));
  }

  #processesMax(ownerId: string): number {
    return this.#limitsOf(ownerId).processesMax ?? Number.POSITIVE_INFINITY;
  }

  #memoryShare(ownerId: string, own: Use, all: Use): number {
    const { memoryMbMax = Number.POSITIVE_INFINITY } = this.#limitsOf(ownerId);
    const leftByOthers = this.#memoryBytesMax - (all.memoryBytes - own.memoryBytes);
    const share = this.#isAlone
      ? this.#memoryBytesMax
      : Math.max(this.#memoryBytesMax * guaranteedPart, leftByOthers / 2);
    return Math.min(share, memoryMbMax * mebibyte);
  }

  #uses(): { owners: Map<string, Use>; of: (ownerId: string) => Use; all: Use } {
    const owners = new Map<string, Use>();
    const all: Use = { processes: 0, busy: 0, memoryBytes: 0 };
    for (const [process, { ownerId, memoryBytes }] of this.#taken) {
      const own = owners.get(ownerId) ?? { processes: 0, busy: 0, memoryBytes: 0 };
      owners.set(ownerId, own);
      const isBusy = !process.hasCode || !process.idle;
      for (const use of [own, all]) {
        use.processes += 1;
        if (isBusy) use.busy += 1;
        use.memoryBytes += memoryBytes;
      }
    }
    return { owners, of: (ownerId) => owners.get(ownerId) ?? nothing, all };
  }
}

const nothing: Use = { processes: 0, busy: 0, memoryBytes: 0 };

function megabytes(bytes: number): string {
  return `${Math.round(bytes / mebibyte)} MB`;
}
