import type { Settings } from '#config/settings.ts';
import type { ObjectStorage } from '#egress/object-storage.ts';
import type { Clock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { BucketKeeper } from './bucket-keeper.ts';
import { BucketSweeper } from './bucket-sweeper.ts';
import { hasContentIn } from './file-bucket-store.ts';
import { FileContents, RowContent } from './file-content.ts';
import { ObjectContent } from './object-content.ts';
import { UnnamedBucket } from './unnamed-bucket.ts';

export interface OpenedContents {
  contents: FileContents;
  /** What looks after the bucket; undefined: there is none. */
  bucket: { name: string; keeper: BucketKeeper; sweeper: BucketSweeper } | undefined;
  /** Present where there is no bucket. */
  unnamedBucket: UnnamedBucket | undefined;
  /** Removes the content that these owners have outside of the store. Throws UnavailableError `files_unavailable`. */
  removeOutside(ownerIds: readonly string[], signal: AbortSignal): Promise<void>;
}

/** The places of content that the settings name. Nothing is asked of a bucket yet. */
export async function openContents(
  settings: Pick<Settings, 'files' | 'filesBucket' | 'filesPrefix'>,
  parts: { store: Store; clock: Clock; logger: Logger; storage: ObjectStorage | undefined },
): Promise<OpenedContents> {
  const { store, storage } = parts;
  const rows = new RowContent(store);
  const { filesBucket: name, filesPrefix: prefix } = settings;
  if (storage === undefined || name === '')
    return {
      contents: new FileContents(rows),
      bucket: undefined,
      unnamedBucket: new UnnamedBucket(parts),
      async removeOutside(ownerIds) {
        if (!(await hasContentIn(store.read, 's3', ownerIds))) return;
        throw new UnavailableError(
          'files_unavailable',
          'files of this owner are in a bucket, and the service was not told which: set MILLRACE_FILES_BUCKET',
        );
      },
    };
  // Most instances have no bucket, and would keep its library in memory.
  const { FileBucket } = await import('./file-bucket.ts');
  const bucket = new FileBucket({ storage, bucket: name, prefix });
  const keeper = new BucketKeeper({ ...parts, bucket });
  const objects = new ObjectContent({ store, bucket, keeper });
  return {
    contents: settings.files === 's3' ? new FileContents(objects, [rows]) : new FileContents(rows, [objects]),
    bucket: { name: bucket.name, keeper, sweeper: new BucketSweeper({ ...parts, bucket, keeper }) },
    unnamedBucket: undefined,
    removeOutside: (ownerIds, signal) => objects.removeOwners(ownerIds, signal),
  };
}
