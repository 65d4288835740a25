import { UnavailableError } from '#lib/errors.ts';
import type { Store, Tx } from '#storage/store.ts';
import { type FileRow, insertChunk, readChunk, removeExpired } from './file-store.ts';

/** Bytes of a chunk: little enough to pass through memory, enough that few are needed. */
export const chunkBytes = 1024 * 1024;
/** Chunks deleted in one transaction: a purge must never hold the store's one writer for long. */
const batchChunks = 16;

export type ContentPlace = FileRow['content_in'];

export interface Chunk {
  fileId: string;
  ownerId: string;
  /** From 0. */
  number: number;
  bytes: Uint8Array;
}

/** A transaction about the row of a file; `also` is done in the same one. */
export type RowStep = (also?: (tx: Tx) => Promise<void>) => Promise<void>;

/**
 * Where the content of files is. Promises of both places:
 * - what `append` and `finish` were given is durable when they resolve, and a crash before leaves nothing without a row;
 * - a row never says `complete` before all of its content is durable.
 */
export interface FileContent {
  readonly place: ContentPlace;
  /** Stores a chunk. `grow` counts it in the row. */
  append(chunk: Chunk, grow: RowStep): Promise<void>;
  /** Stores the last chunk, unless that is empty. `reserve` counts it in the row, `complete` makes the file visible. */
  finish(last: Chunk, steps: { reserve: RowStep; complete: RowStep }): Promise<void>;
  /** The bytes of a chunk; undefined: there is none. */
  read(file: StoredContent, number: number): Promise<Uint8Array | undefined>;
  /** Removes a part of an expired file, and its row with the last of it. An upload that continued is left alone. */
  removeExpired(file: { id: string; nowMs: number }): Promise<{ more: boolean }>;
}

export type StoredContent = Pick<FileRow, 'id' | 'owner_id' | 'content_in'>;

/** Content in rows of the store, in the transaction that is about the file itself. */
export class RowContent implements FileContent {
  readonly place = 'store';
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  append(chunk: Chunk, grow: RowStep): Promise<void> {
    return grow((tx) => insertChunk(tx, rowOf(chunk)));
  }

  finish(last: Chunk, { complete }: { complete: RowStep }): Promise<void> {
    return last.bytes.length === 0 ? complete() : complete((tx) => insertChunk(tx, rowOf(last)));
  }

  async read(file: StoredContent, number: number): Promise<Uint8Array | undefined> {
    return (await readChunk(this.#store.read, file.id, number))?.bytes;
  }

  async removeExpired(file: { id: string; nowMs: number }): Promise<{ more: boolean }> {
    const removed = await this.#store.transaction((tx) =>
      removeExpired(this.#store, tx, { ...file, chunks: batchChunks }),
    );
    await this.#store.reclaimSpace();
    return removed;
  }
}

function rowOf({ fileId, ownerId, number, bytes }: Chunk) {
  return { file_id: fileId, number, owner_id: ownerId, bytes };
}

/** The places of content that this service knows: new files go to one, and what is in the other is still read. */
export class FileContents {
  readonly current: FileContent;
  readonly #known: ReadonlyMap<ContentPlace, FileContent>;

  constructor(current: FileContent, others: readonly FileContent[] = []) {
    this.current = current;
    this.#known = new Map([...others, current].map((content) => [content.place, content]));
  }

  get all(): readonly FileContent[] {
    return [...this.#known.values()];
  }

  /** Throws UnavailableError `files_unavailable` for content in a bucket when MILLRACE_FILES_BUCKET is not set. */
  of(place: ContentPlace): FileContent {
    const content = this.#known.get(place);
    if (content !== undefined) return content;
    throw new UnavailableError(
      'files_unavailable',
      'the content of this file is in a bucket, and MILLRACE_FILES_BUCKET is not set',
    );
  }
}
