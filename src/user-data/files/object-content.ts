import { UnavailableError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import type { BucketKeeper } from './bucket-keeper.ts';
import type { FileBucket } from './file-bucket.ts';
import { beginRemoval, shrinkRemoved } from './file-bucket-store.ts';
import {
  type Chunk,
  chunkBytes,
  type FileContent,
  type RowStep,
  type StoredContent,
} from './file-content.ts';
import { findFileById } from './file-store.ts';

/** Objects removed before the row says that they are gone. */
const batchObjects = 64;

/**
 * Content in objects of a bucket: chunk n of a file is `<owner>/<file>/<n>`. The row of the file counts a chunk before its object is written,
 * and goes after the last object was removed. So whatever a crash leaves has a row, which is removed in time like any upload that is not
 * continued; only the request of a process that is gone, or a store that was set back, can leave objects without one, which
 * `BucketSweeper` removes.
 */
export class ObjectContent implements FileContent {
  readonly place = 's3';
  readonly #store: Store;
  readonly #bucket: FileBucket;
  readonly #keeper: BucketKeeper;

  constructor(options: { store: Store; bucket: FileBucket; keeper: BucketKeeper }) {
    this.#store = options.store;
    this.#bucket = options.bucket;
    this.#keeper = options.keeper;
  }

  async append(chunk: Chunk, grow: RowStep): Promise<void> {
    await this.#keeper.requireOwn();
    await grow();
    await this.#noted(() => this.#bucket.put(keyOf(chunk.ownerId, chunk.fileId, chunk.number), chunk.bytes));
  }

  async finish(last: Chunk, { reserve, complete }: { reserve: RowStep; complete: RowStep }): Promise<void> {
    if (last.bytes.length > 0) await this.append(last, reserve);
    await complete();
  }

  async read(file: StoredContent, number: number): Promise<Uint8Array | undefined> {
    const bytes = await this.#bucket.get(keyOf(file.owner_id, file.id, number));
    const size = bytes === undefined ? undefined : bytes.length;
    const row = size === chunkBytes ? undefined : await findFileById(this.#store.read, file.id);
    if (size === chunkBytes || (row !== undefined && size === lengthOf(row.size, number))) return bytes;
    if (row === undefined || isOver(row)) return undefined;
    throw new UnavailableError(
      'files_unavailable',
      `the content of the file ${file.id} is ${size === undefined ? 'not' : 'not as it was written'} in the bucket ` +
        `${this.#bucket.name}: something other than this instance has ${size === undefined ? 'removed' : 'changed'} it`,
    );
  }

  async removeExpired(file: { id: string; nowMs: number }): Promise<{ more: boolean }> {
    await this.#keeper.requireOwn();
    const found = await this.#store.transaction((tx) => beginRemoval(this.#store, tx, file));
    if (found === undefined) return { more: false };
    const objects = Math.ceil(found.size / chunkBytes);
    const left = Math.max(0, objects - batchObjects);
    const keys = Array.from({ length: objects - left }, (_, n) => keyOf(found.owner_id, found.id, left + n));
    await this.#noted(() => this.#bucket.removeAll(keys));
    await this.#store.transaction((tx) => shrinkRemoved(tx, found.id, left * chunkBytes));
    return { more: left > 0 };
  }

  /** Removes all objects of owners who are deleted, whether they have a row or not. */
  async removeOwners(ownerIds: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#keeper.requireOwn();
    await this.#noted(async () => {
      for (const ownerId of ownerIds)
        for await (const objects of this.#bucket.list(`${ownerId}/`))
          await this.#bucket.removeAll(
            objects.map(({ key }) => key),
            signal,
          );
    });
  }

  async #noted(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#keeper.failed(error);
      throw error;
    }
  }
}

function keyOf(ownerId: string, fileId: string, number: number): string {
  return `${ownerId}/${fileId}/${number}`;
}

/** The id of the file whose chunk an object is; undefined: it is none. */
export function fileOfKey(key: string): string | undefined {
  return /^[^/]+\/(file_\w+)\/\d+$/.exec(key)?.[1];
}

function lengthOf(size: number, number: number): number {
  return Math.min(chunkBytes, Number(size) - number * chunkBytes);
}

/** Its removal has begun, or may begin. */
function isOver(row: { complete: number; expires_at_ms: number | null }): boolean {
  return row.complete === 0 && row.expires_at_ms === 0;
}
