import { setTimeout as delay } from 'node:timers/promises';
import { startTimeOf } from './runner-folders.ts';

/** Maximum time between two checks for the end of a namespace. */
const lookAgainMs = 50;

/** The first process of a PID namespace. When it ends, the kernel ends every other process in the namespace. */
export class NamespaceInit {
  readonly #pid: number;
  readonly #startTime: string | undefined;

  /** `pid` is the ID that the service sees. */
  constructor(pid: number) {
    this.#pid = pid;
    this.#startTime = startTimeOf(pid);
  }

  get isAlive(): boolean {
    return this.#startTime !== undefined && startTimeOf(this.#pid) === this.#startTime;
  }

  /** Kills it directly, which is faster than waiting until it follows the end of bubblewrap. */
  kill(): void {
    if (!this.isAlive) return;
    try {
      process.kill(this.#pid, 'SIGKILL');
    } catch {
      // It ended meanwhile.
    }
  }

  /** Resolves when it has ended. Bubblewrap ends a few ms before the processes that it started. */
  async gone(): Promise<void> {
    for (let waitMs = 1; this.isAlive; waitMs = Math.min(waitMs * 2, lookAgainMs)) {
      this.kill();
      await delay(waitMs);
    }
  }
}
