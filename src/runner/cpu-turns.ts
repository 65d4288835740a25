/** A process that can be stopped and continued. */
export interface TakesTurns {
  /** True when it has kept a core busy since the last question, or its code wants to run now. False also when it has ended. */
  keepsCoreBusy(): boolean;
  /** Suspends it until `unpause`. */
  pause(): void;
  unpause(): void;
}

/**
 * How long a process that keeps a core busy runs while others wait for their turn. Looks at processes are 100 ms apart: with turns of 50 ms, a
 * process could be paused at every look.
 */
export const turnMs = 70;

/**
 * Lets only as many greedy processes run at the same time as there are cores; owners take turns, and so do the processes of one. A process
 * that gets a core is sure to keep it for a moment, whatever its priority. With fifty of them, a process of the service or of another
 * owner that has something to do waits for a tick of the kernel's clock nearly each time: 3.9 ms instead of 0.1 at the 90th percentile, measured with
 * Linux 6.18, where each session is a group. What only waits is never paused.
 */
export class CpuTurns<P extends TakesTurns> {
  readonly #cores: number;
  readonly #owners = new Map<P, string>();
  /** Those that run, the one that has run for longest first. */
  readonly #running = new Set<P>();
  /** By owner, the one that is next first; and of each owner, those that have waited for longest first. */
  readonly #paused = new Map<string, Set<P>>();
  #pausedCount = 0;

  constructor(cores: number) {
    this.#cores = cores;
  }

  add(process: P, ownerId: string): void {
    if (this.#owners.has(process)) return;
    this.#owners.set(process, ownerId);
    this.#running.add(process);
  }

  /** Lets it run, and does not pause it again. */
  delete(process: P): void {
    if (this.isPaused(process)) this.#letGo(process);
    this.#running.delete(process);
    this.#owners.delete(process);
  }

  isPaused(process: P): boolean {
    return this.#owners.has(process) && !this.#running.has(process);
  }

  /** True while `next` has something to do. */
  get isNeeded(): boolean {
    return this.#pausedCount > 0 || this.#running.size > this.#cores;
  }

  /** Begins the next turn. */
  next(): void {
    const busy = [...this.#running].filter((process) => process.keepsCoreBusy());
    const waitingCount = this.#pausedCount;
    const staying = Math.min(busy.length, Math.max(0, this.#cores - waitingCount));
    for (const process of busy.slice(0, busy.length - staying)) this.#pause(process);
    for (let free = Math.min(this.#cores - staying, waitingCount); free > 0; free -= 1) this.#letNextGo();
  }

  #pause(process: P): void {
    const ownerId = this.#owners.get(process) ?? '';
    const ofOwner = this.#paused.get(ownerId);
    if (ofOwner === undefined) this.#paused.set(ownerId, new Set([process]));
    else ofOwner.add(process);
    this.#running.delete(process);
    this.#pausedCount += 1;
    process.pause();
  }

  #letNextGo(): void {
    for (const [ownerId, [first]] of this.#paused) {
      if (first === undefined) continue;
      this.#letGo(first);
      const others = this.#paused.get(ownerId);
      this.#paused.delete(ownerId);
      if (others !== undefined) this.#paused.set(ownerId, others);
      return;
    }
  }

  #letGo(process: P): void {
    const ownerId = this.#owners.get(process) ?? '';
    const ofOwner = this.#paused.get(ownerId);
    ofOwner?.delete(process);
    if (ofOwner?.size === 0) this.#paused.delete(ownerId);
    this.#pausedCount -= 1;
    this.#running.add(process);
    process.unpause();
  }
}
