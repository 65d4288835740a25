import { chmodSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from '#lib/logger.ts';

/** The names in a data folder: of this version, of older ones, and of a file system that starts there. */
const ours =
  /^(millrace\.sqlite.*|lock\.sqlite.*|pid|api-key.*|backups|restoring|components|packages|dashboard|program|sandbox-self-test\.json|upgrade\.json(?:\.part)?|run-\d+-\d+|lost\+found)$/;
/** Files with secrets or events in them. */
const secret = /^(millrace\.sqlite.*|api-key.*)$/;
const othersMay = 0o077;

/**
 * Removes the permissions of other users of the machine on the data folder and on the files of the store. A folder that also contains
 * files of others keeps its mode, with a warning. Some disks do not keep modes: there is a warning for what stays open.
 * `data-folder.left-open`: other users may read the path, or pass through the folder. `data-folder.restricted`: they could, until now.
 */
export function makePrivate(folder: string, logger: Logger): void {
  if (process.platform === 'win32') return;
  const names = readdirSync(folder);
  const foreign = names.filter((name) => !ours.test(name));
  if (foreign.length === 0) close(folder, 0o700, logger);
  else if (isOpen(folder))
    logger.warn(
      { folder, foreign: foreign.slice(0, 5), reason: 'it contains files that are not of Millrace' },
      'data-folder.left-open',
    );
  for (const name of names) if (secret.test(name)) close(join(folder, name), 0o600, logger);
}

function close(path: string, mode: number, logger: Logger): void {
  if (!isOpen(path)) return;
  const before = modeOf(path);
  try {
    chmodSync(path, mode);
  } catch (error) {
    logger.warn({ path, mode: before, err: error }, 'data-folder.left-open');
    return;
  }
  if (isOpen(path))
    logger.warn({ path, mode: before, reason: 'the disk keeps no modes' }, 'data-folder.left-open');
  else logger.info({ path, before, now: modeOf(path) }, 'data-folder.restricted');
}

function isOpen(path: string): boolean {
  return ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & othersMay) !== 0;
}

function modeOf(path: string): string {
  return (statSync(path).mode & 0o7777).toString(8).padStart(4, '0');
}
