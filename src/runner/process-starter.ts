import { AsyncLocalStorage } from 'node:async_hooks';
import type { AddressPolicy } from '#egress/address-policy.ts';
import type { EgressDoor } from '#egress/egress-door.ts';
import type { ConnectionShare } from '#egress/egress-relay.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { niceness } from './cpu-shares.ts';
import type { Launcher } from './launcher.ts';
import type { ProcessGroup, ProcessGroups } from './process-groups.ts';
import type { InitHeader } from './protocol.ts';
import { groupLimits } from './resource-limits.ts';
import type { SandboxFolders } from './runner-folders.ts';
import { memoryFilesBytesMax, type RunnerLimits, scratchFilesMax } from './runner-limits.ts';
import type { RunnerTimer } from './runner-timer.ts';
import type { Confinement } from './sandbox-grant.ts';
import { SandboxProcess } from './sandbox-process.ts';
import { SlotUsers } from './slot-users.ts';
import { type SpawnedSandbox, spawnSandbox } from './spawn-sandbox.ts';

/** What processes are started with. */
export interface ProcessOptions {
  launcher: Launcher;
  program: string;
  folders: SandboxFolders;
  confinement: Confinement;
  extraCa: string;
  policy: AddressPolicy;
  door?: EgressDoor;
  /** True: code may load the native addons of its packages. */
  addons: boolean;
  /** Control groups, one for each process. Absent: the service may make none. */
  groups?: ProcessGroups;
  limits: RunnerLimits;
  timer: RunnerTimer;
  logger: Logger;
}

interface StarterOptions extends ProcessOptions {
  connectionShare: (process: () => SandboxProcess) => ConnectionShare;
  onEnded: (process: SandboxProcess) => void;
  /** Called when nothing of an ended process is left, so that there is room for another one. */
  onRemoved: (process: SandboxProcess) => void;
}

/** What is left of a process that has ended. */
interface Traces {
  scratch: string | undefined;
  group: ProcessGroup | undefined;
}

/** Requirements of one deployment on its process. */
export interface ProcessNeeds {
  /** Absent: the default of the service. */
  memoryMb?: number | undefined;
  /** Folders of packages that it has to read. They may not exist yet. */
  packages?: readonly string[];
}

/** Starts sandboxed processes: each with a user and a folder that no other has, until it has ended and its traces are removed. */
export class ProcessStarter {
  readonly #options: StarterOptions;
  /** All running processes, with the users that they run as. */
  readonly #live = new Map<SandboxProcess, number | undefined>();
  /** Processes that are being launched and are not in `#live` yet. */
  readonly #launching = new Set<Promise<unknown>>();
  readonly #removals = new Set<Promise<void>>();
  readonly #users: SlotUsers;
  /** A process serves many calls, so what it reports is part of none, also where one of them had it started. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  #closed = false;

  constructor(options: StarterOptions) {
    this.#options = options;
    this.#users = new SlotUsers({
      onLeft: (left) => options.logger.warn(left, 'runner.left-processes-killed'),
    });
  }

  get processes(): Iterable<SandboxProcess> {
    return this.#live.keys();
  }

  /** Number of processes, those that are being launched included. */
  get count(): number {
    return this.#live.size + this.#launching.size;
  }

  /** Ends all processes. */
  async close(): Promise<void> {
    this.#closed = true;
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

  /**
   * Starts one process and records it until it has ended and its traces are removed. Returns an Error when the machine has no memory,
   * descriptors or disk space for it, which is no reason to end the service.
   */
  start(
    extra: Pick<InitHeader, 'probe' | 'prewarmAfterMs'>,
    needs: ProcessNeeds = {},
  ): Promise<SandboxProcess | Error> {
    const starting = this.#inOwnContext(() => this.#start(extra, needs)).finally(() =>
      this.#launching.delete(starting),
    );
    this.#launching.add(starting);
    return starting;
  }

  async #start(
    extra: Pick<InitHeader, 'probe' | 'prewarmAfterMs'>,
    needs: ProcessNeeds,
  ): Promise<SandboxProcess | Error> {
    const { folders, confinement, program, logger, extraCa, policy, door, addons, timer, launcher } =
      this.#options;
    const { memoryMb = this.#options.limits.memoryMb, packages } = needs;
    const limits = { ...this.#options.limits, memoryMb };
    let uid: number | undefined;
    let scratch: string | undefined;
    let group: ProcessGroup | undefined;
    let sandbox: SpawnedSandbox | undefined;
    let process: SandboxProcess;
    try {
      uid = confinement.distinctUsers ? this.#freeUser() : undefined;
      // At the kernel level the folder is in memory, and at the seat belt in the memory of the process itself.
      const inMemory = confinement.level === 'seat-belt';
      scratch = confinement.kernel === undefined && !inMemory ? folders.newScratch(uid) : undefined;
      group = this.#newGroup(limits);
      const grant = {
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
      };
      sandbox = await spawnSandbox(launcher, grant, group);
      folders.processStarted(sandbox.launched.pid);
      const init: InitHeader = {
        ...{ limits: limitsInside(limits), ...extra },
        ...(sandbox.scratchInside === undefined ? {} : { scratch: sandbox.scratchInside }),
        ...(inMemory
          ? { memoryFiles: { bytesMax: memoryFilesBytesMax(limits), filesMax: scratchFilesMax } }
          : {}),
        ...(packages === undefined ? {} : { packages: packages.map(sandbox.packagesInside) }),
      };
      const connectionShare = this.#options.connectionShare(() => process);
      const way = { policy, connectionShare, ...(door === undefined ? {} : { door }) };
      process = new SandboxProcess(sandbox, { init, extraCa, ...way, limits, timer, logger });
    } catch (error) {
      await discard(sandbox);
      void this.#removeTraces(sandbox === undefined ? [] : [sandbox.launched.pid], { scratch, group });
      if (uid !== undefined) this.#users.release(uid);
      return toError(error);
    }
    const { pid: started } = sandbox.launched;
    this.#live.set(process, uid);
    if (scratch !== undefined) scratchOf.set(process, scratch);
    void process.ready.then(() => this.#noteInner(process, started));
    void process.ended.then(() => this.#forget(process, [started, process.pid], { scratch, group }));
    if (this.#closed) process.kill('closing', 'the service is stopping');
    return process;
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

  /** The limits of a process hold without a group as well, less exactly. */
  #newGroup(limits: RunnerLimits): ProcessGroup | undefined {
    try {
      return this.#options.groups?.make({ ...groupLimits(limits), niceness: niceness.usual });
    } catch (error) {
      this.#options.logger.warn({ err: error }, 'runner.group-refused');
      return undefined;
    }
  }

  #forget(process: SandboxProcess, pids: readonly (number | undefined)[], traces: Traces): void {
    this.#options.onEnded(process);
    void this.#removeTraces(pids, traces).then(() => {
      const user = this.#live.get(process);
      this.#live.delete(process);
      // Released only here: the next process of this user must not find the folder.
      if (user !== undefined) this.#users.release(user);
      this.#options.onRemoved(process);
    });
  }

  /** Never rejects. What cannot be removed is removed at the stop or the next start of the service. */
  #removeTraces(pids: readonly (number | undefined)[], { scratch, group }: Traces): Promise<void> {
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
      try {
        await group?.remove();
      } catch (error) {
        logger.warn({ err: error }, 'runner.group-removal-failed');
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

/** Ends a started process that has no `SandboxProcess`. Nothing reads its streams, so that they would stay open with what it has written. */
async function discard(sandbox: SpawnedSandbox | undefined): Promise<void> {
  if (sandbox === undefined) return;
  const { kill, ended, streams } = sandbox.launched;
  kill();
  await ended;
  for (const stream of Object.values(streams)) stream.destroy();
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
    dbKeysMax,
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
    dbKeysMax,
    resultBytesMax,
    shapeBytesMax,
    replyBytesMax,
    stepExportBytesMax,
  };
}
