import type { CallsInFlight } from './calls-in-flight.ts';
import type { EndReason } from './process-end.ts';
import { processCpuMs } from './process-memory.ts';
import { type RunnerLimits, residentOverheadMb } from './runner-limits.ts';

/** Why a process has to end. */
export interface Verdict {
  reason: EndReason;
  detail: string;
}

/** Looks at one process every `memoryPollMs`: whether it takes more memory than it may, and whether its own code keeps it busy. */
export class ProcessWatchdog {
  readonly #pid: () => number | undefined;
  readonly #limits: RunnerLimits;
  readonly #calls: CallsInFlight;
  readonly #ping: () => void;
  /** Looks since it was asked for a sign of life that has not come yet. */
  #pingTicks: number | undefined;
  /** A call that was cancelled may still run in it, beside others. */
  #hasCancelled = false;

  constructor(options: {
    pid: () => number | undefined;
    limits: RunnerLimits;
    calls: CallsInFlight;
    /** Asks the process for a sign of life, which `ponged` tells of. */
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

  /** What was cancelled may keep the process busy: then the others must not pass their deadlines because of it. */
  cancelledOneOfSeveral(): void {
    this.#hasCancelled = true;
  }

  /** It has given no sign of life for so long that something in it keeps it busy. */
  get isStuck(): boolean {
    return (this.#pingTicks ?? 0) * this.#limits.memoryPollMs > this.#limits.unresponsiveMs;
  }

  /** Why it has to end; undefined: it goes on. `residentBytes` is undefined where nobody knows. */
  look(residentBytes: number | undefined): Verdict | undefined {
    const residentMax = (this.#limits.memoryMb + residentOverheadMb) * 1024 * 1024;
    if (residentBytes !== undefined && residentBytes > residentMax) return outOfMemory(this.#limits);
    if (this.#calls.count > 1 || this.#hasCancelled) this.#askForSign();
    if (this.#hasCancelled && this.isStuck)
      return { reason: 'cancelled', detail: 'a call that was cancelled keeps the process busy' };
    return this.#lookAtOldest();
  }

  /**
   * Ticks, not time: after a stall of the service itself the answer may be waiting to be read. Only the oldest call: behind another one,
   * waiting is no sign of anything, and that one's deadline ends it.
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
    // Taking a call up costs a few ms. On a busy machine even code that spins gets no more than a part of a core.
    return usedMs > unresponsiveMs / 5
      ? { reason: 'unresponsive', detail: 'its own code keeps the process busy' }
      : { reason: 'overloaded', detail: 'the process got no processor time to take a call up' };
  }

  /** Where several calls share the process, one of them may keep it from all others. */
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
