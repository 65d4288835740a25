import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import { filesByUse, removeBeyond } from './bound-folder.ts';

/** Disk that npm's cache may take. */
const bytesMaxDefault = 2 * 1024 * 1024 * 1024;
const intervalMs = 3_600_000;

/**
 * Keeps npm's cache near its bound, the least recently used packages first. npm fetches a tarball again that is not in
 * its cache; the index goes first, because an answer of the registry that the index has and the cache has not is an error.
 */
export class NpmCacheKeeper {
  readonly #folder: string;
  readonly #bytesMax: number;
  readonly #logger: Logger;
  readonly #task: PeriodicTask;

  /** `folder`: the cacache folder itself. */
  constructor(options: { folder: string; bytesMax?: number; logger: Logger }) {
    this.#folder = options.folder;
    this.#bytesMax = options.bytesMax ?? bytesMaxDefault;
    this.#logger = options.logger;
    this.#task = new PeriodicTask({
      everyMs: intervalMs,
      work: () => this.keep(),
      logger: options.logger,
      failure: 'npm-cache.prune-failed',
    });
  }

  start(): void {
    this.#task.start();
  }

  /** Exported for tests, which do not wait for the interval. */
  async keep(): Promise<void> {
    const files = await filesByUse(join(this.#folder, 'content-v2'));
    if (files.reduce((sum, { bytes }) => sum + bytes, 0) <= this.#bytesMax) return;
    await rm(join(this.#folder, 'index-v5'), { recursive: true, force: true, maxRetries: 3 });
    const bytes = await removeBeyond(files, this.#bytesMax);
    this.#logger.info({ bytes }, 'npm-cache.pruned');
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }
}
