import type { Logger } from '#lib/logger.ts';

/** Minimum time between two lines for a listener: one that refuses hundreds of deliveries a second would fill the disk of the operator. */
const logEveryMs = 60_000;
/** Listeners that are remembered. */
const listenersMax = 10_000;

/** Logs attempts that failed: one for each listener and minute, with the number of those that were not logged since the last. */
export class AttemptLog {
  readonly #logger: Logger;
  readonly #nowMs: () => number;
  /** The listener whose line is the oldest first. */
  readonly #logged = new Map<string, { atMs: number; unlogged: number }>();

  constructor({ logger, nowMs }: { logger: Logger; nowMs: () => number }) {
    this.#logger = logger;
    this.#nowMs = nowMs;
  }

  failed(attempt: { listener: string } & Record<string, unknown>): void {
    const nowMs = this.#nowMs();
    const last = this.#logged.get(attempt.listener);
    if (last !== undefined && nowMs - last.atMs < logEveryMs) {
      last.unlogged += 1;
      return;
    }
    this.#logged.delete(attempt.listener);
    if (this.#logged.size >= listenersMax) this.#forgetOldest();
    this.#logged.set(attempt.listener, { atMs: nowMs, unlogged: 0 });
    this.#logger.info(
      { ...attempt, ...(last?.unlogged && { unlogged: last.unlogged }) },
      'delivery.attempted',
    );
  }

  #forgetOldest(): void {
    for (const listener of this.#logged.keys()) {
      this.#logged.delete(listener);
      return;
    }
  }
}
