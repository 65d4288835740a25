import { CallerError } from '#lib/errors.ts';
import { machineMemoryBytes } from '#lib/machine-memory.ts';
import { bytesText } from '#lib/units.ts';
import { processTreeCpuMs, processTreeMemory } from '#runner/process-memory.ts';

const mb = 1024 * 1024;

/** The largest packages that we know (googleapis, aws-sdk) take 1.7 GB to build, with the text of all of their modules. A small machine has less. */
export const builderMemoryBytesMax = Math.min(3072 * mb, Math.max(1024 * mb, machineMemoryBytes() / 3));

/** How often the CPU time and the memory of a process at work are read. */
const pollMs = 250;

export interface BudgetLimits {
  /** CPU time of the processes at work, their children included. */
  cpuMs: number;
  /** Wall time, for a process that waits for the network or hangs, and where CPU time cannot be read. */
  deadlineMs: number;
  /** Resident memory of the processes at work, their children included, at any time. Default: `builderMemoryBytesMax`. */
  memoryBytesMax?: number;
}

interface BuildBudgetOptions {
  /** The subject of the message: `building the component`. */
  what: string;
  limits: BudgetLimits;
  /** Ends the work for other reasons. */
  signal: AbortSignal;
  cpuMsOf?: (pid: number) => number | undefined;
  memoryOf?: (pid: number) => number | undefined;
}

/**
 * The time and memory that one piece of work in builder processes may take. CPU time is what limits it: on a busy machine a small
 * component waits minutes for a processor that others use. Memory has a limit because a few hundred KB of source can make esbuild
 * take all that the machine has. `signal` aborts with `build_timeout` or `component_too_large`, and the limit that was reached.
 */
export class BuildBudget {
  readonly signal: AbortSignal;
  readonly #what: string;
  readonly #limits: BudgetLimits;
  readonly #cpuMsOf: (pid: number) => number | undefined;
  readonly #memoryOf: (pid: number) => number | undefined;
  readonly #over = new AbortController();
  #usedMs = 0;
  #deadline: NodeJS.Timeout | undefined;

  /** The wall time starts now. Call `end` when the work has ended. */
  constructor({
    what,
    limits,
    signal,
    cpuMsOf = processTreeCpuMs,
    memoryOf = processTreeMemory,
  }: BuildBudgetOptions) {
    this.#what = what;
    this.#limits = limits;
    this.#cpuMsOf = cpuMsOf;
    this.#memoryOf = memoryOf;
    this.signal = AbortSignal.any([this.#over.signal, signal]);
    this.restart();
  }

  /** Restarts the wall time. */
  restart(): void {
    this.pause();
    const { deadlineMs } = this.#limits;
    this.#deadline = setTimeout(() => {
      this.#abort('build_timeout', seconds(deadlineMs));
    }, deadlineMs);
  }

  /** The work waits for other work, which has bounds of its own. */
  pause(): void {
    clearTimeout(this.#deadline);
  }

  /** Counts the CPU time and the memory of this process until the returned function is called. */
  watch(pid: number): () => void {
    let lastMs = this.#cpuMsOf(pid);
    const count = (): void => {
      const nowMs = this.#cpuMsOf(pid);
      if (nowMs === undefined) return;
      // It can only seem to go back: a child that has just ended is in no figure until its parent has noticed.
      this.#usedMs += Math.max(0, nowMs - (lastMs ?? nowMs));
      lastMs = Math.max(nowMs, lastMs ?? 0);
      const { cpuMs } = this.#limits;
      if (this.#usedMs > cpuMs) this.#abort('build_timeout', `${seconds(cpuMs)} of CPU time`);
    };
    const weigh = (): void => {
      const { memoryBytesMax = builderMemoryBytesMax } = this.#limits;
      if ((this.#memoryOf(pid) ?? 0) > memoryBytesMax)
        this.#abort('component_too_large', `${bytesText(memoryBytesMax)} of memory`);
    };
    const timer = setInterval(() => {
      count();
      weigh();
    }, pollMs);
    return () => {
      clearInterval(timer);
      count();
    };
  }

  end(): void {
    clearTimeout(this.#deadline);
  }

  #abort(code: 'build_timeout' | 'component_too_large', limit: string): void {
    this.end();
    this.#over.abort(new CallerError(code, `${this.#what} took more than ${limit}`));
  }
}

function seconds(ms: number): string {
  return `${ms / 1000} seconds`;
}
