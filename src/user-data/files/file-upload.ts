import { createHash } from 'node:crypto';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import { type Chunk, chunkBytes, type FileContent, type RowStep } from './file-content.ts';
import { requireRoom } from './file-room.ts';
import {
  completeUpload,
  dropUpload,
  type FilePlace,
  type FileRow,
  growUpload,
  insertFile,
  retireFile,
} from './file-store.ts';

/** An upload without data for this long is deleted. */
export const uploadIdleMs = 60 * 60 * 1000;
/** How long readers that began before a file was replaced or deleted can continue. */
export const replacedMs = 60 * 1000;
/** After this many bytes of an upload the owner's free space is checked again: other uploads may have used it meanwhile. */
const roomCheckBytes = 64 * 1024 * 1024;
/** Maximum tries to finish a file while other uploads finish at the same path. */
const finishTries = 30;

export interface FileTarget extends FilePlace {
  contentType: string;
  /** When the file expires, epoch ms. Null: never. */
  expiresAtMs: number | null;
}

interface UploadOptions {
  store: Store;
  content: FileContent;
  clock: Clock;
  bytesPerOwnerMax: number;
}

/**
 * An upload. The file is visible after `finish`, which replaces what was at its path, in one transaction. At most one chunk and
 * the last appended data are in memory. An upload that is never finished is deleted in time.
 */
export class FileUpload {
  readonly id = newId('file');
  readonly target: FileTarget;
  readonly #options: UploadOptions;
  readonly #hash = createHash('sha256');
  readonly #createdAtMs: number;
  /** The chunk that fills up; the same memory for one after the other. */
  #chunk: Buffer = Buffer.alloc(0);
  #chunkFilled = 0;
  #storedBytes = 0;
  #chunks = 0;
  /** The row of the file is there. */
  #hasRow = false;
  #checkedAtBytes = 0;
  #tail: Promise<unknown> = Promise.resolve();
  #over = false;
  /** The time of the last data. */
  lastUsedAtMs: number;

  /** Begun by `StoredFiles.begin`, which checks that there is room. */
  constructor(options: UploadOptions, target: FileTarget) {
    this.#options = options;
    this.target = target;
    this.#createdAtMs = options.clock.now();
    this.lastUsedAtMs = this.#createdAtMs;
  }

  get size(): number {
    return this.#storedBytes + this.#chunkFilled;
  }

  /** Throws CallerError `files_full`, `not_found` when it was given up. */
  append(bytes: Uint8Array): Promise<void> {
    return this.#inTurn(async () => {
      this.#hash.update(bytes);
      for (let at = 0; at < bytes.length; ) {
        at += this.#fill(bytes.subarray(at));
        if (this.#chunkFilled === chunkBytes) await this.#storeChunk();
      }
    });
  }

  finish(): Promise<FileRow> {
    return this.#inTurn(async () => {
      await this.#checkRoom({ id: this.id, createdAtMs: this.#createdAtMs });
      // In memory of its own: a view would take its whole buffer along to the store.
      const last = Buffer.allocUnsafeSlow(this.#chunkFilled);
      this.#chunk.copy(last, 0, 0, this.#chunkFilled);
      const file = await this.#complete(last);
      this.#over = true;
      this.#chunk = last;
      return file;
    });
  }

  /** Cancels the upload; does nothing when it has ended. */
  async abandon(): Promise<void> {
    await this.#tail.catch(() => {});
    if (this.#over) return;
    this.#over = true;
    this.#chunk = Buffer.alloc(0);
    if (!this.#hasRow) return;
    const { store, clock } = this.#options;
    await store.transaction((tx) => dropUpload(tx, this.id, clock.now()));
  }

  /** One after another, whatever the caller does; after a failure nothing more goes in. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(() => {
      if (this.#over) throw uploadGone();
      this.lastUsedAtMs = this.#options.clock.now();
      return work();
    });
    this.#tail = result;
    // The caller that appended gets the error, and later calls fail with the same one.
    result.catch(() => {});
    return result;
  }

  /** Puts what there is room for into the chunk; how much that was. */
  #fill(bytes: Uint8Array): number {
    const needed = Math.min(this.#chunkFilled + bytes.length, chunkBytes);
    if (this.#chunk.length < needed) {
      // Small files are many: they need not take a chunk's memory each.
      const grown = Buffer.allocUnsafeSlow(Math.min(chunkBytes, Math.max(needed, 2 * this.#chunk.length)));
      this.#chunk.copy(grown, 0, 0, this.#chunkFilled);
      this.#chunk = grown;
    }
    const taken = needed - this.#chunkFilled;
    this.#chunk.set(bytes.subarray(0, taken), this.#chunkFilled);
    this.#chunkFilled = needed;
    return taken;
  }

  async #storeChunk(): Promise<void> {
    if (this.#storedBytes - this.#checkedAtBytes >= roomCheckBytes) await this.#checkRoom();
    await this.#options.content.append(this.#chunkOf(this.#chunk), (also) => this.#grow(chunkBytes, also));
    this.#storedBytes += chunkBytes;
    this.#chunks += 1;
    this.#chunkFilled = 0;
  }

  /** Counts bytes that are about to be stored in the row of the file, which the first of them makes. */
  async #grow(bytes: number, also: Parameters<RowStep>[0]): Promise<void> {
    const { store, clock } = this.#options;
    const nowMs = clock.now();
    const size = this.#storedBytes + bytes;
    const expiresAtMs = nowMs + uploadIdleMs;
    await store.transaction(async (tx) => {
      if (!this.#hasRow) {
        await insertFile(tx, { ...this.#row(size, nowMs), complete: 0, expires_at_ms: expiresAtMs });
      } else if (!(await growUpload(tx, { id: this.id, size, expiresAtMs, nowMs }))) throw uploadGone();
      await also?.(tx);
    });
    this.#hasRow = true;
  }

  async #complete(last: Uint8Array): Promise<FileRow> {
    const sha256 = this.#hash.digest('hex');
    let row: FileRow | undefined;
    await this.#options.content.finish(this.#chunkOf(last), {
      reserve: (also) => this.#grow(last.length, also),
      complete: async (also) => {
        row = await this.#show(this.#storedBytes + last.length, sha256, also);
      },
    });
    return must(row, 'a finished upload is complete');
  }

  /** Makes the file visible, in the place of the one that was at its path. */
  async #show(bytes: number, sha256: string, also: Parameters<RowStep>[0]): Promise<FileRow> {
    const { store, clock } = this.#options;
    const nowMs = clock.now();
    const row: FileRow = {
      ...this.#row(bytes, nowMs),
      sha256,
      complete: 1,
      expires_at_ms: this.target.expiresAtMs,
    };
    for (let left = finishTries; ; left -= 1) {
      try {
        await store.transaction(async (tx) => {
          await retireFile(tx, this.target, nowMs + replacedMs);
          if (!this.#hasRow) await insertFile(tx, row);
          else {
            const { id, size, sha256, expires_at_ms: expiresAtMs } = row;
            if (!(await completeUpload(tx, { id, size, sha256, expiresAtMs, nowMs }))) throw uploadGone();
          }
          await also?.(tx);
        });
        return row;
      } catch (error) {
        if (left === 1 || !isTakenPath(error)) throw error;
      }
    }
  }

  async #checkRoom(ending?: { id: string; createdAtMs: number }): Promise<void> {
    const { store, bytesPerOwnerMax } = this.#options;
    await requireRoom(store.read, {
      ownerId: this.target.ownerId,
      bytes: this.#chunkFilled,
      bytesMax: bytesPerOwnerMax,
      ...(ending === undefined ? {} : { ending }),
    });
    this.#checkedAtBytes = this.#storedBytes;
  }

  #row(size: number, nowMs: number): Omit<FileRow, 'complete' | 'expires_at_ms'> {
    return {
      id: this.id,
      owner_id: this.target.ownerId,
      folder: this.target.folder,
      path: this.target.path,
      content_type: this.target.contentType,
      size,
      sha256: '',
      created_at_ms: this.#createdAtMs,
      updated_at_ms: nowMs,
      content_in: this.#options.content.place,
    };
  }

  #chunkOf(bytes: Uint8Array): Chunk {
    return { fileId: this.id, ownerId: this.target.ownerId, number: this.#chunks, bytes };
  }
}

export function uploadGone(): CallerError {
  return new CallerError(
    'not_found',
    'there is no such upload: it was finished, given up, or idle for too long',
  );
}

/** PostgreSQL says so when another transaction made a file of this path between our two statements. */
function isTakenPath(error: unknown): boolean {
  return Object(error).code === '23505';
}
