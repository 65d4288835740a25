import { UnavailableError } from '#lib/errors.ts';
import type { PlacedWrite } from '#storage/group-commit.ts';

/** How long a run has to end before its job is written: most runs are over by then. */
const heldMs = 2;

/**
 * A job that runs before its row is on disk. Its caller has no acknowledgement yet, so an early start promises nothing. A job
 * that ends before its row was written has its outcome written in place of the row: one commit instead of two.
 */
export class UnpersistedJob {
  readonly #place: () => PlacedWrite<void>;
  readonly #onDisk = Promise.withResolvers<void>();
  readonly #timer: NodeJS.Timeout;
  #placed: PlacedWrite<void> | undefined;
  #isCancelled = false;
  #refused = false;

  /** `place` hands the row to the store. It is called once at most, and not by the constructor. */
  constructor(place: () => PlacedWrite<void>) {
    this.#place = place;
    this.#timer = setTimeout(() => this.write(), heldMs);
    // A rejection without a reader of `onDisk` would end the process.
    this.#onDisk.promise.catch(() => {
      this.#refused = true;
    });
  }

  /** Resolves when the job, or what it caused, is on disk; rejects when neither will be. */
  get onDisk(): Promise<void> {
    return this.#onDisk.promise;
  }

  /** The store did not accept the job. Its caller got an error, and nothing that the job causes may be stored. */
  get refused(): boolean {
    return this.#refused;
  }

  /** True: the row will not be written. The caller of this method stores the outcome instead, and passes the promise of it to `settledBy`. */
  cancelWrite(): boolean {
    clearTimeout(this.#timer);
    this.#isCancelled = this.#placed === undefined || this.#placed.cancelWrite();
    if (this.#isCancelled) this.#placed = undefined;
    return this.#isCancelled;
  }

  /** Rejects the job with `error` because its source is gone, unless the row is being written. True: the row will not be written. */
  refuse(error: Error): boolean {
    const isRefused = this.cancelWrite();
    if (isRefused) this.#onDisk.reject(error);
    return isRefused;
  }

  /** A store that is unavailable has refused the job too. After any other refusal of the outcome the job is written, and runs again. */
  settledBy(settled: Promise<unknown>): void {
    settled.then(
      () => this.#onDisk.resolve(),
      (error: unknown) => {
        if (error instanceof UnavailableError) this.#onDisk.reject(error);
        else {
          this.#isCancelled = false;
          void this.write();
        }
      },
    );
  }

  /** Has the row written now, because the job will not end soon, unless its write was cancelled. Returns `onDisk`. */
  write(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#placed === undefined && !this.#isCancelled) {
      this.#placed = this.#place();
      this.#placed.done.then(this.#onDisk.resolve, this.#onDisk.reject);
    }
    return this.onDisk;
  }
}
