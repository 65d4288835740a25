import type { ConnectionShare } from '#egress/egress-relay.ts';
import { type ShareCounts, ShareRecords, type ShareResource } from '#metering/share-records.ts';
import { ConnectionShares } from './connection-shares.ts';
import { LookupShares } from './lookup-shares.ts';
import { type OwnerProcessLimits, ProcessShares } from './process-shares.ts';
import { type ProcessNeeds, type ProcessOptions, ProcessStarter } from './process-starter.ts';
import type { InitHeader } from './protocol.ts';
import type { OwnerShare } from './runner.ts';
import type { SandboxProcess } from './sandbox-process.ts';

export interface PoolOptions extends ProcessOptions {
  /** The limits that an operator has set for an owner, and the user who created it. */
  limitsOf?: (ownerId: string) => OwnerProcessLimits;
  /** Records what is delayed and refused because of shares. Absent: the pool has records of its own. */
  records?: ShareRecords;
  /** Ends the idle process that was not used for longest, among the owners with the highest rank. Owners with rank 0 keep theirs. */
  endIdle: (rank: (ownerId: string) => number) => SandboxProcess | undefined;
  /** Called for each process that an owner gets, before any code of the owner is in it. */
  onGiven?: (process: SandboxProcess, ownerId: string) => void;
}

/** A process that was told to end is expected to be gone by then. */
const roomComesWithinMs = 5_000;

interface Waiter {
  needs: ProcessNeeds;
  ownerId: string;
  /** True while a process with these special needs is being started for it alone. */
  coming: boolean;
  resolve: (process: SandboxProcess | undefined) => void;
  timer: NodeJS.Timeout;
}

/**
 * Generic processes that are started ahead of need. `take` gives a process to an owner permanently: after it has had code, it never comes
 * back.
 */
export class ProcessPool {
  readonly #options: PoolOptions;
  readonly #starter: ProcessStarter;
  readonly #shares: ProcessShares;
  readonly #records: ShareRecords;
  readonly #connections: ConnectionShares;
  readonly #lookups: LookupShares;
  readonly #ready: SandboxProcess[] = [];
  readonly #waiters: Waiter[] = [];
  /** Processes that were ended to make room and are not gone yet, with the time when they were told to. */
  readonly #makingRoom = new Map<SandboxProcess, number>();
  /** Processes that are about to be taken: as many are kept ready. */
  #expected = 0;
  #surplusTimer: NodeJS.Timeout | undefined;
  #booting = 0;
  /** Number of booting processes that start for one waiter. */
  #bootingSpecial = 0;
  #lastSpawnAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #failedAt = Number.NEGATIVE_INFINITY;
  #started = false;
  /** True after the first process was asked for. */
  #isUsed = false;
  #closed = false;
  #killCount = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#starter = new ProcessStarter({
      ...options,
      connectionShare: (process) => this.#connectionShare(process),
      onEnded: (process) => this.#onEnded(process),
      onRemoved: (process) => {
        this.#shares.left(process);
        this.#makingRoom.delete(process);
        this.#fill();
      },
    });
    this.#shares = new ProcessShares(options.limits, options.limitsOf);
    this.#connections = new ConnectionShares(options.limits.ownersConnectionsMax);
    const { logger, timer } = options;
    const nowMs = () => timer.nowMs();
    this.#records = options.records ?? new ShareRecords({ logger, nowMs });
    this.#lookups = new LookupShares({ records: this.#records, nowMs });
  }

  /** Begins to start processes ahead of need. */
  start(): void {
    this.#started = true;
    this.#fill();
  }

  get processes(): Iterable<SandboxProcess> {
    return this.#starter.processes;
  }

  /** Number of processes with user code that ended for another reason than being superfluous. */
  get killCount(): number {
    return this.#killCount;
  }

  get readyCount(): number {
    return this.#ready.length;
  }

  /**
   * Says how many processes will be taken in a moment. They are started one after another, as far as there is room for them, and end when they were
   * not needed after all.
   */
  expect(count: number): void {
    this.#expected = Math.min(count, this.#shares.processesThatFit);
    if (this.#ready.length > this.#prewarmed) this.#surplusTimer ??= this.#endSurplusLater();
    this.#fill();
  }

  #endSurplusLater(): NodeJS.Timeout {
    return setTimeout(() => {
      this.#surplusTimer = undefined;
      while (this.#ready.length > this.#prewarmed) this.#ready.pop()?.kill('retired');
    }, this.#options.limits.surplusKeptMs);
  }

  /**
   * Returns a process that has run nothing yet, for code of this owner; undefined when none became free in time. A process with special needs
   * is started on request.
   */
  take(ownerId: string, needs: ProcessNeeds = {}): Promise<SandboxProcess | undefined> {
    if (this.#closed) return Promise.resolve(undefined);
    this.#isUsed = true;
    const mayTake = this.#shares.mayTake(ownerId, this.#waitingOwners());
    if (mayTake && this.#isUsual(needs)) {
      const process = this.#takeReady();
      if (process !== undefined) {
        this.#giveTo(process, ownerId);
        return Promise.resolve(process);
      }
    }
    const { waitingMax, waitMs } = this.#options.limits;
    const ofOwner = this.#waiters.filter((waiter) => waiter.ownerId === ownerId).length;
    if (this.#waiters.length >= waitingMax || ofOwner >= waitingMax / 2) {
      this.#recordRefusal(ownerId);
      return Promise.resolve(undefined);
    }
    const { resource } = this.#shares.whyNone(ownerId);
    if (!mayTake && resource !== undefined) this.#records.delayed(ownerId, resource);
    const { promise, resolve } = Promise.withResolvers<SandboxProcess | undefined>();
    const waiter: Waiter = {
      needs,
      ownerId,
      coming: false,
      resolve,
      timer: setTimeout(() => {
        this.#leave(waiter);
        this.#recordRefusal(ownerId);
        resolve(undefined);
      }, waitMs),
    };
    this.#waiters.push(waiter);
    this.#fill();
    return promise;
  }

  /** The reason why `take` gave this owner no process. */
  whyNone(ownerId: string): string {
    return this.#closed ? 'the service is stopping' : this.#shares.whyNone(ownerId).reason;
  }

  #recordRefusal(ownerId: string): void {
    const { resource, reason } = this.#shares.whyNone(ownerId);
    if (resource !== undefined) this.#records.refused(ownerId, resource, reason);
  }

  /** Numbers of calls and connections that were delayed or refused because of a share, since the start. */
  get shareCounts(): Readonly<Record<ShareResource, Readonly<ShareCounts>>> {
    return this.#records.byResource;
  }

  /** Limits of all processes together. */
  get bounds(): { processesMax: number; memoryBytesMax: number } {
    const { processesMax, memoryBudgetMb } = this.#options.limits;
    return { processesMax, memoryBytesMax: memoryBudgetMb * 1024 * 1024 };
  }

  /** Shares of the owners that have processes, or had to wait for one. */
  ownerShares(): OwnerShare[] {
    const { owners } = this.#shares;
    const records = this.#records.byOwner;
    return [...new Set([...owners.keys(), ...records.keys()])].map((ownerId) => {
      const { processes = 0, memoryBytes = 0 } = owners.get(ownerId) ?? {};
      const { delayed = 0, refused = 0 } = records.get(ownerId) ?? {};
      return { ownerId, processes, memoryBytes, delayed, refused };
    });
  }

  /** Undefined when the process was not given to an owner yet. */
  ownerOf(process: SandboxProcess): string | undefined {
    return this.#shares.ownerOf(process);
  }

  sawMemory(process: SandboxProcess, privateBytes: number): void {
    this.#shares.sawMemory(process, privateBytes);
  }

  /** Ends idle processes of owners who use too much memory. */
  freeMemory(): void {
    for (const { owners, bytes } of this.#shares.memoryToFree()) {
      for (let left = bytes; left > 0; ) {
        const process = this.#options.endIdle((ownerId) => (owners.has(ownerId) ? 1 : 0));
        if (process === undefined) break;
        left -= this.#shares.memoryOf(process);
      }
    }
    this.roomMayBeMade();
  }

  /** Owners with waiting calls. */
  #waitingOwners(): ReadonlySet<string> {
    return new Set(this.#waiters.map(({ ownerId }) => ownerId));
  }

  /** Waiters whose owners may have one more process now, in the order of their turns. */
  #eligible(): Waiter[] {
    if (this.#waiters.length === 0) return [];
    const order = this.#shares.order(this.#waitingOwners());
    const places = new Map(order.map((ownerId, place) => [ownerId, place]));
    return this.#waiters
      .filter(({ ownerId }) => places.has(ownerId))
      .sort((a, b) => (places.get(a.ownerId) ?? 0) - (places.get(b.ownerId) ?? 0));
  }

  #isUsual({ memoryMb, packages }: ProcessNeeds): boolean {
    const isUsualSize = memoryMb === undefined || memoryMb === this.#options.limits.memoryMb;
    return isUsualSize && packages === undefined;
  }

  #takeReady(): SandboxProcess | undefined {
    for (let process = this.#ready.shift(); process !== undefined; process = this.#ready.shift()) {
      if (!process.usable) continue;
      this.#sawTaken();
      this.#fill();
      return process;
    }
    return undefined;
  }

  #sawTaken(): void {
    this.#expected = Math.max(0, this.#expected - 1);
  }

  #leave(waiter: Waiter): boolean {
    const index = this.#waiters.indexOf(waiter);
    if (index >= 0) this.#waiters.splice(index, 1);
    return index >= 0;
  }

  /** Called when a process with code has become idle: it may have to end for a waiting call. */
  roomMayBeMade(): void {
    if (this.#waiters.length > 0) this.#fill();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#surplusTimer);
    this.#letWaitersGo();
    await this.#starter.close();
  }

  /** Starts as many processes as waiting calls need, and then further ones one at a time, slowly. */
  #fill(): void {
    if (this.#closed || !this.#started) return;
    this.#handOut();
    const { limits } = this.#options;
    for (;;) {
      if (this.#booting >= limits.bootingMax) return;
      const eligible = this.#eligible();
      const special = eligible.find((waiter) => !waiter.coming && !this.#isUsual(waiter.needs));
      const waiting = eligible.filter((waiter) => this.#isUsual(waiter.needs)).length;
      const coming = this.#ready.length + this.#booting - this.#bootingSpecial;
      if (special === undefined && coming >= this.#prewarmed + waiting) return;
      const urgent = special !== undefined || waiting > coming;
      const now = performance.now();
      const earliest = Math.max(
        urgent ? 0 : this.#lastSpawnAt + limits.refillIntervalMs,
        this.#failedAt + limits.startRetryMs,
      );
      // This method is called again when the one that starts now is ready.
      if (!urgent && this.#booting > 0) return;
      if (now < earliest) {
        this.#fillLater(Math.max(earliest - now, 1));
        return;
      }
      if (this.#starter.count >= limits.processesMax) {
        // This method is called again when a process has ended.
        if (urgent && !this.#isRoomComing(special === undefined ? waiting - coming : 1))
          if (!this.#makeRoom(eligible) && special !== undefined) this.#ready.shift()?.kill('retired');
        return;
      }
      this.#spawn(special, urgent);
    }
  }

  /** Number of processes that are kept ready. */
  get #prewarmed(): number {
    const { prewarmed, prewarmedUnused } = this.#options.limits;
    return Math.max(this.#expected, this.#isUsed ? prewarmed : Math.min(prewarmed, prewarmedUnused));
  }

  /** Ends an idle process for the first waiting owner for whom that is possible. */
  #makeRoom(waiters: readonly Waiter[]): boolean {
    const owners = new Set(waiters.map(({ ownerId }) => ownerId));
    return [...owners].some((ownerId) => {
      const process = this.#options.endIdle(this.#shares.roomFor(ownerId));
      if (process !== undefined) this.#makingRoom.set(process, performance.now());
      return process !== undefined;
    });
  }

  /** True when processes that are ending now make enough room. Those that take long to end are not relied on. */
  #isRoomComing(needed: number): boolean {
    const fromMs = performance.now() - roomComesWithinMs;
    const coming = [...this.#makingRoom.values()].filter((sinceMs) => sinceMs > fromMs);
    return coming.length >= needed;
  }

  #fillLater(delayMs: number): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#fill();
    }, delayMs);
  }

  /** Starts a process for a waiter with special needs, or a generic one. `urgent`: a call waits for it. */
  #spawn(waiter: Waiter | undefined, urgent: boolean): void {
    this.#lastSpawnAt = performance.now();
    this.#booting += 1;
    if (waiter !== undefined) {
      waiter.coming = true;
      this.#bootingSpecial += 1;
    }
    void this.#boot(waiter, urgent).then((process) => {
      this.#booting -= 1;
      if (waiter !== undefined) {
        waiter.coming = false;
        this.#bootingSpecial -= 1;
      }
      if (process === undefined) this.#failedAt = performance.now();
      else if (waiter === undefined) this.#ready.push(process);
      else if (this.#leave(waiter)) this.#give(process, waiter);
      else process.kill('retired');
      this.#fill();
    });
  }

  /** Resolves with a process that has started; undefined when that failed, which was logged. */
  async #boot(waiter: Waiter | undefined, urgent: boolean): Promise<SandboxProcess | undefined> {
    const { limits, logger } = this.#options;
    // A call that waits for the process pays only for the modules that its code loads.
    const process = await this.startProcess(
      urgent ? {} : { prewarmAfterMs: limits.prewarmAfterMs },
      waiter?.needs,
    );
    if (process instanceof Error) {
      if (this.#closed) return undefined;
      logger.error({ err: process }, 'runner.start-failed');
      // The machine has run out of a resource. The callers that wait can decide better when to try again.
      this.#letWaitersGo();
      return undefined;
    }
    if ((await process.ready) !== undefined) return process;
    if (!this.#closed) logger.error({ stderr: process.stderrTail.slice(-500) }, 'runner.boot-failed');
    return undefined;
  }

  #letWaitersGo(): void {
    for (const waiter of this.#waiters.splice(0)) {
      clearTimeout(waiter.timer);
      waiter.resolve(undefined);
    }
  }

  /** Gives ready processes to waiters, also to those that had to wait for the share of their owner and not for a process. */
  #handOut(): void {
    while (this.#ready.length > 0) {
      const waiter = this.#eligible().find(({ needs }) => this.#isUsual(needs));
      const next = waiter === undefined ? undefined : this.#ready.shift();
      if (waiter === undefined || next === undefined) return;
      if (!next.usable) continue;
      this.#sawTaken();
      this.#leave(waiter);
      this.#give(next, waiter);
    }
  }

  #give(process: SandboxProcess, waiter: Waiter): void {
    clearTimeout(waiter.timer);
    this.#giveTo(process, waiter.ownerId);
    waiter.resolve(process);
  }

  #giveTo(process: SandboxProcess, ownerId: string): void {
    this.#shares.took(process, ownerId);
    this.#options.onGiven?.(process, ownerId);
  }

  /** See `ProcessStarter.start`. */
  startProcess(
    extra: Pick<InitHeader, 'probe' | 'prewarmAfterMs'>,
    needs: ProcessNeeds = {},
  ): Promise<SandboxProcess | Error> {
    return this.#starter.start(extra, needs);
  }

  /** The connections and look-ups of a process count for the owner that has the process. */
  #connectionShare(process: () => SandboxProcess): ConnectionShare {
    let ownerId: string | undefined;
    const owner = () => {
      ownerId ??= this.#shares.ownerOf(process());
      return ownerId;
    };
    return {
      take: () => {
        const id = owner();
        if (id === undefined || this.#connections.take(id)) return undefined;
        const reason = `${this.#connections.of(id)} of ${this.#connections.max} connections are open for this owner, which is its share; close those that are not needed, or ask the operator for more descriptors (ulimit -n)`;
        this.#records.refused(id, 'connections', reason);
        return reason;
      },
      leave: () => {
        if (ownerId !== undefined) this.#connections.leave(ownerId);
      },
      lookup: (lookup) => {
        const id = owner();
        return id === undefined ? lookup() : this.#lookups.run(id, lookup);
      },
    };
  }

  #onEnded(process: SandboxProcess): void {
    const index = this.#ready.indexOf(process);
    if (index >= 0) this.#ready.splice(index, 1);
    const { hasCode, endReason } = process;
    if (hasCode && endReason !== 'retired' && endReason !== 'closing') this.#killCount += 1;
  }
}
