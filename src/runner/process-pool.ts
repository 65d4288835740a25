import type { AddressPolicy } from '#egress/address-policy.ts';
import type { EgressDoor } from '#egress/egress-door.ts';
import type { ConnectionShare } from '#egress/egress-relay.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Confinement } from './confinement.ts';
import { ConnectionShares } from './connection-shares.ts';
import type { Launcher } from './launcher.ts';
import { type OwnerProcessLimits, ProcessShares } from './process-shares.ts';
import type { InitHeader } from './protocol.ts';
import type { OwnerShare } from './runner.ts';
import { memoryFilesBytesMax, type RunnerLimits, scratchFilesMax } from './runner-limits.ts';
import type { RunnerTimer } from './runner-timer.ts';
import type { SandboxFolders } from './sandbox-folders.ts';
import { SandboxProcess } from './sandbox-process.ts';
import { type ShareCounts, ShareRecords, type ShareResource } from './share-records.ts';
import { SlotUsers } from './slot-users.ts';
import { type SpawnedSandbox, spawnSandbox } from './spawn-sandbox.ts';

export interface PoolOptions {
  launcher: Launcher;
  program: string;
  folders: SandboxFolders;
  confinement: Confinement;
  extraCa: string;
  policy: AddressPolicy;
  door?: EgressDoor;
  /** True: code may load the native addons of its packages. */
  addons: boolean;
  limits: RunnerLimits;
  timer: RunnerTimer;
  logger: Logger;
  /** The limits that an operator has set for an owner. */
  limitsOf?: (ownerId: string) => OwnerProcessLimits;
  /** Ends the idle process that was not used for longest, among the owners with the highest rank. Owners with rank 0 keep theirs. */
  endIdle: (rank: (ownerId: string) => number) => SandboxProcess | undefined;
  /** Called for each process that an owner gets, before any code of the owner is in it. */
  onGiven?: (process: SandboxProcess, ownerId: string) => void;
}

/** Requirements of one deployment on its process. */
export interface ProcessNeeds {
  /** Absent: the default of the service. */
  memoryMb?: number | undefined;
  /** Folders of packages that it has to read. They may not exist yet. */
  packages?: readonly string[];
}

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
  /** All running processes, with the users that they run as. */
  readonly #live = new Map<SandboxProcess, number | undefined>();
  readonly #users: SlotUsers;
  readonly #shares: ProcessShares;
  readonly #records: ShareRecords;
  readonly #connections: ConnectionShares;
  readonly #ready: SandboxProcess[] = [];
  readonly #waiters: Waiter[] = [];
  #booting = 0;
  /** Number of booting processes that start for one waiter. */
  #bootingSpecial = 0;
  #lastSpawnAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #failedAt = Number.NEGATIVE_INFINITY;
  #started = false;
  #closed = false;
  #killCount = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#users = new SlotUsers({
      onLeft: (left) => options.logger.warn(left, 'runner.left-processes-killed'),
    });
    this.#shares = new ProcessShares(options.limits, options.limitsOf);
    this.#connections = new ConnectionShares(options.limits.ownersConnectionsMax);
    const { logger, timer } = options;
    this.#records = new ShareRecords({ logger, nowMs: () => timer.nowMs() });
  }

  /** Begins to start processes ahead of need. */
  start(): void {
    this.#started = true;
    this.#fill();
  }

  get processes(): Iterable<SandboxProcess> {
    return this.#live.keys();
  }

  /** Number of processes with user code that ended for another reason than being superfluous. */
  get killCount(): number {
    return this.#killCount;
  }

  get readyCount(): number {
    return this.#ready.length;
  }

  /**
   * Returns a process that has run nothing yet, for code of this owner; undefined when none became free in time. A process with special needs
   * is started on request.
   */
  take(ownerId: string, needs: ProcessNeeds = {}): Promise<SandboxProcess | undefined> {
    if (this.#closed) return Promise.resolve(undefined);
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

  /** Waiters whose owners may have one more process now; those of the owner with the fewest come first. */
  #eligible(): Waiter[] {
    if (this.#waiters.length === 0) return [];
    const owners = this.#waitingOwners();
    const order = this.#shares.order(owners);
    return this.#waiters
      .filter(({ ownerId }) => order.has(ownerId))
      .sort((a, b) => (order.get(a.ownerId) ?? 0) - (order.get(b.ownerId) ?? 0));
  }

  #isUsual({ memoryMb, packages }: ProcessNeeds): boolean {
    const isUsualSize = memoryMb === undefined || memoryMb === this.#options.limits.memoryMb;
    return isUsualSize && packages === undefined;
  }

  #takeReady(): SandboxProcess | undefined {
    for (let process = this.#ready.shift(); process !== undefined; process = this.#ready.shift()) {
      if (!process.usable) continue;
      this.#fill();
      return process;
    }
    return undefined;
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
    this.#letWaitersGo();
    await Promise.all(this.#launching);
    const gone: Promise<void>[] = [];
    for (const process of this.#live.keys()) {
      process.kill('closing', 'the service is stopping');
      gone.push(process.ended);
    }
    await Promise.all(gone);
    await Promise.all(this.#removals);
    await this.#users.close();
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
      if (special === undefined && coming >= limits.prewarmed + waiting) return;
      const urgent = special !== undefined || waiting > coming;
      const now = performance.now();
      const earliest = Math.max(
        urgent ? 0 : this.#lastSpawnAt + limits.refillIntervalMs,
        this.#failedAt + limits.startRetryMs,
      );
      if (now < earliest || (!urgent && this.#booting > 0)) {
        this.#fillLater(Math.max(earliest - now, 1));
        return;
      }
      if (this.#live.size + this.#launching.size >= limits.processesMax) {
        // This method is called again when a process has ended.
        if (urgent && !this.#makeRoom(eligible) && special !== undefined)
          this.#ready.shift()?.kill('retired');
        return;
      }
      this.#spawn(special, urgent);
    }
  }

  /** Ends an idle process for the first waiting owner for whom that is possible. */
  #makeRoom(waiters: readonly Waiter[]): boolean {
    const owners = new Set(waiters.map(({ ownerId }) => ownerId));
    return [...owners].some((ownerId) => this.#options.endIdle(this.#shares.roomFor(ownerId)) !== undefined);
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

  /**
   * Starts one process and records it until it has ended and its traces are removed. Returns an Error when the machine has no memory,
   * descriptors or disk space for it, which is no reason to end the service.
   */
  startProcess(
    extra: Pick<InitHeader, 'probe' | 'prewarmAfterMs'>,
    needs: ProcessNeeds = {},
  ): Promise<SandboxProcess | Error> {
    const starting = this.#startProcess(extra, needs).finally(() => this.#launching.delete(starting));
    this.#launching.add(starting);
    return starting;
  }

  async #startProcess(
    extra: Pick<InitHeader, 'probe' | 'prewarmAfterMs'>,
    needs: ProcessNeeds,
  ): Promise<SandboxProcess | Error> {
    const { folders, confinement, program, logger, extraCa, policy, door, addons, timer, launcher } =
      this.#options;
    const { memoryMb = this.#options.limits.memoryMb, packages } = needs;
    const limits = { ...this.#options.limits, memoryMb };
    let uid: number | undefined;
    let scratch: string | undefined;
    let sandbox: SpawnedSandbox | undefined;
    let process: SandboxProcess;
    try {
      uid = confinement.distinctUsers ? this.#freeUser() : undefined;
      // At the kernel level the folder is in memory, and at the seat belt in the memory of the process itself.
      const inMemory = confinement.level === 'seat-belt';
      scratch = confinement.kernel === undefined && !inMemory ? folders.newScratch(uid) : undefined;
      sandbox = await spawnSandbox(launcher, {
        level: confinement.level,
        program,
        scratchBytesMax: limits.scratchBytesMax,
        memoryMb,
        ...(scratch === undefined ? {} : { scratch }),
        ...(packages === undefined ? {} : { packages, addons }),
        ...(uid === undefined ? {} : { uid }),
        ...(confinement.setpriv === undefined ? {} : { setpriv: confinement.setpriv }),
        ...(confinement.prlimit === undefined ? {} : { prlimit: confinement.prlimit }),
        ...(confinement.kernel === undefined ? {} : { kernel: confinement.kernel }),
        ...(extra.probe?.bare === true ? { bare: true } : {}),
      });
      folders.processStarted(sandbox.launched.pid);
      const init: InitHeader = {
        ...{ limits: limitsInside(limits), ...extra },
        ...(sandbox.scratchInside === undefined ? {} : { scratch: sandbox.scratchInside }),
        ...(inMemory
          ? { memoryFiles: { bytesMax: memoryFilesBytesMax(limits), filesMax: scratchFilesMax } }
          : {}),
        ...(packages === undefined ? {} : { packages: packages.map(sandbox.packagesInside) }),
      };
      const connectionShare = this.#connectionShare(() => process);
      const way = { policy, connectionShare, ...(door === undefined ? {} : { door }) };
      process = new SandboxProcess(sandbox, { init, extraCa, ...way, limits, timer, logger });
    } catch (error) {
      sandbox?.launched.kill();
      await sandbox?.launched.ended;
      void this.#removeTraces(sandbox === undefined ? [] : [sandbox.launched.pid], scratch);
      if (uid !== undefined) this.#users.release(uid);
      return toError(error);
    }
    const { pid: started } = sandbox.launched;
    this.#live.set(process, uid);
    if (scratch !== undefined) scratchOf.set(process, scratch);
    void process.ready.then(() => this.#noteInner(process, started));
    void process.ended.then(() => this.#forget(process, [started, process.pid], scratch));
    if (this.#closed) process.kill('closing', 'the service is stopping');
    return process;
  }

  /** The connections of a process count for the owner that has the process. */
  #connectionShare(process: () => SandboxProcess): ConnectionShare {
    let ownerId: string | undefined;
    return {
      take: () => {
        ownerId ??= this.#shares.ownerOf(process());
        if (ownerId === undefined || this.#connections.take(ownerId)) return undefined;
        const reason = `${this.#connections.of(ownerId)} of ${this.#connections.max} connections are open for this owner, which is its share; close those that are not needed, or ask the operator for more descriptors (ulimit -n)`;
        this.#records.refused(ownerId, 'connections', reason);
        return reason;
      },
      leave: () => {
        if (ownerId !== undefined) this.#connections.leave(ownerId);
      },
    };
  }

  /** Records the process that bubblewrap started. It ends with bubblewrap, and is also looked for after a crash of the service. */
  #noteInner(process: SandboxProcess, started: number | undefined): void {
    const { pid, usable } = process;
    if (pid === undefined || pid === started || !usable) return;
    try {
      this.#options.folders.processStarted(pid);
    } catch (error) {
      this.#options.logger.warn({ err: error }, 'runner.process-list-lost');
    }
  }

  readonly #removals = new Set<Promise<void>>();
  /** Processes that are being launched and are not in `#live` yet. */
  readonly #launching = new Set<Promise<unknown>>();

  #forget(process: SandboxProcess, pids: readonly (number | undefined)[], scratch: string | undefined): void {
    const index = this.#ready.indexOf(process);
    if (index >= 0) this.#ready.splice(index, 1);
    const { hasCode, endReason } = process;
    if (hasCode && endReason !== 'retired' && endReason !== 'closing') this.#killCount += 1;
    void this.#removeTraces(pids, scratch).then(() => {
      const user = this.#live.get(process);
      this.#live.delete(process);
      this.#shares.left(process);
      // Released only here: the next process of this user must not find the folder.
      if (user !== undefined) this.#users.release(user);
      this.#fill();
    });
  }

  /** Never rejects. What cannot be removed is removed at the stop or the next start of the service. */
  #removeTraces(pids: readonly (number | undefined)[], scratch: string | undefined): Promise<void> {
    const { folders, logger } = this.#options;
    const remove = async (): Promise<void> => {
      try {
        folders.processesEnded(pids.filter((pid) => pid !== undefined));
      } catch (error) {
        logger.warn({ err: error }, 'runner.process-list-lost');
      }
      try {
        if (scratch !== undefined) await folders.removeScratch(scratch);
      } catch (error) {
        logger.warn({ err: error }, 'runner.scratch-removal-failed');
      }
    };
    const removal = remove();
    this.#removals.add(removal);
    return removal.finally(() => this.#removals.delete(removal));
  }

  #freeUser(): number {
    const user = this.#users.take();
    if (user === undefined)
      throw new Error('every user that processes may run as has one that has not ended');
    return user;
  }
}

const scratchOf = new WeakMap<SandboxProcess, string>();

/** The scratch folder of a process, for the watch over its size; undefined where it is in memory. */
export function scratchFolderOf(process: SandboxProcess): string | undefined {
  return scratchOf.get(process);
}

function limitsInside(limits: RunnerLimits): InitHeader['limits'] {
  const {
    logBytesMax,
    logLinesMax,
    emitsMax,
    emitBytesMax,
    dbBytesMax,
    resultBytesMax,
    shapeBytesMax,
    replyBytesMax,
    stepExportBytesMax,
  } = limits;
  return {
    logBytesMax,
    logLinesMax,
    emitsMax,
    emitBytesMax,
    dbBytesMax,
    resultBytesMax,
    shapeBytesMax,
    replyBytesMax,
    stepExportBytesMax,
  };
}
