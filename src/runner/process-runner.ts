import { join } from 'node:path';
import type { AddressPolicy } from '#egress/address-policy.ts';
import type { EgressDoor } from '#egress/egress-door.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { CallOutcome, UserCodeError } from './call-outcome.ts';
import type { Confinement, KernelTools } from './confinement.ts';
import { LoadablePackages, type ReadyCode } from './loadable-packages.ts';
import { type CallAnswer, notStarted, serviceError } from './process-end.ts';
import { processMemory } from './process-memory.ts';
import { ProcessPool, scratchFolderOf } from './process-pool.ts';
import type {
  CallOptions,
  CallRequest,
  DescribeOutcome,
  DescribeRequest,
  PackageSource,
  Runner,
  RunnerStats,
} from './runner.ts';
import { defaultRunnerLimits, type RunnerLimits, scratchFilesMax } from './runner-limits.ts';
import { asDescription, copyOutcome, ended } from './runner-outcomes.ts';
import { type RunnerTimer, systemTimer } from './runner-timer.ts';
import { reachableBase, SandboxFolders } from './sandbox-folders.ts';
import type { SandboxProcess } from './sandbox-process.ts';
import { buildSandboxProgram } from './sandbox-program.ts';
import { memoryFolderUse, scratchBytes } from './scratch-size.ts';
import { findConfinement, mayUseDistinctUsers } from './self-test.ts';

export interface ProcessRunnerOptions {
  /** auto: the best isolation that passes its self-test; require: only the kernel level; seat-belt: no better one; off: development only. */
  level: 'auto' | 'require' | 'seat-belt' | 'off';
  /** Where user code may connect. */
  policy: AddressPolicy;
  /** Where connections of user code to the service itself come in; default: nowhere. */
  door?: EgressDoor;
  /** PEM text of authorities trusted besides the bundled ones. */
  extraCa?: string;
  /** Packages that bundles import from files; absent: such bundles do not load. */
  packages?: PackageSource;
  /**
   * Whether code may load the native addons of such packages, which no permission model confines. auto: at the kernel level; absent: nowhere.
   */
  addons?: 'auto' | 'refuse' | 'allow';
  /** Data folder for the program, the list of processes and scratch folders. */
  folder: string;
  limits?: Partial<RunnerLimits>;
  timer?: RunnerTimer;
  logger: Logger;
  clock: Clock;
  /** Told of an error in the code of a deployment that no call caught and that belongs to none that still runs. */
  onUnattributedError?: (deploymentId: string, error: UserCodeError) => void;
}

/** Starts the runner. Throws when the isolation that was asked for does not hold on this machine. */
export async function createProcessRunner(options: ProcessRunnerOptions): Promise<Runner> {
  const limits = { ...defaultRunnerLimits, ...options.limits };
  const distinctUsers = options.level !== 'off' && mayUseDistinctUsers();
  const folders = new SandboxFolders(reachableBase(options.folder, distinctUsers), (folder, error) =>
    options.logger.warn({ err: error, folder }, 'runner.folder_not_removed'),
  );
  // Any local process of our user can send SIGUSR1; without a listener node opens its debugger.
  process.on('SIGUSR1', ignoreSignal);
  try {
    const program = await buildSandboxProgram(folders.program);
    const extraCa = options.extraCa ?? '';
    const { policy, door, logger, timer = systemTimer } = options;
    const shared = {
      ...{ program, folders, extraCa, limits, policy, timer, logger },
      ...(door === undefined ? {} : { door }),
    };
    const confinement = await findConfinement({
      ...{ ...shared, level: options.level, distinctUsers, addons: false },
      resultsFile: join(options.folder, 'sandbox-self-test.json'),
    });
    const addons =
      options.addons === 'allow' || (options.addons === 'auto' && confinement.level === 'kernel');
    return new ProcessRunner(
      {
        ...{ limits, folders, timer, logger, addons },
        onUnattributedError: options.onUnattributedError ?? (() => undefined),
        packages: new LoadablePackages(options.packages, {
          // The system loads addons from real files.
          inMemory: confinement.level === 'seat-belt' && !addons,
          whole: confinement.level === 'kernel',
        }),
      },
      (makeRoom) => new ProcessPool({ ...shared, addons, confinement, makeRoom }),
      confinement,
    );
  } catch (error) {
    folders.remove();
    process.off('SIGUSR1', ignoreSignal);
    throw error;
  }
}

function ignoreSignal(): void {}

/** Stands where the hash of a bundle would: the process has several, by name. */
const severalBundles = '';

/** The process of one deployment at one revision. */
interface Binding {
  deploymentId: string;
  ownerId: string;
  revision: number | string;
  bundleHash: string;
  /** Set once the bundle is loaded; where there are several, once it can load them. */
  process: SandboxProcess | undefined;
  /** The process, or the outcome that every waiting call gets. */
  loaded: Promise<SandboxProcess | CallOutcome>;
  forgotten: boolean;
}

/** Bytes that wait to be read by a process: far beyond what a healthy one leaves. */
const backlogBytesMax = 64 * 1024 * 1024;
/** Idle processes, sizes of folders and the memory budget are looked at once in so many polls. */
const housekeepingPolls = 10;
/** A call whose process died before taking it up is given to so many fresh ones. */
const placementsMax = 3;

class ProcessRunner implements Runner {
  readonly kernel?: KernelTools;
  readonly #limits: RunnerLimits;
  readonly #folders: SandboxFolders;
  readonly #logger: Logger;
  readonly #addons: boolean;
  readonly #confinement: Confinement;
  readonly #onUnattributedError: (deploymentId: string, error: UserCodeError) => void;
  readonly #packages: LoadablePackages;
  readonly #pool: ProcessPool;
  readonly #bindings = new Map<string, Binding>();
  readonly #processesOf = new Map<string, Set<SandboxProcess>>();
  readonly #timer: RunnerTimer;
  readonly #stopWatch: () => void;
  #polls = 0;
  #calls = 0;
  #kills = 0;
  #closing: Promise<void> | undefined;

  constructor(
    own: {
      limits: RunnerLimits;
      folders: SandboxFolders;
      timer: RunnerTimer;
      logger: Logger;
      addons: boolean;
      onUnattributedError: (deploymentId: string, error: UserCodeError) => void;
      packages: LoadablePackages;
    },
    makePool: (makeRoom: () => boolean) => ProcessPool,
    confinement: Confinement,
  ) {
    this.#limits = own.limits;
    this.#folders = own.folders;
    this.#logger = own.logger;
    this.#addons = own.addons;
    this.#confinement = confinement;
    if (confinement.kernel !== undefined) this.kernel = confinement.kernel;
    this.#onUnattributedError = own.onUnattributedError;
    this.#packages = own.packages;
    this.#pool = makePool(() => this.#endLeastRecentlyUsed());
    this.#timer = own.timer;
    this.#stopWatch = own.timer.every(this.#limits.memoryPollMs, () => this.#poll());
    this.#pool.start();
  }

  async describe(request: DescribeRequest): Promise<DescribeOutcome> {
    this.#calls += 1;
    const ready = await this.#packages.ready(request);
    if ('status' in ready) return asDescription(ready);
    const process = await this.#take(request.ownerId, ready);
    if (process === undefined) return asDescription(this.#noProcess(request.ownerId));
    try {
      const loaded = await process.load(ready.bundle, '');
      if (loaded === notStarted || loaded.status !== 'finished') return asDescription(loaded);
      const described = asDescription(await process.describe());
      return { ...described, logs: [...loaded.logs, ...described.logs] };
    } finally {
      process.kill('retired');
    }
  }

  async #take(ownerId: string, ready: ReadyCode): Promise<SandboxProcess | undefined> {
    const process = this.#closing === undefined ? await this.#pool.take(ownerId, ready.needs) : undefined;
    ready.holdFor(process);
    return process;
  }

  call(request: CallRequest, options: CallOptions = {}): Promise<CallOutcome> {
    this.#calls += 1;
    return this.#place(request, options, 1);
  }

  async #place(request: CallRequest, options: CallOptions, attempt: number): Promise<CallOutcome> {
    if (this.#closing !== undefined)
      return ended('cancelled', serviceError('the service is stopping', 'closing'));
    if (options.signal?.aborted)
      return ended('cancelled', serviceError('the call was cancelled', 'cancelled'));
    if (request.alone === true) return this.#callAlone(request, options, attempt);
    const binding = this.#bindingFor(request);
    let process = binding.process;
    if (process === undefined) {
      const loaded = await unlessAborted(binding.loaded, options.signal);
      if (loaded === aborted) return ended('cancelled', serviceError('the call was cancelled', 'cancelled'));
      if ('status' in loaded) return copyOutcome(loaded);
      process = loaded;
    }
    const { module } = request;
    if (module !== undefined && process.usable && !process.hasModule(module)) {
      const loading = this.#loadInto(process, request);
      const failed = await failureOfLoad(loading, options.signal);
      if (failed !== undefined) {
        if (failed.status === 'cancelled') return failed;
        // What a half-evaluated module left behind is in the way of the next try.
        process.retire();
        this.#unbind(binding);
        return failed;
      }
    }
    if (process.callsInFlight >= this.#limits.callsInFlightMax || process.backlogBytes > backlogBytesMax) {
      return ended(
        'cancelled',
        serviceError(
          `more than ${this.#limits.callsInFlightMax} calls of this deployment are in flight`,
          'too_many_calls',
        ),
      );
    }
    const answer = process.usable ? await process.call(request, options) : notStarted;
    if (answer !== notStarted) return answer;
    this.#unbind(binding);
    if (binding.forgotten) return ended('cancelled', serviceError('the deployment was ended', 'forgotten'));
    return this.#placeAgain(process, request, options, attempt);
  }

  #placeAgain(
    process: SandboxProcess,
    request: CallRequest,
    options: CallOptions,
    attempt: number,
  ): CallOutcome | Promise<CallOutcome> {
    if (attempt < placementsMax) return this.#place(request, options, attempt + 1);
    // Nothing of it ran, and its code is not to blame: no crash, but a call for another time.
    if (process.endReason === 'overloaded') {
      return ended(
        'cancelled',
        serviceError('the machine is too busy: no process took the call up', 'overloaded'),
      );
    }
    return ended('exited', serviceError('the process ended before it took the call up', 'exited'));
  }

  /** In a process that nothing else runs in, and that ends with the call. */
  async #callAlone(request: CallRequest, options: CallOptions, attempt: number): Promise<CallOutcome> {
    const getting = this.#packages.ready(request);
    const ready = await unlessAborted(getting, options.signal);
    if (ready === aborted) {
      void getting.then((late) => 'status' in late || late.holdFor(undefined));
      return ended('cancelled', serviceError('the call was cancelled', 'cancelled'));
    }
    if ('status' in ready) return ready;
    const taking = this.#take(request.ownerId, ready);
    const process = await unlessAborted(taking, options.signal);
    if (process === aborted) {
      void taking.then((late) => late?.kill('retired'));
      return ended('cancelled', serviceError('the call was cancelled', 'cancelled'));
    }
    if (process === undefined || this.#closing !== undefined) {
      process?.kill('retired');
      return this.#noProcess(request.ownerId);
    }
    this.#account(request.deploymentId, process);
    process.onUnattributedError = (error) => this.#onUnattributedError(request.deploymentId, error);
    try {
      const failed = await failureOfLoad(this.#loadInto(process, request), options.signal);
      if (failed !== undefined) return failed;
      const answer = process.usable ? await process.call(request, options) : notStarted;
      if (answer !== notStarted) return answer;
    } finally {
      process.kill('retired');
    }
    return this.#placeAgain(process, request, options, attempt);
  }

  releaseScratch(deploymentId: string, scratch: string): void {
    for (const process of this.#processesOf.get(deploymentId) ?? []) process.releaseScratch(scratch);
  }

  /** The binding of this deployment at this revision; another revision gets a fresh process, the old one ends when idle. */
  #bindingFor(request: CallRequest): Binding {
    const existing = this.#bindings.get(request.deploymentId);
    const bundleHash = request.module === undefined ? request.bundle.hash : severalBundles;
    if (existing !== undefined) {
      const same =
        existing.revision === request.revision &&
        existing.bundleHash === bundleHash &&
        existing.ownerId === request.ownerId;
      const fit =
        existing.process === undefined ||
        (existing.process.usable && existing.process.callsTaken < this.#limits.callsMax);
      if (same && fit) return existing;
      this.#unbind(existing);
    }
    const binding: Binding = {
      deploymentId: request.deploymentId,
      ownerId: request.ownerId,
      revision: request.revision,
      bundleHash,
      process: undefined,
      loaded: Promise.resolve(this.#noProcess(request.ownerId)),
      forgotten: false,
    };
    binding.loaded = this.#load(binding, request).catch((error: unknown) => {
      // Nothing should get here. If it does, the next call must not find the same rejection again.
      this.#logger.error({ err: error }, 'runner.load_failed');
      this.#unbind(binding);
      return this.#noProcess(request.ownerId);
    });
    this.#bindings.set(request.deploymentId, binding);
    return binding;
  }

  async #load(binding: Binding, request: CallRequest): Promise<SandboxProcess | CallOutcome> {
    const ready = await this.#packages.ready(request);
    if ('status' in ready) {
      this.#unbind(binding);
      return ready;
    }
    const process = await this.#take(request.ownerId, ready);
    if (process === undefined || binding.forgotten || this.#closing !== undefined) {
      process?.kill('retired');
      this.#unbind(binding);
      return binding.forgotten
        ? ended('cancelled', serviceError('the deployment was ended', 'forgotten'))
        : this.#noProcess(request.ownerId);
    }
    this.#account(binding.deploymentId, process);
    process.onUnattributedError = (error) => this.#onUnattributedError(binding.deploymentId, error);
    if (request.module === undefined) {
      const answer = await this.#loadInto(process, request);
      if (answer === notStarted || answer.status !== 'finished') {
        process.kill('retired');
        this.#unbind(binding);
        return answer === notStarted ? this.#noProcess(request.ownerId) : answer;
      }
    }
    binding.process = process;
    process.onIdle = () => this.#pool.roomMayBeMade();
    process.onFault = () => this.#unbind(binding);
    // A new revision came while this one loaded: the calls that wait for it still get it.
    if (this.#bindings.get(binding.deploymentId) !== binding) setImmediate(() => process.retire());
    return process;
  }

  /** The code of a call, evaluated; of several bundles its own, once. */
  async #loadInto(process: SandboxProcess, request: CallRequest): Promise<CallAnswer> {
    const { module, deploymentId } = request;
    const bundle = await this.#packages.open(process, request.bundle);
    if ('status' in bundle) return bundle;
    if (bundle.packagesFolder !== undefined && !process.mayRead(bundle.packagesFolder)) {
      // They were not there when it was started. The next process has them.
      process.retire();
      const message = 'the npm packages of the code are there now, and a new process will have them';
      return ended('cancelled', serviceError(message, 'packages_unavailable'));
    }
    return module === undefined
      ? process.load(bundle, deploymentId)
      : process.loadModule(module, bundle, deploymentId);
  }

  /** From being bound until the process is gone, also while it only finishes calls of an older revision. */
  #account(deploymentId: string, process: SandboxProcess): void {
    const processes = this.#processesOf.get(deploymentId) ?? new Set();
    this.#processesOf.set(deploymentId, processes.add(process));
    void process.ended.then(() => {
      processes.delete(process);
      if (processes.size === 0 && this.#processesOf.get(deploymentId) === processes)
        this.#processesOf.delete(deploymentId);
      if (process.endReason !== 'retired' && process.endReason !== 'closing') this.#kills += 1;
    });
  }

  #unbind(binding: Binding): void {
    if (this.#bindings.get(binding.deploymentId) === binding) this.#bindings.delete(binding.deploymentId);
    binding.process?.retire();
  }

  async forget(deploymentId: string): Promise<void> {
    const binding = this.#bindings.get(deploymentId);
    if (binding !== undefined) binding.forgotten = true;
    this.#bindings.delete(deploymentId);
    const processes = [...(this.#processesOf.get(deploymentId) ?? [])];
    for (const process of processes) process.kill('forgotten', 'the deployment was ended');
    await Promise.all(processes.map((process) => process.ended));
  }

  stats(): RunnerStats {
    return {
      level: this.#confinement.level,
      addons: this.#addons,
      ownUsers: this.#confinement.distinctUsers,
      ...(this.#confinement.notKernel === undefined ? {} : { notKernel: this.#confinement.notKernel }),
      warm: [...this.#bindings.values()].filter((binding) => binding.process !== undefined).length,
      prewarmed: this.#pool.readyCount,
      calls: this.#calls,
      kills: this.#kills,
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#stopWatch();
    await this.#pool.close();
    this.#bindings.clear();
    this.#folders.remove();
    process.off('SIGUSR1', ignoreSignal);
  }

  #noProcess(ownerId: string): CallOutcome {
    const why = this.#pool.whyNone(ownerId);
    return ended('cancelled', serviceError(`no process became free for the call: ${why}`, 'no_free_process'));
  }

  #endLeastRecentlyUsed(): boolean {
    let oldest: Binding | undefined;
    for (const binding of this.#bindings.values()) {
      if (binding.process === undefined || !binding.process.idle) continue;
      if (oldest?.process === undefined || binding.process.lastUsedAtMs < oldest.process.lastUsedAtMs)
        oldest = binding;
    }
    if (oldest === undefined) return false;
    this.#unbind(oldest);
    return true;
  }

  #poll(): void {
    this.#polls += 1;
    const housekeeping = this.#polls % housekeepingPolls === 0;
    let privateBytes = 0;
    for (const process of this.#pool.processes) {
      if (process.pid === undefined || (process.idle && !housekeeping)) continue;
      const memory = processMemory(process.pid);
      privateBytes += (memory?.privateBytes ?? 0) + (this.#memoryFolderBytes.get(process) ?? 0);
      process.watch(memory?.residentBytes);
      // Every one that has seen user code: also one that loads, describes, or only finishes what it has.
      if (housekeeping && process.hasCode) void this.#watchScratch(process);
    }
    if (!housekeeping) return;
    if (privateBytes > this.#limits.memoryBudgetMb * 1024 * 1024) this.#endLeastRecentlyUsed();
    const nowMs = this.#timer.nowMs();
    for (const binding of this.#bindings.values()) {
      const { process } = binding;
      if (process === undefined) continue;
      if (process.idle && nowMs - process.lastUsedAtMs > this.#limits.idleMs) this.#unbind(binding);
    }
  }

  async #watchScratch(process: SandboxProcess): Promise<void> {
    // There the process itself counts its files, and they are memory of its own.
    if (this.#confinement.level === 'seat-belt') return;
    const folder = scratchFolderOf(process);
    if (this.#measuring.has(process)) return;
    this.#measuring.add(process);
    try {
      if (folder === undefined) await this.#watchMemoryFolder(process);
      else if ((await scratchBytes(folder, process.pid)) > this.#limits.scratchBytesMax) {
        process.kill(
          'limit_exceeded',
          `files under /tmp are larger than ${this.#limits.scratchBytesMax} bytes together, or too many, or hidden`,
        );
      }
    } catch (error) {
      this.#logger.warn({ err: error }, 'runner.scratch_not_measured');
    } finally {
      this.#measuring.delete(process);
    }
  }

  async #watchMemoryFolder(process: SandboxProcess): Promise<void> {
    const use = process.pid === undefined ? undefined : await memoryFolderUse(process.pid);
    this.#memoryFolderBytes.set(process, use?.bytes ?? 0);
    if (use !== undefined && use.files > scratchFilesMax)
      process.kill('limit_exceeded', `there are more than ${scratchFilesMax} files under /tmp`);
  }

  readonly #measuring = new Set<SandboxProcess>();
  /** What was found at the last look: it counts as memory of the process. */
  readonly #memoryFolderBytes = new WeakMap<SandboxProcess, number>();
}

const aborted = Symbol('aborted');

/**
 * How a call ends whose code does not load; undefined when it can go on, or the process has ended and another one is
 * to be tried. An abort ends only the wait: others may wait for the same load.
 */
async function failureOfLoad(
  loading: Promise<CallAnswer>,
  signal: AbortSignal | undefined,
): Promise<CallOutcome | undefined> {
  const loaded = await unlessAborted(loading, signal);
  if (loaded === aborted) return ended('cancelled', serviceError('the call was cancelled', 'cancelled'));
  if (loaded === notStarted || loaded.status === 'finished') return undefined;
  return copyOutcome(loaded);
}

/** Waits, but no longer than the caller does. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T | typeof aborted> {
  if (signal === undefined) return promise;
  const { promise: either, resolve, reject } = Promise.withResolvers<T | typeof aborted>();
  const abort = (): void => resolve(aborted);
  signal.addEventListener('abort', abort, { once: true });
  const settled = (): void => signal.removeEventListener('abort', abort);
  promise.then(resolve, reject).finally(settled);
  return either;
}
