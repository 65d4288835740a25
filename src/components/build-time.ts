import { CallerError } from '#lib/errors.ts';
import { processTreeCpuMs } from '#runner/process-memory.ts';

/** How often the CPU time of a process at work is read. */
const pollMs = 250;

export interface TimeLimits {
  /** CPU time of the processes at work, their children included. */
  cpuMs: number;
  /** Wall time, for a process that waits for the network or hangs, and where CPU time cannot be read. */
  deadlineMs: number;
}

interface BuildTimeOptions {
  /** The subject of the message: `building the component`. */
  what: string;
  limits: TimeLimits;
  /** Ends the work for other reasons. */
  signal: AbortSignal;
  cpuMsOf?: (pid: number) => number | undefined;
}

/**
 * The time that one piece of work in builder processes may take. CPU time is what limits it: on a busy machine a small
 * component waits minutes for a processor that others use. `signal` aborts with `build_timeout` and the limit that was
 * reached.
 */
export class BuildTime {
  readonly signal: AbortSignal;
  readonly #what: string;
  readonly #limits: TimeLimits;
  readonly #cpuMsOf: (pid: number) => number | undefined;
  readonly #over = new AbortController();
  #usedMs = 0;
  #deadline: NodeJS.Timeout | undefined;

  /** The wall time starts now. Call `end` when the work has ended. */
  constructor({ what, limits, signal, cpuMsOf = processTreeCpuMs }: BuildTimeOptions) {
    this.#what = what;
    this.#limits = limits;
    this.#cpuMsOf = cpuMsOf;
    this.signal = AbortSignal.any([this.#over.signal, signal]);
    this.restart();
  }

  /** Restarts the wall time. */
  restart(): void {
    this.pause();
    const { deadlineMs } = this.#limits;
    this.#deadline = setTimeout(() => {
      this.#abort(`${this.#what} took more than ${seconds(deadlineMs)}`);
    }, deadlineMs);
  }

  /** The work waits for other work, which has bounds of its own. */
  pause(): void {
    clearTimeout(this.#deadline);
  }

  /** Counts the CPU time of this process until the returned function is called. */
  watch(pid: number): () => void {
    let lastMs = this.#cpuMsOf(pid);
    const count = (): void => {
      const nowMs = this.#cpuMsOf(pid);
      if (nowMs === undefined) return;
      // It can only seem to go back: a child that has just ended is in no figure until its parent has noticed.
      this.#usedMs += Math.max(0, nowMs - (lastMs ?? nowMs));
      lastMs = Math.max(nowMs, lastMs ?? 0);
      const { cpuMs } = this.#limits;
      if (this.#usedMs > cpuMs) this.#abort(`${this.#what} took more than ${seconds(cpuMs)} of CPU time`);
    };
    const timer = setInterval(count, pollMs);
    return () => {
      clearInterval(timer);
      count();
    };
  }

  end(): void {
    clearTimeout(this.#deadline);
  }

  #abort(message: string): void {
    this.end();
    this.#over.abort(new CallerError('build_timeout', message));
  }
}

function seconds(ms: number): string {
  return `${ms / 1000} seconds`;
}
