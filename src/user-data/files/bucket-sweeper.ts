import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import { type BucketKeeper, probeFolder } from './bucket-keeper.ts';
import type { FileBucket } from './file-bucket.ts';
import { existingFiles, takeSweep } from './file-bucket-store.ts';
import { fileOfKey } from './object-content.ts';

const intervalMs = 3_600_000;
/** The bucket is looked through once in this time, by one node. */
const sweepEveryMs = 24 * 3_600_000;
/** Younger objects may have come after the row was looked for; their clock is that of the storage. */
const ageMsMin = 24 * 3_600_000;

/**
 * Removes objects of the bucket that no file has: what a request of a process that is gone may have left, or a store that was set back. Rows
 * come before objects and go after them, so an object that is a day old and has no row is of no use. Probes of checks that were cut short go too.
 */
export class BucketSweeper {
  readonly #store: Store;
  readonly #bucket: FileBucket;
  readonly #keeper: BucketKeeper;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #task: PeriodicTask;

  constructor(options: {
    store: Store;
    bucket: FileBucket;
    keeper: BucketKeeper;
    clock: Clock;
    logger: Logger;
  }) {
    this.#store = options.store;
    this.#bucket = options.bucket;
    this.#keeper = options.keeper;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#task = new PeriodicTask({
      everyMs: intervalMs,
      work: () => this.sweep(),
      logger: options.logger,
      failure: 'files.bucket-sweep-failed',
    });
  }

  start(): void {
    this.#task.start();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Removes what no file has, when it is time; exported for tests, which do not wait for the interval. */
  async sweep(): Promise<void> {
    await this.#keeper.requireOwn();
    const nowMs = this.#clock.now();
    const turn = { bucket: this.#bucket.name, beforeMs: nowMs - sweepEveryMs, nowMs };
    if (!(await this.#store.transaction((tx) => takeSweep(tx, turn)))) return;
    let removed = 0;
    for await (const objects of this.#bucket.list('')) {
      if (this.#task.isStopped) break;
      const old = objects.flatMap(({ key, writtenAtMs }) => {
        const file = fileOfKey(key);
        const isOurs = file !== undefined || key.startsWith(probeFolder);
        return isOurs && writtenAtMs <= nowMs - ageMsMin ? [{ key, file: file ?? '' }] : [];
      });
      const existing = await existingFiles(this.#store.read, [...new Set(old.map(({ file }) => file))]);
      const orphans = old.filter(({ file }) => !existing.has(file)).map(({ key }) => key);
      await this.#bucket.removeAll(orphans);
      removed += orphans.length;
    }
    if (removed > 0) this.#logger.warn({ bucket: this.#bucket.name, removed }, 'files.orphans-removed');
  }
}
