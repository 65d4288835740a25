import { CallerError } from '#lib/errors.ts';
import { bytesText, countText } from '#lib/units.ts';
import type { Db } from '#storage/store.ts';
import { usageOfOwner } from './file-store.ts';

/** Counted for every file in addition to its bytes: the size of its row, so that empty files have a bound too. */
const fileOverheadBytes = 1024;
/** Unfinished files of one owner, those that were replaced a moment ago among them. */
const unfinishedMax = 10_000;

/**
 * Throws CallerError `files_full` when `bytes` more would not fit beside what the owner keeps. What was replaced or
 * deleted counts until its rows are gone. Uploads look from time to time, so several at once may pass the bound by what
 * they bring between two looks. An upload that ends (`ending`) gives way only to those that began before it: if each counted all
 * others, several that are too much together would all be refused.
 */
export async function requireRoom(
  db: Db,
  {
    ownerId,
    bytes,
    bytesMax,
    ending,
  }: { ownerId: string; bytes: number; bytesMax: number; ending?: { id: string; createdAtMs: number } },
): Promise<void> {
  const used = await usageOfOwner(db, ownerId, ending);
  const total = used.bytes + (used.files + 1) * fileOverheadBytes + bytes;
  if (total <= bytesMax && used.unfinished < unfinishedMax) return;
  throw new CallerError(
    'files_full',
    `the files of this owner take ${bytesText(used.bytes)} in ${countText(used.files)} files, and may take ${bytesText(bytesMax)}: remove some`,
    { limit: bytesMax },
  );
}
