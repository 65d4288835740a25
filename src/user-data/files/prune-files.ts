import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { expiredFiles, removeExpired } from './file-store.ts';

const intervalMs = 10_000;
/** Files looked up at once. */
const batchFiles = 50;
/** Chunks (of 1 MB) deleted in one transaction: a purge must never hold the store's one writer for long. */
const batchChunks = 16;

/** Removes what nobody can read any more: expired, replaced, deleted and abandoned files, a little at a time. */
export class FilePruner {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #stopped = false;

  constructor(options: { store: Store; clock: Clock; logger: Logger }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#working ??= this.prune()
        .catch((error: unknown) => this.#logger.warn({ error: toError(error).message }, 'files.prune-failed'))
        .finally(() => {
          this.#working = undefined;
        });
    }, intervalMs);
  }

  /** Removes all that is due; exported for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    for (;;) {
      const nowMs = this.#clock.now();
      const ids = await expiredFiles(this.#store.read, nowMs, batchFiles);
      for (const id of ids) {
        for (let more = true; more && !this.#stopped; ) {
          ({ more } = await this.#store.transaction((tx) =>
            removeExpired(this.#store, tx, { id, nowMs, chunks: batchChunks }),
          ));
          await this.#store.reclaimSpace();
        }
      }
      if (ids.length < batchFiles || this.#stopped) return;
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#working;
  }
}
