import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
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
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;

  /** `folder`: the cacache folder itself. */
  constructor(options: { folder: string; bytesMax?: number; logger: Logger }) {
    this.#folder = options.folder;
    this.#bytesMax = options.bytesMax ?? bytesMaxDefault;
    this.#logger = options.logger;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#working ??= this.keep()
        .catch((error: unknown) =>
          this.#logger.warn({ error: toError(error).message }, 'npm-cache.prune-failed'),
        )
        .finally(() => {
          this.#working = undefined;
        });
    }, intervalMs);
  }

  /** Exported for tests, which do not wait for the interval. */
  async keep(): Promise<void> {
    const files = await filesByUse(join(this.#folder, 'content-v2'));
    if (files.reduce((sum, { bytes }) => sum + bytes, 0) <= this.#bytesMax) return;
    await rm(join(this.#folder, 'index-v5'), { recursive: true, force: true, maxRetries: 3 });
    const bytes = await removeBeyond(files, this.#bytesMax);
    this.#logger.info({ bytes }, 'npm-cache.pruned');
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#working;
  }
}
