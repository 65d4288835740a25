import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import type { BucketStatus } from './bucket-keeper.ts';
import { anyContentIn } from './file-bucket-store.ts';

/** Where the settings name no bucket: finds out, once, that files have their content in one all the same. */
export class UnnamedBucket {
  readonly #store: Pick<Store, 'read'>;
  readonly #clock: Clock;
  #status: BucketStatus | undefined;

  constructor(options: { store: Pick<Store, 'read'>; clock: Clock }) {
    this.#store = options.store;
    this.#clock = options.clock;
  }

  /** Looks at the rows of all files. */
  async start(): Promise<void> {
    if (!(await anyContentIn(this.#store.read, 's3'))) return;
    this.#status = {
      state: 'failing',
      sinceMs: this.#clock.now(),
      reason:
        'files have their content in a bucket, and the service was not told which: set MILLRACE_FILES_BUCKET and the keys of S3',
    };
  }

  /** Undefined: the store has all content. */
  status(): BucketStatus | undefined {
    return this.#status;
  }
}
