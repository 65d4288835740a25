import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { toError, UnavailableError } from '#lib/errors.ts';

// https://www.sqlite.org/rescode.html
const sqliteBusy = 5;
const sqliteFull = 13;

/** Another process uses this data folder. */
export class FolderLockedError extends Error {
  override name = 'FolderLockedError';
}

/**
 * Holds the data folder for this process until the returned function is called. The lock is the operating system's (an
 * exclusive transaction on a file of its own), so the lock ends with the process, however that dies, and never needs an operator
 * to remove it. Throws `FolderLockedError` with the process that has it.
 */
export function lockFolder(folder: string): () => void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = new DatabaseSync(join(folder, 'lock.sqlite'), { timeout: 0 });
  const pidFile = join(folder, 'pid');
  try {
    file.exec('pragma journal_mode = delete; begin exclusive');
  } catch (error) {
    file.close();
    const code = (error as { errcode?: number }).errcode ?? 0;
    if (code === sqliteFull)
      throw new UnavailableError(
        'storage_full',
        `the disk of the data folder ${folder} is full: free space there`,
        {
          cause: error,
        },
      );
    if (code !== sqliteBusy) {
      throw new UnavailableError(
        'store_unavailable',
        `the data folder ${folder} cannot be locked (${toError(error).message}): if the disk is in order, remove ${join(folder, 'lock.sqlite')}, which has no data`,
        { cause: error },
      );
    }
    throw new FolderLockedError(
      `the data folder ${folder} is in use by another Millrace${readPid(pidFile)}: stop that one, or set MILLRACE_DATA to another folder`,
      { cause: error },
    );
  }
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
  return () => {
    if (file.isOpen) file.close();
  };
}

function readPid(pidFile: string): string {
  try {
    return ` (process ${readFileSync(pidFile, 'utf8').trim()})`;
  } catch {
    return '';
  }
}
