import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import { chunkBytes, type FileContents, type StoredContent } from './file-content.ts';
import { requireRoom } from './file-room.ts';
import { type FilePlace, type FileRow, findFile, findFileById, listFiles, retireFile } from './file-store.ts';
import { type FileTarget, FileUpload, replacedMs } from './file-upload.ts';

/** First and last byte, both inclusive. */
export interface ByteRange {
  first: number;
  last: number;
}

/**
 * Files in the store: file stores of owners, and bodies and attachments set aside for a while. What is known of a file is a
 * row; its content is in pieces of 1 MB, rows too or objects of a bucket: any process reaches it, and memory stays flat whatever the size. Promises:
 * - a file is seen whole or not at all, and a new one takes the place of the old one in one moment;
 * - what was acknowledged is on disk;
 * - an expired file cannot be read, though its rows may still be there.
 */
export class StoredFiles {
  readonly #store: Store;
  readonly #contents: FileContents;
  readonly #clock: Clock;
  readonly #bytesPerOwnerMax: number;
  readonly #admit: (ownerId: string) => void;

  /** `admit` throws when the owner may store nothing more for another reason. */
  constructor(options: {
    store: Store;
    contents: FileContents;
    clock: Clock;
    bytesPerOwnerMax: number;
    admit?: (ownerId: string) => void;
  }) {
    this.#store = options.store;
    this.#contents = options.contents;
    this.#clock = options.clock;
    this.#bytesPerOwnerMax = options.bytesPerOwnerMax;
    this.#admit = options.admit ?? (() => {});
  }

  /** Throws CallerError `files_full`, or what `admit` throws. */
  async begin(target: FileTarget): Promise<FileUpload> {
    const bytesPerOwnerMax = this.#bytesPerOwnerMax;
    this.#admit(target.ownerId);
    await requireRoom(this.#store.read, { ownerId: target.ownerId, bytes: 0, bytesMax: bytesPerOwnerMax });
    const content = this.#contents.current;
    return new FileUpload({ store: this.#store, content, clock: this.#clock, bytesPerOwnerMax }, target);
  }

  /** Stores what `content` gives; nothing is kept when it fails. Takes no more of it than can be stored. */
  async put(target: FileTarget, content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<FileRow> {
    const upload = await this.begin(target);
    try {
      for await (const bytes of content) await upload.append(bytes);
      return await upload.finish();
    } catch (error) {
      await upload.abandon().catch(() => {
        // What made it fail is what matters; the rows go when the upload has been idle for long enough.
      });
      throw error;
    }
  }

  async find(place: FilePlace): Promise<FileRow | undefined> {
    return this.#current(await findFile(this.#store.read, place));
  }

  /** Complete files only. */
  async findById(id: string): Promise<FileRow | undefined> {
    const file = await findFileById(this.#store.read, id);
    return file?.complete === 1 ? this.#current(file) : undefined;
  }

  list(wanted: {
    ownerId: string;
    folder: string;
    prefix: string;
    after: string;
    limit: number;
  }): Promise<FileRow[]> {
    return listFiles(this.#store.read, { ...wanted, nowMs: this.#clock.now() });
  }

  /** False when there was none. */
  async delete(place: FilePlace): Promise<boolean> {
    const nowMs = this.#clock.now();
    return this.#store.transaction((tx) => retireFile(tx, place, nowMs + replacedMs));
  }

  /**
   * The bytes of a range within the file, a chunk at a time. Throws CallerError `not_found` when it is removed meanwhile, and
   * UnavailableError `files_unavailable` where its content cannot be read.
   */
  async *read(file: StoredContent, range: ByteRange): AsyncGenerator<Uint8Array, void, undefined> {
    const content = this.#contents.of(file.content_in);
    for (let at = range.first; at <= range.last; ) {
      const number = Math.floor(at / chunkBytes);
      const bytes = await content.read(file, number);
      if (bytes === undefined) throw new CallerError('not_found', 'the file was removed while it was read');
      const offset = at - number * chunkBytes;
      yield bytes.subarray(offset, range.last + 1 - number * chunkBytes);
      at = (number + 1) * chunkBytes;
    }
  }

  #current(file: FileRow | undefined): FileRow | undefined {
    if (file === undefined) return undefined;
    return file.expires_at_ms === null || file.expires_at_ms > this.#clock.now() ? file : undefined;
  }
}
