import { randomBytes } from 'node:crypto';
import type { Clock } from '#lib/clock.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import { newSecret } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import type { FileBucket } from './file-bucket.ts';
import { claimOf } from './file-bucket-store.ts';

const checkEveryMs = 60_000;
/** Writes that come within this time after a failure get the same answer, and wait for no bucket that is away. */
const trustedFailureMs = 5_000;
/** The object that says which instance the bucket (with its prefix) belongs to. */
export const claimKey = 'millrace-instance';
/** What an instance writes there. */
const claimPattern = /^[0-9A-Za-z]{20}$/;
/** Objects that checks write. */
export const probeFolder = 'probe/';

export interface BucketStatus {
  state: 'unchecked' | 'ok' | 'failing';
  /** Since when it is in this state; null: it was not checked. */
  sinceMs: number | null;
  /** Why it fails. */
  reason: string | null;
}

/**
 * Finds out that files can be written to the bucket, read and removed, by doing it. A bucket belongs to one instance, whose claim is an
 * object in it: a second one, such as a copy that was restored to look around, may read, but neither writes nor removes. Otherwise
 * each would remove the objects of the other, which it has no rows for.
 */
export class BucketKeeper {
  readonly #store: Store;
  readonly #bucket: FileBucket;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #monotonicMs: () => number;
  readonly #task: PeriodicTask;
  #claim: string | undefined;
  #status: BucketStatus = { state: 'unchecked', sinceMs: null, reason: null };
  #failure: { error: UnavailableError; atMs: number } | undefined;
  /** Why objects cannot be listed, which writes and reads do not need. */
  #listing: { sinceMs: number; reason: string } | undefined;
  #checking: Promise<void> | undefined;

  constructor(options: {
    store: Store;
    bucket: FileBucket;
    clock: Clock;
    logger: Logger;
    /** A clock that never steps, for tests to turn. */
    monotonicMs?: () => number;
  }) {
    this.#store = options.store;
    this.#bucket = options.bucket;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#monotonicMs = options.monotonicMs ?? (() => performance.now());
    this.#task = new PeriodicTask({
      everyMs: checkEveryMs,
      // What fails is logged when it changes.
      work: () =>
        this.check().then(
          () => this.checkListing(),
          () => {},
        ),
      logger: options.logger,
      failure: 'files.bucket-not-checked',
    });
  }

  start(): void {
    this.#task.start({ atOnce: true });
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  status(): BucketStatus {
    if (this.#status.state === 'ok' && this.#listing !== undefined)
      return { state: 'failing', ...this.#listing };
    return { ...this.#status };
  }

  /** Before anything is written or removed. Throws UnavailableError `files_unavailable`. */
  async requireOwn(): Promise<void> {
    if (this.#status.state === 'ok') return;
    const failure = this.#failure;
    if (failure !== undefined && this.#monotonicMs() - failure.atMs < trustedFailureMs) throw failure.error;
    await this.check();
  }

  /** What a write or removal failed with: those that follow find out first whether it is over. */
  failed(thrown: unknown): void {
    if (thrown instanceof UnavailableError && thrown.code === 'files_unavailable') this.#note(thrown);
  }

  /** Writes, reads and removes an object. Callers at the same time share one check. Throws UnavailableError `files_unavailable`. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  async #check(): Promise<void> {
    const claim = await this.#ownClaim();
    try {
      await this.#requireClaim(claim);
      await this.#probe();
    } catch (error) {
      this.failed(error instanceof UnavailableError ? error : this.#broken(toError(error).message));
      throw error;
    }
    this.#failure = undefined;
    if (this.#status.state === 'ok') return;
    this.#logger.info({ bucket: this.#bucket.name }, 'files.bucket-checked');
    this.#status = { state: 'ok', sinceMs: this.#clock.now(), reason: null };
  }

  async #ownClaim(): Promise<string> {
    const { name } = this.#bucket;
    const nowMs = this.#clock.now();
    this.#claim ??= await this.#store.transaction((tx) =>
      claimOf(tx, { bucket: name, claim: newSecret(20), nowMs }),
    );
    return this.#claim;
  }

  async #requireClaim(claim: string): Promise<void> {
    const bucket = this.#bucket;
    const found = (await bucket.get(claimKey))?.toString('utf8');
    if (found === claim) return;
    if (found === undefined) return bucket.put(claimKey, Buffer.from(claim));
    if (!claimPattern.test(found))
      throw this.#broken(
        `its object ${bucket.fullKey(claimKey)} is not what an instance writes. MILLRACE_S3_ENDPOINT may lead to a website or a page of a proxy instead of object storage; if it does not, remove that object`,
      );
    throw new UnavailableError(
      'files_unavailable',
      `the bucket ${bucket.name} belongs to another instance, or to this one before its store was restored from a backup: ` +
        `set another MILLRACE_FILES_PREFIX, or, when no other instance uses it, remove its object ${bucket.fullKey(claimKey)}`,
    );
  }

  async #probe(): Promise<void> {
    const key = `${probeFolder}${newSecret(20)}`;
    const written = randomBytes(32);
    await this.#bucket.put(key, written);
    const read = await this.#bucket.get(key);
    await this.#bucket.remove(key);
    if (read?.equals(written) !== true)
      throw this.#broken('an object that was written is not read as it was');
    if ((await this.#bucket.get(key)) !== undefined)
      throw this.#broken('an object that was removed is still read');
  }

  /**
   * Finds out whether objects can be listed. Without that files can be written and read, but those of deleted owners, and what a crash left,
   * stay in the bucket. No upload waits for it.
   */
  async checkListing(): Promise<void> {
    try {
      await this.#bucket.list(probeFolder).next();
      if (this.#listing !== undefined)
        this.#logger.info({ bucket: this.#bucket.name }, 'files.bucket-checked');
      this.#listing = undefined;
    } catch (error) {
      const { message } = toError(error);
      const reason = `${message}: files are written and read, but those of deleted owners stay in the bucket`;
      if (this.#listing?.reason === reason) return;
      this.#logger.error({ bucket: this.#bucket.name, error: reason }, 'files.bucket-not-listed');
      this.#listing = { sinceMs: this.#listing?.sinceMs ?? this.#clock.now(), reason };
    }
  }

  #broken(what: string): UnavailableError {
    return new UnavailableError('files_unavailable', `the bucket ${this.#bucket.name} for files: ${what}`);
  }

  #note(error: UnavailableError): void {
    this.#failure = { error, atMs: this.#monotonicMs() };
    const reason = toError(error).message;
    const { state, sinceMs } = this.#status;
    if (state !== 'failing' || this.#status.reason !== reason)
      this.#logger.error({ bucket: this.#bucket.name, error: reason }, 'files.bucket-failed');
    this.#status = {
      state: 'failing',
      sinceMs: state === 'failing' ? sinceMs : this.#clock.now(),
      reason,
    };
  }
}
