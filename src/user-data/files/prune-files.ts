import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import type { FileContent, FileContents } from './file-content.ts';
import { expiredFiles } from './file-store.ts';

const intervalMs = 10_000;
/** Files looked up at once. */
const batchFiles = 50;

/** Removes unreadable content: expired, replaced, deleted and abandoned files, a little at a time. A legal hold keeps all of it. */
export class FilePruner {
  readonly #store: Store;
  readonly #contents: FileContents;
  readonly #clock: Clock;
  readonly #task: PeriodicTask;

  constructor(options: { store: Store; contents: FileContents; clock: Clock; logger: Logger }) {
    this.#store = options.store;
    this.#contents = options.contents;
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
    // The store first: its files are removed while a bucket is away, too.
    const places = this.#contents.all.toSorted((a, b) => b.place.localeCompare(a.place));
    for (const content of places) await this.#pruneIn(content);
  }

  async #pruneIn(content: FileContent): Promise<void> {
    for (;;) {
      const nowMs = this.#clock.now();
      const { place } = content;
      const ids = await expiredFiles(this.#store.read, { place, nowMs, limit: batchFiles });
      for (const id of ids) {
        for (let more = true; more && !this.#task.isStopped; )
          ({ more } = await content.removeExpired({ id, nowMs }));
      }
      if (ids.length < batchFiles || this.#task.isStopped) return;
    }
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }
}
