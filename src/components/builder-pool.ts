import { changingUser } from '#audit/audit-context.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { ShareObserver } from '#metering/share-records.ts';

/** A process waits this long for its next use before it ends. */
const idleMs = 10_000;

/** A process is replaced after this many uses, whatever it may have kept in memory by then. */
const usesPerProcess = 200;

export interface WarmProcess {
  /** False once it ended, or when its last use left it in no state for another. */
  readonly isUsable: boolean;
  /** For good: a service without privileges may not raise it again. */
  lowerPriority(): void;
  /** Kills it; answers when it is gone. */
  stop(): Promise<void>;
}

interface Slot<P> {
  process: P;
  uses: number;
  /** The owner whose uses it has a lower priority for. */
  lowFor?: string | undefined;
  idleTimer?: NodeJS.Timeout;
}

/** A use waits in line for this long at most; a caller of the API would rather try again. */
const defaultWaitMaxMs = 5 * 60_000;

/** Uses beyond the concurrency, one each for owners that have none under way. Uses of others may take minutes, and are not ended for them. */
const extraUsesMax = 2;

/** All owners together may have `waitingMax` waiting uses times this number, so that those of one do not block the first of another. */
const linesMax = 4;

/** The owner whose turn a use takes, and the user who asked for it. */
interface Claimant {
  ownerId: string;
  /** The workspaces of one user are owners of their own. */
  asker: string | undefined;
}

interface Waiting extends Claimant {
  sinceMs: number;
  enter: () => void;
  /** Rejects the use, unless its turn has come. */
  leave: (error: Error) => void;
}

interface PoolOptions<P> {
  start: () => Promise<P>;
  concurrency: number;
  /** Maximum of waiting uses of one owner. */
  waitingMax: number;
  waitMaxMs?: number;
  /** The subject of the messages about the line: `components wait to be built`. */
  what: string;
  logger: Logger;
  /** Learns what waits or is refused because of others. */
  shares?: ShareObserver | undefined;
  /** True while no use of this owner may begin; `beginNext` is called when that changes. */
  isHeld?: (ownerId: string) => boolean;
  /** Throws where the owner may have no more than these uses, under way or in line. */
  admit?: ((ownerId: string, uses: number) => void) | undefined;
}

interface UseOptions {
  /** The owner whose turn the use takes; absent: all such uses count as those of one owner. */
  ownerId?: string;
  /** Says that the process is not to blame for an error. */
  isReusableAfter?: (error: unknown) => boolean;
  /** Leaves the line; `work` has to heed it by itself. */
  signal?: AbortSignal;
}

/**
 * At most `concurrency` uses at a time, at most `waitingMax` of one owner in line, each for `waitMaxMs` at most; processes stay warm
 * for a while. Owners take turns, those with the fewest uses under way first. While all processes are taken, owners that have none get up to
 * two more: uses that take minutes do not hold up others. What one user asks for in several workspaces counts together. Uses of an owner that has a
 * line have a lower priority: it is many builds that slow the calls of other owners. Waiting is logged, and an error about the line says how long it is.
 */
export class BuilderPool<P extends WarmProcess> {
  readonly #options: PoolOptions<P>;
  readonly #idle: Slot<P>[] = [];
  /** In line, by owner; the owner whose turn comes next is first. */
  readonly #lines = new Map<string, Waiting[]>();
  /** Uses under way, by owner. */
  readonly #running = new Map<string, number>();
  /** The same by asker. */
  readonly #runningByAsker = new Map<string, number>();
  /** When an owner with a line was found held last. */
  readonly #heldAtMs = new Map<string, number>();
  #busy = 0;

  constructor(options: PoolOptions<P>) {
    this.#options = options;
  }

  get counts(): { running: number; waiting: number } {
    return { running: this.#busy, waiting: this.#waitingCount };
  }

  /**
   * For how long the one that waits for longest has waited for others; 0: none waits. A use of an owner who is held waits for the owner itself, and
   * begins to count when the owner is held no longer.
   */
  get oldestWaitMs(): number {
    const nowMs = performance.now();
    const sinceMs = [...this.#lines].flatMap(([ownerId, line]) => {
      if (this.#isHeld(ownerId)) return [];
      return line.map((one) => Math.max(one.sinceMs, this.#heldAtMs.get(ownerId) ?? 0));
    });
    return sinceMs.length === 0 ? 0 : nowMs - Math.min(...sinceMs);
  }

  /** Asked at each turn, so the time at which an owner was held last is known well enough. */
  #isHeld(ownerId: string): boolean {
    const isHeld = this.#options.isHeld?.(ownerId) === true;
    if (isHeld) this.#heldAtMs.set(ownerId, performance.now());
    return isHeld;
  }

  /** Uses of an owner, under way or in line. */
  usesOf(ownerId: string): number {
    return (this.#running.get(ownerId) ?? 0) + (this.#lines.get(ownerId)?.length ?? 0);
  }

  get #waitingCount(): number {
    let count = 0;
    for (const line of this.#lines.values()) count += line.length;
    return count;
  }

  /**
   * Runs `work` with a process of its own, in the order of the calls of its owner. After an error the process is ended, unless
   * `isReusableAfter` says otherwise. Rejects with `builder_busy` when the line is too long.
   */
  async use<T>(
    work: (process: P) => Promise<T>,
    { isReusableAfter = () => false, signal, ownerId = '' }: UseOptions = {},
  ): Promise<T> {
    const claimant: Claimant = { ownerId, asker: changingUser() };
    await this.#enter(claimant, signal);
    try {
      const slot = await this.#take(claimant);
      let isReusable = false;
      try {
        const result = await work(slot.process);
        isReusable = true;
        return result;
      } catch (error) {
        isReusable = isReusableAfter(error);
        throw error;
      } finally {
        slot.uses += 1;
        if (isReusable && slot.process.isUsable && slot.uses < usesPerProcess) this.#keep(slot);
        else await slot.process.stop();
      }
    } finally {
      this.#leave(claimant);
    }
  }

  /** Ends the unused processes; call it when all uses have ended. */
  async close(): Promise<void> {
    const slots = this.#idle.splice(0);
    for (const slot of slots) clearTimeout(slot.idleTimer);
    await Promise.all(slots.map((slot) => slot.process.stop()));
  }

  /** Ends the uses of an owner that are in line. */
  endWaiting(ownerId: string, reason: Error): void {
    for (const { leave } of this.#lines.get(ownerId) ?? []) leave(reason);
  }

  /** Throws `builder_busy` while the line is too long for one more of this owner. */
  refuseIfFull(ownerId: string): void {
    const { waitingMax, what, logger } = this.#options;
    const own = this.#lines.get(ownerId)?.length ?? 0;
    if (own < waitingMax && this.#waitingCount < linesMax * waitingMax) return;
    logger.warn(this.#about(ownerId), 'build.refused');
    const count = own >= waitingMax ? own : this.#waitingCount;
    const message = `too many ${what} (${count}); try again in a moment`;
    this.#sharesOf(ownerId)?.refused(ownerId, 'builds', message);
    throw new UnavailableError('builder_busy', message);
  }

  #about(ownerId: string): object {
    return {
      what: this.#options.what,
      ...{ owner: ownerId, running: this.#busy, waiting: this.#waitingCount },
    };
  }

  /** What belongs to the instance is of no owner. */
  #sharesOf(ownerId: string): ShareObserver | undefined {
    return ownerId === '' ? undefined : this.#options.shares;
  }

  async #enter(claimant: Claimant, signal?: AbortSignal): Promise<void> {
    const { ownerId } = claimant;
    const { waitMaxMs = defaultWaitMaxMs, what, logger } = this.#options;
    const shares = this.#sharesOf(ownerId);
    signal?.throwIfAborted();
    if (ownerId !== '') this.#options.admit?.(ownerId, this.usesOf(ownerId));
    if (this.#mayBegin(claimant)) {
      this.#begin(claimant);
      return;
    }
    this.refuseIfFull(ownerId);
    const { promise: turn, resolve: enter, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = {
      ...claimant,
      sinceMs: performance.now(),
      enter,
      leave: (error) => leaveLine(error),
    };
    this.#lines.set(ownerId, [...(this.#lines.get(ownerId) ?? []), waiting]);
    logger.info(this.#about(ownerId), 'build.queued');
    shares?.delayed(ownerId, 'builds');
    const place = () => (this.#lines.get(ownerId)?.indexOf(waiting) ?? -1) + 1;
    const leaveLine = (error: Error): void => {
      // It is its turn already.
      if (place() === 0) return;
      this.#remove(waiting);
      reject(error);
    };
    const timer = setTimeout(() => {
      const message = `${this.#waitingCount} ${what}, and this one was number ${place()} of its owner after ${waitMaxMs / 1000} seconds; try again in a moment`;
      logger.warn({ ...this.#about(ownerId), place: place() }, 'build.refused');
      shares?.refused(ownerId, 'builds', message);
      leaveLine(new UnavailableError('builder_busy', message));
    }, waitMaxMs);
    const abort = (): void => leaveLine(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      await turn;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  #remove({ ownerId, ...waiting }: Waiting): void {
    const left = (this.#lines.get(ownerId) ?? []).filter(({ enter }) => enter !== waiting.enter);
    if (left.length > 0) this.#lines.set(ownerId, left);
    else {
      this.#lines.delete(ownerId);
      this.#heldAtMs.delete(ownerId);
    }
  }

  #mayBegin(claimant: Claimant): boolean {
    const { concurrency } = this.#options;
    if (this.#isHeld(claimant.ownerId)) return false;
    if (this.#busy < concurrency) return true;
    return this.#busy < concurrency + extraUsesMax && this.#runningOf(claimant) === 0;
  }

  #runningOf({ ownerId, asker }: Claimant): number {
    const ofAsker = asker === undefined ? 0 : (this.#runningByAsker.get(asker) ?? 0);
    return Math.max(this.#running.get(ownerId) ?? 0, ofAsker);
  }

  #begin(claimant: Claimant): void {
    this.#busy += 1;
    this.#count(claimant, 1);
  }

  #leave(claimant: Claimant): void {
    this.#busy -= 1;
    this.#count(claimant, -1);
    this.beginNext();
  }

  #count({ ownerId, asker }: Claimant, change: 1 | -1): void {
    add(this.#running, ownerId, change);
    if (asker !== undefined) add(this.#runningByAsker, asker, change);
  }

  /** Begins the uses in line that may begin, in the order of turns. */
  beginNext(): void {
    for (let next = this.#firstInTurn(); next !== undefined; next = this.#firstInTurn()) {
      this.#remove(next);
      // Its owner's next one comes after those of all others.
      const rest = this.#lines.get(next.ownerId);
      if (rest !== undefined) {
        this.#lines.delete(next.ownerId);
        this.#lines.set(next.ownerId, rest);
      }
      this.#begin(next);
      next.enter();
    }
  }

  #firstInTurn(): Waiting | undefined {
    const firsts = [...this.#lines.values()].flatMap(([first]) => first ?? []);
    return firsts
      .filter((waiting) => this.#mayBegin(waiting))
      .reduce<Waiting | undefined>(
        (fewest, one) =>
          fewest !== undefined && this.#runningOf(fewest) <= this.#runningOf(one) ? fewest : one,
        undefined,
      );
  }

  async #take({ ownerId, asker }: Claimant): Promise<Slot<P>> {
    const ofOwner = this.#takeIdle(({ lowFor }) => lowFor === ownerId);
    if (ofOwner !== undefined) return ofOwner;
    const usual = this.#takeIdle(({ lowFor }) => lowFor === undefined);
    const slot = usual ?? { process: await this.#options.start(), uses: 0 };
    if (this.#lines.has(ownerId) || this.#hasLine(asker)) {
      slot.process.lowerPriority();
      slot.lowFor = ownerId;
    }
    return slot;
  }

  #hasLine(asker: string | undefined): boolean {
    return asker !== undefined && [...this.#lines.values()].flat().some((waiting) => waiting.asker === asker);
  }

  /** The one that was used last. */
  #takeIdle(fits: (slot: Slot<P>) => boolean): Slot<P> | undefined {
    for (;;) {
      const slot = this.#idle.findLast(fits);
      if (slot === undefined) return undefined;
      this.#idle.splice(this.#idle.indexOf(slot), 1);
      clearTimeout(slot.idleTimer);
      if (slot.process.isUsable) return slot;
    }
  }

  #keep(slot: Slot<P>): void {
    slot.idleTimer = setTimeout(() => {
      this.#idle.splice(this.#idle.indexOf(slot), 1);
      void slot.process.stop();
    }, idleMs).unref();
    this.#idle.push(slot);
  }
}

function add(counts: Map<string, number>, key: string, change: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
