import { createHash } from 'node:crypto';
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
 *
 * An object is the chunk and 32 bytes that follow it: the SHA-256 of the chunk with the file and number that it belongs to. So what the storage
 * changed, or confused with another object, is never read as content.
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
    const { ownerId, fileId, number, bytes } = chunk;
    const object = Buffer.concat([bytes, digestOf(fileId, number, bytes)]);
    await this.#noted(() => this.#bucket.put(keyOf(ownerId, fileId, number), object));
  }

  async finish(last: Chunk, { reserve, complete }: { reserve: RowStep; complete: RowStep }): Promise<void> {
    if (last.bytes.length > 0) await this.append(last, reserve);
    await complete();
  }

  async read(file: StoredContent, number: number): Promise<Uint8Array | undefined> {
    const object = await this.#bucket.get(keyOf(file.owner_id, file.id, number));
    const bytes = object === undefined ? undefined : chunkIn(object, file.id, number);
    if (bytes?.length === chunkBytes) return bytes;
    const row = await findFileById(this.#store.read, file.id);
    if (row !== undefined && bytes?.length === lengthOf(row.size, number)) return bytes;
    if (row === undefined || isOver(row)) return undefined;
    throw new UnavailableError(
      'files_unavailable',
      `the content of the file ${file.id} is ${object === undefined ? 'not' : 'not as it was written'} in the bucket ` +
        `${this.#bucket.name}: something other than this instance has ${object === undefined ? 'removed' : 'changed'} it`,
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
    for (const ownerId of ownerIds) {
      // A list that is refused says nothing about writes, so that it holds up no upload.
      for await (const objects of this.#bucket.list(`${ownerId}/`)) {
        const keys = objects.map(({ key }) => key);
        await this.#noted(() => this.#bucket.removeAll(keys, signal));
      }
    }
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

const digestBytes = 32;

function digestOf(fileId: string, number: number, bytes: Uint8Array): Buffer {
  return createHash('sha256').update(`${fileId}/${number}\n`).update(bytes).digest();
}

/** The chunk in an object; undefined when the object is not what was written for it. */
function chunkIn(object: Buffer, fileId: string, number: number): Buffer | undefined {
  const end = object.length - digestBytes;
  if (end < 0) return undefined;
  const bytes = object.subarray(0, end);
  return digestOf(fileId, number, bytes).equals(object.subarray(end)) ? bytes : undefined;
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
