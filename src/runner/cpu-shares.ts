/** One look at a process. */
export interface CpuLook<P> {
  process: P;
  ownerId: string;
  /** Processor time so far. */
  cpuMs: number;
  /** It runs or waits for a core at this moment. */
  wantsCpu: boolean;
}

/** Niceness of processes of user code, and of those that keep cores busy for an owner who has its share. */
export const niceness = { usual: 10, greedy: 19 };

/** An owner may use half of the cores, at least one, before its processes come after those of others. What it uses up to nearly that is no proof. */
const sharePart = 1 / 2;
const nearlyPart = 0.8;
/** A process that uses less of a core than this is not what keeps the cores busy. */
const notedPart = 0.05;

/**
 * Which processes come after those of other owners on the cores: those that an owner keeps busy beyond its share. On a machine with
 * time to spare they lose nothing. Processes that only wait are not slowed, also not those of the same owner.
 */
export class CpuShares<P extends object> {
  readonly #shareCores: number;
  readonly #cpuMs = new WeakMap<P, number>();
  readonly #greedy = new WeakSet<P>();
  /** Those who were beyond their share at the last look. */
  #beyond: ReadonlySet<string> = new Set();

  constructor(cores: number) {
    this.#shareCores = Math.max(1, cores * sharePart);
  }

  /**
   * A process was given to an owner, and has used so much so far. True: it comes after those of others from its start, because its owner is
   * beyond the share. Otherwise one who starts a process after the other would always be ahead of what a look finds.
   */
  begin({ process, ownerId, cpuMs }: Omit<CpuLook<P>, 'wantsCpu'>): boolean {
    this.#cpuMs.set(process, cpuMs);
    const isGreedy = this.#beyond.has(ownerId);
    if (isGreedy) this.#greedy.add(process);
    return isGreedy;
  }

  /** What is to be changed, by what was used since the look before, which was `elapsedMs` ago. */
  look(looks: readonly CpuLook<P>[], elapsedMs: number): { process: P; isGreedy: boolean }[] {
    const used = looks.map((look) => ({ ...look, usedMs: this.#usedMs(look) }));
    const byOwner = new Map<string, number>();
    for (const { ownerId, usedMs } of used) byOwner.set(ownerId, (byOwner.get(ownerId) ?? 0) + usedMs);
    const nearlyMs = nearlyPart * this.#shareCores * elapsedMs;
    this.#beyond = new Set(
      [...byOwner].filter(([, usedMs]) => usedMs > nearlyMs).map(([ownerId]) => ownerId),
    );
    const changes: { process: P; isGreedy: boolean }[] = [];
    for (const { process, ownerId, usedMs, wantsCpu } of used) {
      const isNoted = usedMs > notedPart * elapsedMs;
      const isBeyond = this.#beyond.has(ownerId);
      const was = this.#greedy.has(process);
      // One that is greedy gets little time: that it uses little is no proof that it wants no more.
      const is = was ? isNoted || wantsCpu : isNoted && isBeyond;
      if (is === was) continue;
      if (is) this.#greedy.add(process);
      else this.#greedy.delete(process);
      changes.push({ process, isGreedy: is });
    }
    return changes;
  }

  /** Nothing at the first look. */
  #usedMs({ process, cpuMs }: CpuLook<P>): number {
    const before = this.#cpuMs.get(process) ?? cpuMs;
    this.#cpuMs.set(process, cpuMs);
    return cpuMs - before;
  }
}
