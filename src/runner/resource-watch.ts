import { availableParallelism } from 'node:os';
import type { Logger } from '#lib/logger.ts';
import { bytesText } from '#lib/units.ts';
import { type CpuLook, CpuShares } from './cpu-shares.ts';
import { CpuTurns, turnMs } from './cpu-turns.ts';
import type { Homes } from './homes.ts';
import type { ProcessCpu } from './process-cpu.ts';
import { processMemory } from './process-memory.ts';
import type { ProcessPool } from './process-pool.ts';
import { scratchFolderOf } from './process-starter.ts';
import { type RunnerLimits, scratchFilesMax } from './runner-limits.ts';
import type { RunnerTimer } from './runner-timer.ts';
import type { SandboxProcess } from './sandbox-process.ts';
import { memoryFolderUse, scratchBytes } from './scratch-size.ts';

/** Idle processes, sizes of folders and the memory budget are checked on every n-th look. */
const housekeepingLooks = 10;

interface WatchOptions {
  limits: RunnerLimits;
  pool: ProcessPool;
  homes: Homes;
  /** True when files of user code are in the memory of its process. */
  inMemory: boolean;
  timer: RunnerTimer;
  logger: Logger;
}

/** Checks the memory, cores and `/tmp` that processes of user code use, and ends or slows those that use too much. */
export class ResourceWatch {
  readonly #options: WatchOptions;
  readonly #cpuShares = new CpuShares<SandboxProcess>(availableParallelism());
  readonly #cpuTurns = new CpuTurns<ProcessCpu>(availableParallelism());
  #cpuLookAtMs: number;
  readonly #measuring = new Set<SandboxProcess>();
  /** Sizes at the last look. They count as memory of the process. */
  readonly #memoryFolderBytes = new WeakMap<SandboxProcess, number>();
  #looks = 0;
  readonly #stopLooking: () => void;
  #stopTurns: (() => void) | undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#cpuLookAtMs = options.timer.nowMs();
    this.#stopLooking = options.timer.every(options.limits.memoryPollMs, () => this.#look());
  }

  stop(): void {
    this.#stopLooking();
    this.#stopTurns?.();
  }

  /** Notes that an owner got a process, in which no code is yet. */
  given(process: SandboxProcess, ownerId: string): void {
    void process.ended.then(() => this.#cpuTurns.delete(process.cpu));
    const { usedMs: cpuMs } = process.cpu;
    if (cpuMs !== undefined && this.#cpuShares.begin({ process, ownerId, cpuMs }))
      this.#beGreedy(process, ownerId);
  }

  #look(): void {
    this.#looks += 1;
    const housekeeping = this.#looks % housekeepingLooks === 0;
    for (const process of this.#options.pool.processes) {
      if (process.pid === undefined || (process.idle && !housekeeping)) continue;
      const memory = processMemory(process.pid);
      const privateBytes = (memory?.privateBytes ?? 0) + (this.#memoryFolderBytes.get(process) ?? 0);
      this.#options.pool.sawMemory(process, privateBytes);
      process.watch(memory?.residentBytes, { isPaused: this.#cpuTurns.isPaused(process.cpu) });
      if (memory !== undefined) this.#options.homes.sawMemory(process, memory.residentBytes);
      // Every process that has had user code is measured, also while it loads, describes, or only finishes its calls.
      if (housekeeping && process.hasCode) void this.#watchScratch(process);
    }
    if (!housekeeping) return;
    this.#shareCpu();
    this.#options.pool.freeMemory();
    this.#options.homes.keepHouse();
  }

  #shareCpu(): void {
    const looks: CpuLook<SandboxProcess>[] = [];
    for (const process of this.#options.pool.processes) {
      const ownerId = this.#options.pool.ownerOf(process);
      const { usedMs: cpuMs } = process.cpu;
      if (ownerId === undefined || cpuMs === undefined) continue;
      // One that is paused was busy when its turn ended, be it with what ended calls left behind.
      const wantsCpu = this.#cpuTurns.isPaused(process.cpu) || (!process.idle && process.cpu.wantsCpu());
      looks.push({ process, ownerId, cpuMs, wantsCpu });
    }
    const nowMs = this.#options.timer.nowMs();
    for (const use of this.#cpuShares.look(looks, nowMs - this.#cpuLookAtMs)) {
      const { process, cores, isGreedy, isChanged, ownerId } = use;
      process.cpu.cores = cores;
      if (!isChanged) continue;
      // Only root may raise the priority of a process again.
      if (!(isGreedy ? this.#beGreedy(process, ownerId) : this.#beUsual(process)))
        this.#options.homes.replace(process);
    }
    this.#cpuLookAtMs = nowMs;
  }

  #beGreedy(process: SandboxProcess, ownerId: string): boolean {
    this.#cpuTurns.add(process.cpu, ownerId);
    if (this.#cpuTurns.isNeeded) this.#takeTurns();
    return process.cpu.beGreedy(true);
  }

  /** False where the system does not allow to raise a priority again. */
  #beUsual(process: SandboxProcess): boolean {
    this.#cpuTurns.delete(process.cpu);
    return process.cpu.beGreedy(false);
  }

  #takeTurns(): void {
    this.#stopTurns ??= this.#options.timer.every(turnMs, () => {
      this.#cpuTurns.next();
      if (this.#cpuTurns.isNeeded) return;
      this.#stopTurns?.();
      this.#stopTurns = undefined;
    });
  }

  async #watchScratch(process: SandboxProcess): Promise<void> {
    // The process itself counts its files in this case, and they are part of its memory.
    if (this.#options.inMemory) return;
    const folder = scratchFolderOf(process);
    if (this.#measuring.has(process)) return;
    this.#measuring.add(process);
    try {
      if (folder === undefined) await this.#watchMemoryFolder(process);
      else if ((await scratchBytes(folder, process.pid)) > this.#options.limits.scratchBytesMax) {
        process.kill(
          'limit_exceeded',
          `files under /tmp are larger than ${bytesText(this.#options.limits.scratchBytesMax)} together, or too many, or hidden`,
        );
      }
    } catch (error) {
      this.#options.logger.warn({ err: error }, 'runner.scratch-measure-failed');
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
}
