import { setTimeout as delay } from 'node:timers/promises';
import { startTimeOf } from './sandbox-folders.ts';

/** Between two looks whether the last of a namespace is gone. */
const lookAgainMs = 50;

/** The first process of a namespace of processes. With it goes everything that is in the namespace. */
export class NamespaceInit {
  readonly #pid: number;
  readonly #startTime: string | undefined;

  /** `pid` as the service sees it. */
  constructor(pid: number) {
    this.#pid = pid;
    this.#startTime = startTimeOf(pid);
  }

  get isAlive(): boolean {
    return this.#startTime !== undefined && startTimeOf(this.#pid) === this.#startTime;
  }

  /** Sooner than by the end of bubblewrap, which it would follow. */
  kill(): void {
    if (!this.isAlive) return;
    try {
      process.kill(this.#pid, 'SIGKILL');
    } catch {
      // Gone in between.
    }
  }

  /** Bubblewrap is gone a few ms before what it started is. */
  async gone(): Promise<void> {
    for (let waitMs = 1; this.isAlive; waitMs = Math.min(waitMs * 2, lookAgainMs)) {
      this.kill();
      await delay(waitMs);
    }
  }
}
