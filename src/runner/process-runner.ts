import { join } from 'node:path';
import type { AddressPolicy } from '#egress/address-policy.ts';
import type { EgressDoor } from '#egress/egress-door.ts';
import { ActiveOwners } from '#lib/active-owners.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { ShareRecords } from '#metering/share-records.ts';
import type { CallOutcome, UserCodeError } from './call-outcome.ts';
import type { MovedBytes } from './calls-in-flight.ts';
import type { Home } from './home.ts';
import { Homes } from './homes.ts';
import { Launcher } from './launcher.ts';
import { LoadablePackages, type ReadyCode } from './loadable-packages.ts';
import { type CallAnswer, type EndReason, notStarted, serviceError } from './process-end.ts';
import { type GroupOptions, ProcessGroups } from './process-groups.ts';
import { type PoolOptions, ProcessPool } from './process-pool.ts';
import type { OwnerProcessLimits } from './process-shares.ts';
import { ResourceWatch } from './resource-watch.ts';
import type {
  CallOptions,
  CallRequest,
  DescribeOutcome,
  DescribeRequest,
  PackageSource,
  Runner,
  RunnerProcesses,
  RunnerStats,
} from './runner.ts';
import { reachableBase, SandboxFolders } from './runner-folders.ts';
import { defaultRunnerLimits, type RunnerLimits } from './runner-limits.ts';
import { asDescription, copyOutcome, ended, isOwnDoing, wasTakenDown } from './runner-outcomes.ts';
import { type RunnerTimer, systemTimer } from './runner-timer.ts';
import type { Confinement, KernelPrograms } from './sandbox-grant.ts';
import type { SandboxProcess } from './sandbox-process.ts';
import { buildSandboxProgram } from './sandbox-program.ts';
import { findConfinement, mayUseDistinctUsers } from './self-test.ts';
import { SingleUses } from './single-uses.ts';
import { counted, TransferPace } from './transfer-pace.ts';

export interface ProcessRunnerOptions {
  /** auto: the best isolation that passes its self-test; require: only the kernel level; seat-belt: no better one; off: development only. */
  level: 'auto' | 'require' | 'seat-belt' | 'off';
  /** Where user code may connect. */
  policy: AddressPolicy;
  /** Accepts connections of user code to the service itself. Absent: they are refused. */
  door?: EgressDoor;
  /** PEM text of certificate authorities that are trusted in addition to the bundled ones. */
  extraCa?: string;
  /** Source of the packages that bundles import from files. Absent: such bundles do not load. */
  packages?: PackageSource;
  /** Sets where code may load the native addons of its packages, which no permission model confines. auto: at the kernel level. Absent: nowhere. */
  addons?: 'auto' | 'refuse' | 'allow';
  /** Data folder for the program, the list of processes and the scratch folders. */
  folder: string;
  /** Where control groups are made, if the service may. Absent: nowhere. */
  groups?: GroupOptions;
  limits?: Partial<RunnerLimits>;
  /** The limits that an operator has set for an owner. Absent: none for any owner. */
  limitsOf?: (ownerId: string) => OwnerProcessLimits;
  /** Records what is delayed and refused because of shares. */
  records?: ShareRecords;
  /** Learns whose calls there are, and says whether those of several owners are. Absent: one of its own. */
  activeOwners?: ActiveOwners;
  timer?: RunnerTimer;
  logger: Logger;
  clock: Clock;
  /** Called with an error in the code of a deployment that no call caught and that belongs to no running call. */
  onUnattributedError?: (deploymentId: string, error: UserCodeError) => void;
}

/** Starts the runner. Throws when the requested isolation does not work on this machine. */
export async function createProcessRunner(options: ProcessRunnerOptions): Promise<Runner> {
  const limits = { ...defaultRunnerLimits, ...options.limits };
  const distinctUsers = options.level !== 'off' && mayUseDistinctUsers();
  const folders = new SandboxFolders(reachableBase(options.folder, distinctUsers), (folder, error) =>
    options.logger.warn({ err: error, folder }, 'runner.folder-removal-failed'),
  );
  // Any local process of the same user can send SIGUSR1. Without a listener Node opens its debugger.
  process.on('SIGUSR1', ignoreSignal);
  let launcher: Launcher | undefined;
  // This comes first: a process that was started earlier would be in the control group that is divided here.
  const groups = options.groups === undefined ? undefined : ProcessGroups.open(options.groups);
  try {
    const program = await buildSandboxProgram(folders.program);
    launcher = await Launcher.create({
      programs: folders.program,
      streams: folders.run,
      logger: options.logger,
    });
    const extraCa = options.extraCa ?? '';
    const { policy, door, logger, timer = systemTimer } = options;
    const shared = {
      ...(options.limitsOf === undefined ? {} : { limitsOf: options.limitsOf }),
      ...{ launcher, program, folders, extraCa, limits, policy, timer, logger },
      ...(options.records === undefined ? {} : { records: options.records }),
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
        ...{ limits, folders, launcher, timer, logger, clock: options.clock, addons, groups },
        onUnattributedError: options.onUnattributedError ?? (() => undefined),
        transfers: new TransferPace({
          owners: options.activeOwners ?? new ActiveOwners(),
          onDelayed: (ownerId) => options.records?.delayed(ownerId, 'transfers'),
        }),
        packages: new LoadablePackages(options.packages, {
          // Packages are in memory only without addons, because the system loads addons from real files only.
          inMemory: confinement.level === 'seat-belt' && !addons,
          whole: confinement.level === 'kernel',
        }),
      },
      (hooks) =>
        new ProcessPool({
          ...{ ...shared, addons, confinement, ...hooks },
          ...(groups instanceof ProcessGroups ? { groups } : {}),
        }),
      confinement,
    );
  } catch (error) {
    await launcher?.close();
    if (groups instanceof ProcessGroups) groups.close();
    folders.remove();
    process.off('SIGUSR1', ignoreSignal);
    throw error;
  }
}

function ignoreSignal(): void {}

/** Maximum bytes that a process has not read yet, far more than a healthy process leaves. */
const backlogBytesMax = 64 * 1024 * 1024;
/** Maximum attempts for a call whose processes ended before they began it. */
const placementsMax = 3;
/** Name of a bundle that is only described. */
const describedName = 'described@1';

/** The number of an attempt to place a call, and the state of the call. */
interface Attempt {
  attempt: number;
  placing: Placing;
}

/** A call on its way to a process. */
interface Placing {
  /** Its deployment was ended meanwhile. */
  forgotten: boolean;
}

class ProcessRunner implements Runner {
  readonly kernel?: KernelPrograms;
  readonly #limits: RunnerLimits;
  readonly #folders: SandboxFolders;
  readonly #launcher: Launcher;
  readonly #addons: boolean;
  readonly #confinement: Confinement;
  /** A text says why the service may make no control groups. Undefined: none were asked for. */
  readonly #groups: ProcessGroups | string | undefined;
  readonly #onUnattributedError: (deploymentId: string, error: UserCodeError) => void;
  readonly #packages: LoadablePackages;
  readonly #pool: ProcessPool;
  readonly #homes: Homes;
  /** Calls of each deployment that are placed or in a process. */
  readonly #placings = new Map<string, Set<Placing>>();
  readonly #singleUses: SingleUses;
  readonly #watch: ResourceWatch;
  readonly #transfers: TransferPace;
  #calls = 0;
  #closing: Promise<void> | undefined;

  constructor(
    own: {
      limits: RunnerLimits;
      folders: SandboxFolders;
      launcher: Launcher;
      timer: RunnerTimer;
      clock: Clock;
      logger: Logger;
      addons: boolean;
      groups: ProcessGroups | string | undefined;
      onUnattributedError: (deploymentId: string, error: UserCodeError) => void;
      packages: LoadablePackages;
      transfers: TransferPace;
    },
    makePool: (hooks: Required<Pick<PoolOptions, 'endIdle' | 'onGiven'>>) => ProcessPool,
    confinement: Confinement,
  ) {
    const { limits, timer, logger, packages, onUnattributedError } = own;
    this.#limits = limits;
    this.#folders = own.folders;
    this.#launcher = own.launcher;
    this.#addons = own.addons;
    this.#confinement = confinement;
    this.#groups = own.groups;
    if (confinement.kernel !== undefined) this.kernel = confinement.kernel;
    this.#onUnattributedError = onUnattributedError;
    this.#packages = packages;
    this.#transfers = own.transfers;
    this.#pool = makePool({
      endIdle: (rank) => this.#homes.endIdle(rank),
      onGiven: (process, ownerId) => this.#watch.given(process, ownerId),
    });
    this.#singleUses = new SingleUses(own.clock);
    this.#homes = new Homes({
      ...{ limits, pool: this.#pool, packages, timer, clock: own.clock, logger },
      onUnattributedError,
    });
    this.#watch = new ResourceWatch({
      ...{ limits, pool: this.#pool, homes: this.#homes, timer, logger },
      inMemory: confinement.level === 'seat-belt',
    });
    this.#pool.start();
  }

  async describe(request: DescribeRequest): Promise<DescribeOutcome> {
    this.#calls += 1;
    const ready = await this.#packages.ready(request);
    if ('status' in ready) return asDescription(ready);
    const process = await this.#take(request.ownerId, ready);
    if (process === undefined) return asDescription(this.#homes.noProcess(request.ownerId));
    const { ownerId, signal } = request;
    this.#singleUses.add(process, {
      ownerId,
      trustDomain: ownerId,
      purpose: 'evaluation',
      deploymentIds: [],
    });
    // The code is loaded for no deployment.
    const stop = () => process.forget('');
    signal?.addEventListener('abort', stop, { once: true });
    try {
      if (signal?.aborted) return asDescription(cancelled());
      const loaded = await process.load(describedName, ready.bundle, {
        ...{ deploymentId: '', place: describedName, isStep: false },
      });
      if (loaded === notStarted || loaded.status !== 'finished') return asDescription(loaded);
      const described = asDescription(await process.describe(describedName));
      return { ...described, logs: [...loaded.logs, ...described.logs] };
    } finally {
      signal?.removeEventListener('abort', stop);
      process.kill('retired');
    }
  }

  async #take(ownerId: string, ready: ReadyCode): Promise<SandboxProcess | undefined> {
    const process = this.#closing === undefined ? await this.#pool.take(ownerId, ready.needs) : undefined;
    ready.holdFor(process);
    return process;
  }

  async call(request: CallRequest, options: CallOptions = {}): Promise<CallOutcome> {
    this.#calls += 1;
    const { deploymentId } = request;
    const placing: Placing = { forgotten: false };
    const placings = this.#placings.get(deploymentId) ?? new Set();
    this.#placings.set(deploymentId, placings.add(placing));
    const transfer = this.#transfers.begin(request);
    try {
      if (transfer.turn !== undefined) await unlessAborted(transfer.turn, options.signal);
      return await this.#place(request, counted(options, transfer), { attempt: 1, placing });
    } finally {
      transfer.end(placing.forgotten);
      placings.delete(placing);
      if (placings.size === 0) this.#placings.delete(deploymentId);
    }
  }

  async #place(request: CallRequest, options: CallOptions & MovedBytes, at: Attempt): Promise<CallOutcome> {
    const { signal } = options;
    const refused = this.#refusal(options, at);
    if (refused !== undefined) return refused;
    if (request.alone === true) return this.#callAlone(request, options, at);
    const finding = this.#homes.find(request);
    const home = finding instanceof Promise ? await unlessAborted(finding, signal) : finding;
    if (home === aborted) return cancelled();
    if ('status' in home) return home;
    const { process } = home;
    if (process === undefined || this.#closing !== undefined || at.placing.forgotten || !process.usable)
      return this.#placeAgain(process, request, options, at);
    const { name, resident } = home.place(request);
    const release = process.hasModule(name) ? undefined : process.reserve();
    let answering: Promise<CallAnswer>;
    try {
      if (release !== undefined) {
        const loading = this.#loadInto(process, name, resident.place, request);
        const failed = await failureOfLoad(loading, signal);
        if (failed?.status === 'cancelled') return failed;
        if (failed !== undefined) {
          home.discard(resident, name);
          this.#sawEnd(home, request, failed);
          return this.#againIfTakenDown(failed, request, options, at);
        }
        if (!process.usable || !process.hasModule(name) || at.placing.forgotten) {
          // Loading the code may have ended the process. A repetition in a process of its own shows whether it did, and harms no other call.
          const again = endedByItsCode(process) ? { ...request, alone: true as const } : request;
          return this.#placeAgain(process, again, options, at);
        }
      }
      if (this.#hasTooMany(process, request)) return this.#tooManyCalls();
      answering = process.call(name, request, options);
    } finally {
      release?.();
    }
    const answer = await answering;
    home.unloadUnused();
    if (answer === notStarted) {
      this.#homes.leave(home);
      return this.#placeAgain(process, request, options, at);
    }
    this.#sawEnd(home, request, answer);
    return this.#againIfTakenDown(answer, request, options, at);
  }

  #hasTooMany(process: SandboxProcess, { deploymentId }: CallRequest): boolean {
    return (
      process.callsInFlightOf(deploymentId) >= this.#limits.callsInFlightMax ||
      process.backlogBytes > backlogBytesMax
    );
  }

  #tooManyCalls(): CallOutcome {
    const message = `more than ${this.#limits.callsInFlightMax} calls of this deployment are in flight`;
    return ended('cancelled', serviceError(message, 'too_many_calls'));
  }

  /** The reason why a call is not placed, or not placed again. */
  #refusal({ signal }: CallOptions, { placing }: Attempt): CallOutcome | undefined {
    if (this.#closing !== undefined)
      return ended('cancelled', serviceError('the service is stopping', 'closing'));
    if (signal?.aborted) return cancelled();
    if (placing.forgotten) return ended('cancelled', serviceError('the deployment was ended', 'forgotten'));
    return undefined;
  }

  /** Sets a deployment apart when it ended a process that others share. */
  #sawEnd(home: Home, request: CallRequest, outcome: CallOutcome): void {
    // A call that only waited past its deadline harms no other call.
    if (outcome.status === 'timed_out') return;
    if (home.isShared && home.process?.hasEnded === true && isOwnDoing(outcome))
      this.#homes.setApart(request, reasonOf(outcome));
  }

  /**
   * Repeats a call whose process was ended by other code, in a process of its own if this call may be the cause. Steps are not repeated here:
   * their caller decides.
   */
  #againIfTakenDown(
    outcome: CallOutcome,
    request: CallRequest,
    options: CallOptions & MovedBytes,
    at: Attempt,
  ): CallOutcome | Promise<CallOutcome> {
    if (request.call.kind === 'step' || !wasTakenDown(outcome)) return outcome;
    const isAlone = outcome.shared === true || at.attempt >= placementsMax;
    const again = isAlone ? { ...request, alone: true as const } : request;
    return this.#place(again, options, { ...at, attempt: at.attempt + 1 });
  }

  #placeAgain(
    process: SandboxProcess | undefined,
    request: CallRequest,
    options: CallOptions & MovedBytes,
    at: Attempt,
  ): CallOutcome | Promise<CallOutcome> {
    if (at.attempt < placementsMax) return this.#place(request, options, { ...at, attempt: at.attempt + 1 });
    const refused = this.#refusal(options, at);
    if (refused !== undefined) return refused;
    // Nothing of it ran, and its code is not to blame. It may succeed later, so this is no crash.
    if (process?.endReason === 'overloaded') {
      return ended(
        'cancelled',
        serviceError('the machine is too busy: no process took the call up', 'overloaded'),
      );
    }
    return ended('exited', serviceError('the process ended before it took the call up', 'exited'));
  }

  /** Runs a call in a process without other code, which ends with the call. */
  async #callAlone(
    request: CallRequest,
    options: CallOptions & MovedBytes,
    at: Attempt,
  ): Promise<CallOutcome> {
    const { deploymentId, ownerId } = request;
    const getting = this.#packages.ready(request);
    const ready = await unlessAborted(getting, options.signal);
    if (ready === aborted) {
      void getting.then((late) => 'status' in late || late.holdFor(undefined));
      return cancelled();
    }
    if ('status' in ready) return ready;
    const taking = this.#take(ownerId, ready);
    const process = await unlessAborted(taking, options.signal);
    if (process === aborted) {
      void taking.then((late) => late?.kill('retired'));
      return cancelled();
    }
    if (process === undefined || this.#closing !== undefined || at.placing.forgotten) {
      process?.kill('retired');
      return this.#refusal(options, at) ?? this.#homes.noProcess(ownerId);
    }
    const { trustDomain = ownerId } = request;
    this.#singleUses.add(process, { ownerId, trustDomain, purpose: 'call', deploymentIds: [deploymentId] });
    process.onUnattributedError = (error) => this.#onUnattributedError(deploymentId, error);
    try {
      const name = `${deploymentId}@1`;
      const loading = this.#loadInto(process, name, name, request);
      const failed = await failureOfLoad(loading, options.signal);
      if (failed !== undefined) return this.#afterAlone(process, request, failed);
      const answer = process.usable ? await process.call(name, request, options) : notStarted;
      if (answer !== notStarted) return this.#afterAlone(process, request, answer);
    } finally {
      process.kill('retired');
    }
    return this.#placeAgain(process, request, options, at);
  }

  #afterAlone(process: SandboxProcess, request: CallRequest, outcome: CallOutcome): CallOutcome {
    if (process.hasEnded && isOwnDoing(outcome)) this.#homes.setApart(request, reasonOf(outcome));
    return outcome;
  }

  releaseScratch(deploymentId: string, scratch: string): void {
    for (const home of this.#homes.all) if (home.has(deploymentId)) home.process?.releaseScratch(scratch);
  }

  /** Loads the code of a call into a process, unless it is loaded already. */
  async #loadInto(
    process: SandboxProcess,
    name: string,
    place: string,
    request: CallRequest,
  ): Promise<CallAnswer> {
    const bundle = await this.#packages.open(process, request.bundle);
    if ('status' in bundle) return bundle;
    if (bundle.packagesFolder !== undefined && !process.mayRead(bundle.packagesFolder)) {
      // The packages did not exist when the process was started. The next process has them.
      process.retire();
      const message =
        'the npm packages of the code were installed after this process started; a new process can read them';
      return ended('cancelled', serviceError(message, 'packages_unavailable'));
    }
    return process.load(name, bundle, {
      deploymentId: request.deploymentId,
      place,
      isStep: request.module !== undefined,
      ...(request.variables === undefined ? {} : { variables: request.variables }),
    });
  }

  expectOwners(ownerIds: readonly string[], part: number): void {
    if (this.#closing === undefined) this.#pool.expect(Math.ceil(this.#homes.countWithout(ownerIds) * part));
  }

  async forget(deploymentId: string): Promise<void> {
    this.#transfers.forget(deploymentId);
    for (const placing of this.#placings.get(deploymentId) ?? []) placing.forgotten = true;
    const alone = this.#singleUses.of(deploymentId);
    for (const process of alone) process.kill('forgotten', 'the deployment was ended');
    await Promise.all([this.#homes.forget(deploymentId), ...alone.map((process) => process.ended)]);
  }

  processes(): RunnerProcesses {
    const { processes, setApart } = this.#homes.describe();
    return {
      processes: [...processes, ...this.#singleUses.describe()],
      setApart,
      ...this.#pool.bounds,
      shares: this.#pool.ownerShares(),
    };
  }

  stats(): RunnerStats {
    return {
      level: this.#confinement.level,
      addons: this.#addons,
      ownUsers: this.#confinement.distinctUsers,
      ...this.#homes.counts,
      ...(this.#confinement.notKernel === undefined ? {} : { notKernel: this.#confinement.notKernel }),
      ...(typeof this.#groups === 'string' ? { notDelegated: this.#groups } : {}),
      prewarmed: this.#pool.readyCount,
      calls: this.#calls,
      kills: this.#pool.killCount,
      shares: this.#pool.shareCounts,
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#transfers.close();
    this.#watch.stop();
    await this.#pool.close();
    await this.#launcher.close();
    if (this.#groups instanceof ProcessGroups) this.#groups.close();
    this.#folders.remove();
    process.off('SIGUSR1', ignoreSignal);
  }
}

const aborted = Symbol('aborted');

/** The reason in the words of the service, because a call that ended its process has no error of its own code. */
function reasonOf({ status, error }: CallOutcome): string {
  return error?.message ?? status;
}

function cancelled(): CallOutcome {
  return ended('cancelled', serviceError('the call was cancelled', 'cancelled'));
}

/**
 * Returns the outcome of a call whose code cannot be loaded. Undefined: it is loaded, or its process has ended and another one is to be
 * tried. An abort ends only the wait, because other calls may wait for the same load.
 */
async function failureOfLoad(
  loading: Promise<CallAnswer>,
  signal: AbortSignal | undefined,
): Promise<CallOutcome | undefined> {
  const loaded = await unlessAborted(loading, signal);
  if (loaded === aborted) return cancelled();
  if (loaded === notStarted || loaded.status === 'finished') return undefined;
  return copyOutcome(loaded);
}

/** True if user code ended the process, perhaps while it was loaded, and not the service. */
function endedByItsCode(process: SandboxProcess): boolean {
  if (!process.hasEnded) return false;
  const { endReason } = process;
  return endReason === undefined || isCodesDoing.has(endReason);
}

const isCodesDoing: ReadonlySet<EndReason> = new Set(['out_of_memory', 'limit_exceeded', 'protocol']);

/** Waits until the promise settles or the signal is aborted. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T | typeof aborted> {
  if (signal === undefined) return promise;
  const { promise: either, resolve, reject } = Promise.withResolvers<T | typeof aborted>();
  const abort = (): void => resolve(aborted);
  signal.addEventListener('abort', abort, { once: true });
  const settled = (): void => signal.removeEventListener('abort', abort);
  promise.then(resolve, reject).finally(settled);
  return either;
}
