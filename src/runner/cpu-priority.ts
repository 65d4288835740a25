import { readFileSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { childrenOf, threadsOf } from './process-memory.ts';

/** Time between two changes that the kernel allows a process without CAP_SYS_ADMIN, whichever process made the last one. */
const betweenChangesMs = 110;

/**
 * Sets the niceness of a process and of its session. Most kernels of desktops and servers group processes by session and share the cores
 * evenly between groups (`autogroup` in sched(7)); the niceness of a process then counts only within its session.
 */
export function setCpuPriority(pid: number, niceness: number): void {
  ofSessions ??= new SessionPriorities();
  ofSessions.set(pid, niceness);
  setNiceness(pid, niceness);
}

/**
 * The same for a process that may have started others already, as a program that was just started has on a busy machine. Those that it
 * starts from then on inherit the niceness.
 */
export function setTreePriority(pid: number, niceness: number): void {
  setCpuPriority(pid, niceness);
  setNicenessBelow(pid, niceness);
}

function setNicenessBelow(pid: number, niceness: number): void {
  for (const thread of threadsOf(pid)) setNiceness(thread, niceness);
  // Listed after the niceness was set: who is not in the list inherits it.
  for (const child of childrenOf(pid)) setNicenessBelow(child, niceness);
}

let ofSessions: SessionPriorities | undefined;

/** The same in one attempt, which the kernel may refuse. */
export function tryCpuPriority(pid: number, niceness: number): void {
  setNiceness(pid, niceness);
  try {
    writeSession(pid, niceness);
  } catch {
    // The kernel asks to wait, has no such groups, or the process has ended.
  }
}

/** Sets the niceness of one thread, which the threads that it starts inherit. False where the system does not allow it. */
export function setNiceness(thread: number, niceness: number): boolean {
  try {
    setPriority(thread, niceness);
    return true;
  } catch (error) {
    // Any other error means that the thread has ended. The exit of the process follows.
    return (error as { info?: { code?: string } }).info?.code !== 'EACCES';
  }
}

function areSessionsGroups(): boolean {
  try {
    return readFileSync('/proc/sys/kernel/sched_autogroup_enabled', 'utf8').trim() === '1';
  } catch {
    return false;
  }
}

/** Sets the niceness of sessions, one after the other where the kernel asks to wait. */
export class SessionPriorities {
  /** The niceness that sessions are to have, by one of their processes. */
  readonly #waiting = new Map<number, number>();
  readonly #write: (pid: number, niceness: number) => void;
  readonly #areGroups: boolean;
  #timer: NodeJS.Timeout | undefined;

  constructor({ write = writeSession, areGroups = areSessionsGroups() } = {}) {
    this.#write = write;
    this.#areGroups = areGroups;
  }

  set(pid: number, niceness: number): void {
    if (!this.#areGroups) return;
    this.#waiting.set(pid, niceness);
    if (this.#timer === undefined) this.#writeAll();
  }

  #writeAll(): void {
    for (const [pid, niceness] of this.#waiting) {
      try {
        this.#write(pid, niceness);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') {
          this.#timer = setTimeout(() => {
            this.#timer = undefined;
            this.#writeAll();
          }, betweenChangesMs).unref();
          return;
        }
        // The process has ended, or belongs to another user: its own niceness is what is left.
      }
      this.#waiting.delete(pid);
    }
  }
}

function writeSession(pid: number, niceness: number): void {
  writeFileSync(`/proc/${pid}/autogroup`, String(niceness));
}
