import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import { expiredFiles, removeExpired } from './file-store.ts';

const intervalMs = 10_000;
/** Files looked up at once. */
const batchFiles = 50;
/** Chunks (of 1 MB) deleted in one transaction: a purge must never hold the store's one writer for long. */
const batchChunks = 16;

/** Removes unreadable content: expired, replaced, deleted and abandoned files, a little at a time. */
export class FilePruner {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #task: PeriodicTask;

  constructor(options: { store: Store; clock: Clock; logger: Logger }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#task = new PeriodicTask({
      everyMs: intervalMs,
      work: () => this.prune(),
      logger: options.logger,
      failure: 'file.prune-failed',
    });
  }

  start(): void {
    this.#task.start();
  }

  /** Removes all that is due; exported for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    for (;;) {
      const nowMs = this.#clock.now();
      const ids = await expiredFiles(this.#store.read, nowMs, batchFiles);
      for (const id of ids) {
        for (let more = true; more && !this.#task.isStopped; ) {
          ({ more } = await this.#store.transaction((tx) =>
            removeExpired(this.#store, tx, { id, nowMs, chunks: batchChunks }),
          ));
          await this.#store.reclaimSpace();
        }
      }
      if (ids.length < batchFiles || this.#task.isStopped) return;
    }
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }
}
