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

  constructor(cores: number) {
    this.#shareCores = Math.max(1, cores * sharePart);
  }

  /** What is to be changed, by what was used since the look before, which was `elapsedMs` ago. */
  look(looks: readonly CpuLook<P>[], elapsedMs: number): { process: P; isGreedy: boolean }[] {
    const used = looks.map((look) => ({ ...look, usedMs: this.#usedMs(look) }));
    const byOwner = new Map<string, number>();
    for (const { ownerId, usedMs } of used) byOwner.set(ownerId, (byOwner.get(ownerId) ?? 0) + usedMs);
    const changes: { process: P; isGreedy: boolean }[] = [];
    for (const { process, ownerId, usedMs, wantsCpu } of used) {
      const isNoted = usedMs > notedPart * elapsedMs;
      const isBeyond = (byOwner.get(ownerId) ?? 0) > nearlyPart * this.#shareCores * elapsedMs;
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
