import { setCpuPriority, setNiceness } from './cpu-priority.ts';
import { niceness } from './cpu-shares.ts';
import type { TakesTurns } from './cpu-turns.ts';
import type { ProcessGroup } from './process-groups.ts';
import { processActivity, processCpuMs, threadsOf, wantsCpu } from './process-memory.ts';

/** Processor time within a turn (`cpu-turns.ts`) by which a greedy process is taken for busy: the least that the kernel counts. */
const busyMs = 10;

/** The processor time that one sandboxed process uses, its priority, and its pauses. */
export class ProcessCpu implements TakesTurns {
  /** Cores that it kept busy between the last two looks (0 to their number). */
  cores = 0;
  /** True: it has the lower priority, because its owner keeps more cores busy than its share. */
  isGreedy = false;
  readonly #pid: () => number | undefined;
  readonly #group: ProcessGroup | undefined;
  /** Processor time at the last question whether it keeps a core busy. */
  #askedAtMs: number | undefined;

  /** `pid` returns undefined before the process has started and after it has ended. */
  constructor(pid: () => number | undefined, group: ProcessGroup | undefined) {
    this.#pid = pid;
    this.#group = group;
  }

  /** Processor time since the start of the process; undefined where the system does not report it. */
  get usedMs(): number | undefined {
    const pid = this.#pid();
    return pid === undefined ? undefined : processCpuMs(pid);
  }

  /** Sets the priority of user code, for a process that has just started. */
  beUsual(): void {
    const pid = this.#pid();
    if (pid !== undefined) setProcessNiceness(pid, niceness.usual);
  }

  /** Sets the lower or the usual priority for user code. False where the system does not allow to raise it again. */
  beGreedy(isGreedy: boolean): boolean {
    const pid = this.#pid();
    if (pid === undefined) return true;
    const value = isGreedy ? niceness.greedy : niceness.usual;
    const isSet = this.#group?.beNice(value) === true || setProcessNiceness(pid, value);
    this.isGreedy = isGreedy || !isSet;
    return isSet;
  }

  /** True when it runs or waits for a core now. */
  wantsCpu(): boolean {
    const pid = this.#pid();
    return pid !== undefined && wantsCpu(pid);
  }

  /** The same, or true when it has used a good part of a core since the last question, perhaps in threads that wait for no one. */
  keepsCoreBusy(): boolean {
    const pid = this.#pid();
    const activity = pid === undefined ? undefined : processActivity(pid);
    if (activity === undefined) return false;
    const usedMs = activity.cpuMs - (this.#askedAtMs ?? activity.cpuMs);
    this.#askedAtMs = activity.cpuMs;
    return activity.wantsCpu || usedMs >= busyMs;
  }

  /** Suspends the whole process until `unpause`. It can be ended meanwhile. */
  pause(): void {
    this.#signal('SIGSTOP');
  }

  unpause(): void {
    this.#signal('SIGCONT');
  }

  #signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    const pid = this.#pid();
    if (pid === undefined) return;
    try {
      process.kill(pid, signal);
    } catch {
      // It has ended; its exit follows.
    }
  }
}

function setProcessNiceness(pid: number, value: number): boolean {
  setCpuPriority(pid, value);
  // Threads inherit the niceness of the thread that starts them, and some were started before it was set.
  return threadsOf(pid)
    .map((thread) => setNiceness(thread, value))
    .every(Boolean);
}
