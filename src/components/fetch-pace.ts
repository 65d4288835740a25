import { BytePace } from '#lib/byte-pace.ts';
import type { FetchText } from './own-files.ts';

/**
 * Bytes a second that are fetched for the builds of one owner, of which so many come at once. Forty deploys from a URL whose answer never ended
 * fetched 300 MB a second, and kept the service from all else.
 */
const bytesPerSecond = 4 * 1024 * 1024;
const bytesAtOnce = 1024 * 1024;
/** A file is counted as so large until it is there: five come at once. */
const expectedBytes = 256 * 1024;

/** Fetches files of components, in the pace of each owner. */
export class FetchPace {
  readonly #fetchText: FetchText;
  readonly #bytesMax: number;
  readonly #pace: BytePace;

  /** `bytesMax`: what `fetchText` has read when it fails because a file is too large. */
  constructor({
    fetchText,
    bytesMax,
    nowMs,
  }: { fetchText: FetchText; bytesMax: number; nowMs?: () => number }) {
    this.#fetchText = fetchText;
    this.#bytesMax = bytesMax;
    this.#pace = new BytePace({
      ...{ perSecond: bytesPerSecond, atOnce: bytesAtOnce },
      ...(nowMs === undefined ? {} : { nowMs }),
    });
  }

  /** `fetchText` for the builds of this owner. */
  of(ownerId: string): FetchText {
    return async (url, options) => {
      await this.#pace.turn(ownerId, () => expectedBytes);
      let bytes = 0;
      try {
        options.signal.throwIfAborted();
        const fetched = await this.#fetchText(url, options);
        bytes = fetched.body.length;
        return fetched;
      } catch (error) {
        if ((error as { code?: unknown }).code === 'ERR_BODY_TOO_LARGE') bytes = this.#bytesMax;
        throw error;
      } finally {
        this.#pace.owe(ownerId, bytes - expectedBytes);
      }
    };
  }

  close(): void {
    this.#pace.close();
  }
}
