/** The state of one process when it was looked at. */
export interface CpuLook<P> {
  process: P;
  ownerId: string;
  /** Processor time that it has used since its start. */
  cpuMs: number;
  /** True when it runs or waits for a core at this moment. */
  wantsCpu: boolean;
}

/** The cores that a process kept busy since the last look (0 to their number), and its priority from now on. */
export interface CpuUse<P> {
  process: P;
  ownerId: string;
  cores: number;
  isGreedy: boolean;
  /** True: the priority was another one before. */
  isChanged: boolean;
}

/**
 * Niceness of processes of user code, of builds, and of processes that keep cores busy for an owner beyond its share. A build has threads for all
 * cores: with the niceness of user code, the warm calls of others took twice as long while many were built.
 */
export const niceness = { usual: 5, build: 12, greedy: 19 };

/**
 * An owner may use half of the cores, at least one; while owners together use nearly all of them, an equal part. When it uses more than `nearlyPart`
 * of that, its busy processes get a lower priority.
 */
const sharePart = 1 / 2;
const nearlyPart = 0.8;
/** A process that uses a smaller part of a core than this does not keep the cores busy. */
export const notedPart = 0.05;

/** What one process, or one owner, did between two looks. */
interface Use {
  usedMs: number;
  wantsCpu: boolean;
}

/** Those who want more are busy too: when sixty owners spin on two cores, none gets a noticeable part of one. */
function isBusyIn(elapsedMs: number): (use: Use) => boolean {
  return ({ usedMs, wantsCpu }) => wantsCpu || usedMs > notedPart * elapsedMs;
}

/**
 * Decides which processes get a lower priority than those of other owners: the processes that an owner keeps busy beyond its share. Where
 * cores are free this slows nothing. Processes that only wait keep their priority, also those of the same owner.
 */
export class CpuShares<P extends object> {
  readonly #cores: number;
  readonly #cpuMs = new WeakMap<P, number>();
  readonly #greedy = new WeakSet<P>();
  /** Owners who were beyond their share at the last look, or whose processes still want what they were slowed for. */
  #beyond = new Set<string>();

  constructor(cores: number) {
    this.#cores = cores;
  }

  /**
   * Notes that a process was given to an owner, and its processor time so far. True: it gets the lower priority from its start, because its
   * owner is beyond the share. Otherwise an owner that starts one process after the other would always be ahead of the looks.
   */
  begin({ process, ownerId, cpuMs }: Omit<CpuLook<P>, 'wantsCpu'>): boolean {
    this.#cpuMs.set(process, cpuMs);
    const isGreedy = this.#beyond.has(ownerId);
    if (isGreedy) this.#greedy.add(process);
    return isGreedy;
  }

  /** Returns the use of each process since the last look, which was `elapsedMs` ago, and the priority that it gets because of it. */
  look(looks: readonly CpuLook<P>[], elapsedMs: number): CpuUse<P>[] {
    const used = looks.map((look) => ({ ...look, usedMs: this.#usedMs(look) }));
    const isBusy = isBusyIn(elapsedMs);
    const byOwner = new Map<string, Use>();
    for (const one of used) {
      const { usedMs = 0, wantsCpu = false } = byOwner.get(one.ownerId) ?? {};
      byOwner.set(one.ownerId, { usedMs: usedMs + one.usedMs, wantsCpu: wantsCpu || one.wantsCpu });
    }
    const nearlyMs = nearlyPart * this.#shareCores(byOwner, elapsedMs) * elapsedMs;
    this.#beyond = new Set(
      [...byOwner].filter(([, { usedMs }]) => usedMs > nearlyMs).map(([ownerId]) => ownerId),
    );
    // Processes with the lower priority get little time, so using little is no proof that an owner needs no more: each further process of
    // such an owner had the usual priority for a second, and twenty of them at a time made calls of others take ten times as long.
    for (const one of used) if (this.#greedy.has(one.process) && isBusy(one)) this.#beyond.add(one.ownerId);
    return used.map((one) => {
      const { process, ownerId, usedMs } = one;
      const was = this.#greedy.has(process);
      const isGreedy = isBusy(one) && this.#beyond.has(ownerId);
      if (isGreedy) this.#greedy.add(process);
      else this.#greedy.delete(process);
      const cores = elapsedMs > 0 ? usedMs / elapsedMs : 0;
      return { process, ownerId, cores, isGreedy, isChanged: isGreedy !== was };
    });
  }

  /**
   * Cores that one owner may use. Many owners who each use little keep all cores busy together, and the workspaces of one user are
   * owners of their own: none of them would ever be beyond half of the cores.
   */
  #shareCores(byOwner: ReadonlyMap<string, Use>, elapsedMs: number): number {
    const share = Math.max(1, this.#cores * sharePart);
    const owners = [...byOwner.values()];
    const all = owners.reduce((sum, { usedMs }) => sum + usedMs, 0);
    if (all < nearlyPart * this.#cores * elapsedMs) return share;
    return Math.min(share, this.#cores / owners.filter(isBusyIn(elapsedMs)).length);
  }

  /** Processor time since the last look; 0 at the first one. */
  #usedMs({ process, cpuMs }: CpuLook<P>): number {
    const before = this.#cpuMs.get(process) ?? cpuMs;
    this.#cpuMs.set(process, cpuMs);
    return cpuMs - before;
  }
}
