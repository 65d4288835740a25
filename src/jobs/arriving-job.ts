import { UnavailableError } from '#lib/errors.ts';
import type { PlacedWrite } from '#storage/group-commit.ts';

/** How long a run has to end before its job is written: most runs are over by then. */
const heldMs = 2;

/**
 * A job that runs while it is still on its way to the disk. Nobody has been told that it was accepted, so running it
 * early promises nothing; and when it is over before its row was written, what it caused is written instead of the
 * row, in one commit rather than two.
 */
export class ArrivingJob {
  readonly #place: () => PlacedWrite<void>;
  readonly #onDisk = Promise.withResolvers<void>();
  readonly #timer: NodeJS.Timeout;
  #placed: PlacedWrite<void> | undefined;
  #withdrawn = false;
  #refused = false;

  /** `place` hands the row to the store, once and not at once. */
  constructor(place: () => PlacedWrite<void>) {
    this.#place = place;
    this.#timer = setTimeout(() => this.write(), heldMs);
    // Whoever asks hears of a failure; that nobody asks must not end the process.
    this.#onDisk.promise.catch(() => {
      this.#refused = true;
    });
  }

  /** Resolves when the job, or what it caused, is on disk; rejects when neither will be. */
  get onDisk(): Promise<void> {
    return this.#onDisk.promise;
  }

  /** The store did not take it: its caller was told so, and nothing it causes may be kept. */
  get refused(): boolean {
    return this.#refused;
  }

  /** True: the row will not be written, and the caller stores what the job caused and says so with `settledBy`. */
  withdraw(): boolean {
    clearTimeout(this.#timer);
    this.#withdrawn = this.#placed === undefined || this.#placed.withdraw();
    if (this.#withdrawn) this.#placed = undefined;
    return this.#withdrawn;
  }

  /** What it is for is gone: its caller is told `error`, unless the row is on its way. True: it will not be written. */
  refuse(error: Error): boolean {
    const isRefused = this.withdraw();
    if (isRefused) this.#onDisk.reject(error);
    return isRefused;
  }

  /** A store that was away has refused the job too. An outcome refused for another reason: the job runs again. */
  settledBy(settled: Promise<unknown>): void {
    settled.then(
      () => this.#onDisk.resolve(),
      (error: unknown) => {
        if (error instanceof UnavailableError) this.#onDisk.reject(error);
        else {
          this.#withdrawn = false;
          void this.write();
        }
      },
    );
  }

  /** Has the row written now, unless it was withdrawn: the job will not end soon. Answers `onDisk`. */
  write(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#placed === undefined && !this.#withdrawn) {
      this.#placed = this.#place();
      this.#placed.done.then(this.#onDisk.resolve, this.#onDisk.reject);
    }
    return this.onDisk;
  }
}
