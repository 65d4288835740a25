import type { CallsInFlight } from './calls-in-flight.ts';
import type { EndReason } from './process-end.ts';
import { processCpuMs } from './process-memory.ts';
import { type RunnerLimits, residentOverheadMb } from './runner-limits.ts';

/** The reason to end a process. */
export interface Verdict {
  reason: EndReason;
  detail: string;
}

/** Checks one process every `memoryPollMs`: its memory, and whether its own code keeps it busy. */
export class ProcessWatchdog {
  readonly #pid: () => number | undefined;
  readonly #limits: RunnerLimits;
  readonly #calls: CallsInFlight;
  readonly #ping: () => void;
  /** Number of checks since the process was asked for a sign of life, until it comes. */
  #pingTicks: number | undefined;
  /** True when a cancelled call may still run in it, beside others. */
  #hasCancelled = false;

  constructor(options: {
    pid: () => number | undefined;
    limits: RunnerLimits;
    calls: CallsInFlight;
    /** Asks the process for a sign of life. The caller reports it with `ponged`. */
    ping: () => void;
  }) {
    this.#pid = options.pid;
    this.#limits = options.limits;
    this.#calls = options.calls;
    this.#ping = options.ping;
  }

  ponged(): void {
    this.#pingTicks = undefined;
  }

  /** Notes that a cancelled call may keep the process busy, so that the others do not pass their deadlines because of it. */
  cancelledOneOfSeveral(): void {
    this.#hasCancelled = true;
  }

  /** True when the process has given no sign of life for so long that something in it keeps it busy. */
  get isStuck(): boolean {
    return (this.#pingTicks ?? 0) * this.#limits.memoryPollMs > this.#limits.unresponsiveMs;
  }

  /**
   * Returns why the process has to end; undefined when it may continue. `residentBytes` is undefined where it is unknown. A process that
   * `isPaused` cannot give a sign of life, so this look does not count for it.
   */
  look(residentBytes: number | undefined, { isPaused = false } = {}): Verdict | undefined {
    const residentMax = (this.#limits.memoryMb + residentOverheadMb) * 1024 * 1024;
    if (residentBytes !== undefined && residentBytes > residentMax) return outOfMemory(this.#limits);
    if (isPaused) return undefined;
    if (this.#calls.count > 1 || this.#hasCancelled) this.#askForSign();
    if (this.#hasCancelled && this.isStuck)
      return { reason: 'cancelled', detail: 'a call that was cancelled keeps the process busy' };
    return this.#lookAtOldest();
  }

  /**
   * Counts ticks and not time, because after a stall of the service itself the answer may be waiting to be read. Looks only at the oldest
   * call: a call behind another one may wait for a good reason, and the deadline of the other one ends that.
   */
  #lookAtOldest(): Verdict | undefined {
    const { oldest } = this.#calls;
    if (oldest?.unstartedTicks === undefined) return undefined;
    const pid = this.#pid();
    const cpuMs = pid === undefined ? undefined : processCpuMs(pid);
    if (oldest.unstartedTicks === 0) oldest.unstartedCpuMs = cpuMs;
    oldest.unstartedTicks += 1;
    const { unresponsiveMs, memoryPollMs } = this.#limits;
    if (oldest.unstartedTicks * memoryPollMs <= unresponsiveMs) return undefined;
    const usedMs = (cpuMs ?? 0) - (oldest.unstartedCpuMs ?? 0);
    // To begin a call costs a few ms. On a busy machine even code that spins gets only a part of a core.
    return usedMs > unresponsiveMs / 5
      ? { reason: 'unresponsive', detail: 'its own code keeps the process busy' }
      : { reason: 'overloaded', detail: 'the process got no processor time to take a call up' };
  }

  /** Asks for a sign of life, because one of several calls in a process may keep it from all others. */
  #askForSign(): void {
    if (this.#pingTicks !== undefined) this.#pingTicks += 1;
    else {
      this.#pingTicks = 0;
      this.#ping();
    }
  }
}

export function outOfMemory({ memoryMb }: Pick<RunnerLimits, 'memoryMb'>): Verdict {
  return { reason: 'out_of_memory', detail: `the process used more than ${memoryMb} MB of memory` };
}
