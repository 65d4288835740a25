import { availableParallelism } from 'node:os';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { CallOutcome, UserCodeError } from './call-outcome.ts';
import { notedPart } from './cpu-shares.ts';
import { Home } from './home.ts';
import type { LoadablePackages, ReadyCode } from './loadable-packages.ts';
import { serviceError } from './process-end.ts';
import { processMemory } from './process-memory.ts';
import type { ProcessPool } from './process-pool.ts';
import type { CallRequest, RunnerProcess, SetApartDeployment } from './runner.ts';
import { type RunnerLimits, residentOverheadMb } from './runner-limits.ts';
import { copyOutcome, ended } from './runner-outcomes.ts';
import type { RunnerTimer } from './runner-timer.ts';
import type { SandboxProcess } from './sandbox-process.ts';
import { SetApart } from './set-apart.ts';

/** Calls of other deployments avoid a process that has calls in it and gives no sign of life for this long. */
const blockedMs = 250;
/** At this number of calls, a further process is started for the trust domain, up to one for each core. */
const crowdedCalls = 64;
/** Parts of a process's memory limit. Above the first it accepts no further deployments; above the second it is replaced when it is idle. */
const fullPart = 0.6;
const replacedPart = 0.85;
/** Bundles that a process may have unloaded before it is replaced: Node never frees an ES module. */
const unloadsMax = 200;

export interface HomesOptions {
  limits: RunnerLimits;
  pool: ProcessPool;
  packages: LoadablePackages;
  timer: RunnerTimer;
  clock: Clock;
  logger: Logger;
  onUnattributedError: (deploymentId: string, error: UserCodeError) => void;
}

/**
 * Decides which process runs the code of a deployment. Deployments of one trust domain share processes: a deployment costs a process only
 * its evaluated code, and an idle one costs a row in the store. A deployment has a process of its own if it asks for one, needs another
 * memory limit or packages as files, or is set apart.
 */
export class Homes {
  readonly #options: HomesOptions;
  /** Homes that accept calls, by trust domain or deployment. */
  readonly #taking = new Map<string, Home[]>();
  /** Every home whose process still runs. */
  readonly #all = new Set<Home>();
  readonly #setApart = new SetApart();
  readonly #opened = new WeakMap<SandboxProcess, Home>();

  constructor(options: HomesOptions) {
    this.#options = options;
  }

  get all(): Iterable<Home> {
    return this.#all;
  }

  /** Number of owners of these that have no process that deployments share. */
  countWithout(ownerIds: readonly string[]): number {
    const owners = new Set(ownerIds);
    for (const homes of this.#taking.values())
      for (const home of homes) if (home.isShared && this.#isFit(home)) owners.delete(home.ownerId);
    return owners.size;
  }

  /** Returns the home for a call, and starts it when needed. Returns an outcome when no process can be started. */
  find(request: CallRequest): Home | CallOutcome | Promise<Home | CallOutcome> {
    const isShared = this.#mayShare(request);
    const key = isShared ? domainKey(request) : `deployment ${request.deploymentId}`;
    const home = isShared ? this.#sharedHome(key, request) : this.#ownHome(key, request);
    const { process } = home;
    if (process === undefined) return this.#whenStarted(home);
    if (!isShared || process.callsInFlight === process.callsInFlightOf(request.deploymentId)) return home;
    const responds = process.responds(blockedMs);
    return responds === true ? home : responds.then((does) => (does ? home : this.find(request)));
  }

  #mayShare(request: CallRequest): boolean {
    const { isolated, memoryMb, packages = [], bundle } = request;
    const isUsual = memoryMb === undefined || memoryMb === this.#options.limits.memoryMb;
    const hasFiles = packages.length > 0 || bundle.packages !== undefined;
    return isolated !== true && isUsual && !hasFiles && !this.#setApart.has(request);
  }

  #ownHome(key: string, request: CallRequest): Home {
    for (const home of this.#taking.get(key) ?? []) {
      if (this.#isFit(home) && home.fits(request)) return home;
      this.leave(home);
    }
    return this.#open(key, request, false);
  }

  #sharedHome(key: string, request: CallRequest): Home {
    let best: Home | undefined;
    let starting: Home | undefined;
    let count = 0;
    for (const home of this.#taking.get(key) ?? []) {
      if (!this.#isFit(home)) {
        this.leave(home);
        continue;
      }
      count += 1;
      const { process } = home;
      if (process === undefined) starting ??= home;
      else if (process.isBlocked || (home.isFull && !home.has(request.deploymentId))) continue;
      else if (best === undefined || isBetter(home, best, request.deploymentId)) best = home;
    }
    const crowd = best?.process?.callsInFlight ?? 0;
    if (best !== undefined && (crowd < crowdedCalls || count >= availableParallelism())) return best;
    if (best !== undefined && starting === undefined) this.#open(key, request, true);
    return best ?? starting ?? this.#open(key, request, true);
  }

  #isFit({ process }: Home): boolean {
    return process === undefined || (process.usable && process.callsTaken < this.#options.limits.callsMax);
  }

  async #whenStarted(home: Home): Promise<Home | CallOutcome> {
    const started = await home.starting;
    if (started === undefined || !('status' in started)) return home;
    return copyOutcome(started);
  }

  #open(key: string, request: CallRequest, isShared: boolean): Home {
    const { ownerId, trustDomain = ownerId } = request;
    const home = new Home({ key, ownerId, trustDomain, isShared, startedAtMs: this.#options.clock.now() });
    this.#all.add(home);
    this.#taking.set(key, [...(this.#taking.get(key) ?? []), home]);
    home.starting = this.#start(home, request).then(
      (started) => {
        if ('status' in started) this.#gone(home);
        return started;
      },
      (error: unknown) => {
        // This should never happen. If it does, the next call must not get the same rejection again.
        this.#options.logger.error({ err: error }, 'runner.load-failed');
        this.#gone(home);
        return this.noProcess(request.ownerId);
      },
    );
    return home;
  }

  async #start(home: Home, request: CallRequest): Promise<SandboxProcess | CallOutcome> {
    const { packages, onUnattributedError } = this.#options;
    const ready = home.isShared ? sharedNeeds(request) : await packages.ready(request);
    if ('status' in ready) return ready;
    const process = await this.#options.pool.take(request.ownerId, ready.needs);
    ready.holdFor(process);
    if (process === undefined) return this.noProcess(request.ownerId);
    home.process = process;
    this.#opened.set(process, home);
    process.onUnattributedError = (error, deploymentId) => {
      onUnattributedError(deploymentId, error);
      this.#setApartStray(home, deploymentId, error.message);
    };
    process.onIdle = () => this.#options.pool.roomMayBeMade();
    process.onFault = () => this.leave(home);
    process.onLeftover = () => this.leave(home);
    process.onStrayExit = (deploymentId) =>
      this.#setApartStray(home, deploymentId, 'code that a call left behind ended the process');
    void process.ended.then(() => this.#gone(home));
    // A new revision came while this process started. Calls that wait for it still get it.
    if (!this.#isTaking(home)) setImmediate(() => process.retire());
    return process;
  }

  noProcess(ownerId: string): CallOutcome {
    const why = this.#options.pool.whyNone(ownerId);
    return ended('cancelled', serviceError(`no process became free for the call: ${why}`, 'no_free_process'));
  }

  #isTaking(home: Home): boolean {
    return this.#taking.get(home.key)?.includes(home) ?? false;
  }

  /** Stops giving calls to a home. Its process ends when its calls in flight have ended. */
  leave(home: Home): void {
    const others = this.#taking.get(home.key)?.filter((other) => other !== home) ?? [];
    if (others.length > 0) this.#taking.set(home.key, others);
    else this.#taking.delete(home.key);
    home.process?.retire();
  }

  #gone(home: Home): void {
    this.leave(home);
    this.#all.delete(home);
  }

  /** Sets a deployment apart because code that its ended calls left behind ended its process, or made a replacement necessary. */
  #setApartStray(home: Home, deploymentId: string, reason: string): void {
    const revision = home.revisionOf(deploymentId);
    if (!home.isShared || revision === undefined) return;
    const { ownerId, trustDomain } = home;
    const code = { deploymentId, ownerId, trustDomain, revision };
    this.#setApart.addStray(code, { reason, atMs: this.#options.clock.now() });
    this.#tellSetApart({ deploymentId, ownerId }, reason);
  }

  #tellSetApart(
    { deploymentId, ownerId }: Pick<CallRequest, 'deploymentId' | 'ownerId'>,
    reason: string,
  ): void {
    this.#options.logger.warn({ deployment: deploymentId, owner: ownerId, reason }, 'runner.set-apart');
    for (const home of this.#all) if (home.isShared) home.drop(deploymentId);
  }

  /** Gives the deployment of this call a process of its own, because its code ended the shared one. */
  setApart(request: CallRequest, reason: string): void {
    if (!this.#mayShare(request)) return;
    this.#setApart.add(request, { reason, atMs: this.#options.clock.now() });
    this.#tellSetApart(request, reason);
  }

  /** Counts the processes that accept calls. */
  get counts(): { warm: number; deployments: number; setApart: number } {
    let warm = 0;
    let deployments = 0;
    for (const home of this.#taken()) {
      if (home.deploymentCount === 0) continue;
      warm += 1;
      deployments += home.deploymentCount;
    }
    return { warm, deployments, setApart: this.#setApart.count };
  }

  describe(): { processes: RunnerProcess[]; setApart: SetApartDeployment[] } {
    const processes: RunnerProcess[] = [];
    for (const home of this.#all) {
      const { process, ownerId, trustDomain, isShared, startedAtMs } = home;
      if (process === undefined) continue;
      const deploymentIds = home.deploymentIds.toSorted(
        (a, b) => process.callsInFlightOf(b) - process.callsInFlightOf(a),
      );
      const { pid, callsInFlight: calls } = process;
      const memoryBytes = pid === undefined ? undefined : processMemory(pid)?.residentBytes;
      const state = this.#stateOf(home);
      const lastBlame = this.#setApart.lastBlameOf(trustDomain);
      const { cores, isGreedy } = process.cpu;
      const place = { pid, ownerId, trustDomain, lastBlame, isShared, purpose: 'deployments' as const };
      processes.push({ ...place, state, deploymentIds, calls, memoryBytes, cores, isGreedy, startedAtMs });
    }
    return { processes, setApart: this.#setApart.list() };
  }

  #stateOf(home: Home): RunnerProcess['state'] {
    if (!this.#isTaking(home)) return 'leaving';
    if (home.process?.isBlocked === true) return 'blocked';
    if (home.process?.idle !== true) return 'busy';
    return home.process.cpu.cores > notedPart ? 'background' : 'idle';
  }

  /** Ends the calls of a deployment. Resolves when the processes that only it used have ended. */
  async forget(deploymentId: string): Promise<void> {
    this.#setApart.remove(deploymentId);
    const own: Promise<void>[] = [];
    for (const home of this.#all) {
      if (!home.has(deploymentId)) continue;
      const { process } = home;
      process?.forget(deploymentId);
      if (home.isShared) home.drop(deploymentId);
      else {
        this.leave(home);
        process?.kill('forgotten', 'the deployment was ended');
      }
      if (process?.endReason === 'forgotten') own.push(process.ended);
    }
    await Promise.all(own);
  }

  /** Ends the idle process that was not used for longest, among the owners with the highest rank. Owners with rank 0 keep theirs. */
  endIdle(rank: (ownerId: string) => number): SandboxProcess | undefined {
    let ended: { home: Home; process: SandboxProcess; rank: number } | undefined;
    for (const home of this.#taken()) {
      const { process, ownerId } = home;
      // A process without code was just started for a call that is about to come.
      if (process?.idle !== true || !process.hasCode) continue;
      const candidate = { home, process, rank: rank(ownerId) };
      if (candidate.rank > 0 && (ended === undefined || isEndedBefore(candidate, ended))) ended = candidate;
    }
    if (ended !== undefined) this.leave(ended.home);
    return ended?.process;
  }

  /** Homes that accept calls and have a process. */
  *#taken(): Generator<Home> {
    for (const homes of this.#taking.values())
      for (const home of homes) if (home.process !== undefined) yield home;
  }

  /** Stops giving calls to a process; the next calls get another one. */
  replace(process: SandboxProcess): void {
    const home = this.#opened.get(process);
    if (home !== undefined) this.leave(home);
  }

  /** Decides by the memory of a process whether it accepts further deployments, and whether it is replaced. */
  sawMemory(process: SandboxProcess, residentBytes: number): void {
    const home = this.#opened.get(process);
    if (home?.isShared !== true) return;
    const part = residentBytes / ((this.#options.limits.memoryMb + residentOverheadMb) * 1024 * 1024);
    home.isFull = part > fullPart;
    if (part > replacedPart && process.idle) this.leave(home);
  }

  /** Ends processes that were idle for too long, and those that have unloaded too many bundles. */
  keepHouse(): void {
    const nowMs = this.#options.timer.nowMs();
    for (const home of this.#taken()) {
      const { process } = home;
      if (process?.idle !== true) continue;
      home.unloadUnused();
      const isOld = nowMs - process.lastUsedAtMs > this.#options.limits.idleMs;
      if (isOld || home.unloads > unloadsMax) this.leave(home);
    }
  }
}

interface Endable {
  process: SandboxProcess;
  rank: number;
}

function isEndedBefore(one: Endable, other: Endable): boolean {
  if (one.rank !== other.rank) return one.rank > other.rank;
  return one.process.lastUsedAtMs < other.process.lastUsedAtMs;
}

/** Two owners never share a process, whatever the trust domain of a request says. */
function domainKey({ ownerId, trustDomain = ownerId }: CallRequest): string {
  return `domain of ${ownerId}: ${trustDomain}`;
}

function sharedNeeds({ bundle }: CallRequest): ReadyCode {
  return { needs: {}, bundle, holdFor: () => undefined };
}

/** True when `home` is the better choice: it has the code of the deployment already, or else fewer calls. */
function isBetter(home: Home, than: Home, deploymentId: string): boolean {
  const has = home.has(deploymentId);
  if (has !== than.has(deploymentId)) return has;
  return (home.process?.callsInFlight ?? 0) < (than.process?.callsInFlight ?? 0);
}
