import { chmodSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from '#lib/logger.ts';

/** What a data folder has; also of versions before this one, and where it is a disk of its own. */
const ours =
  /^(millrace\.sqlite.*|lock\.sqlite.*|pid|api-key.*|backups|restoring|components|packages|dashboard|program|sandbox-self-test\.json|run-\d+-\d+|lost\+found)$/;
/** Files that tell secrets, or what people's events were. */
const secret = /^(millrace\.sqlite.*|api-key.*)$/;
const othersMay = 0o077;

/**
 * Takes the rights of other users of the machine on the data folder, and on the files of the store. A folder that has something else
 * too is left as it is, for whoever needs that, and told. Modes mean nothing on some disks: what stays open is told as well.
 */
export function makePrivate(folder: string, logger: Logger): void {
  if (process.platform === 'win32') return;
  const names = readdirSync(folder);
  const foreign = names.filter((name) => !ours.test(name));
  if (foreign.length === 0) close(folder, 0o700, logger);
  else if (isOpen(folder))
    logger.warn(
      { folder, foreign: foreign.slice(0, 5) },
      'data-folder.open: other users may pass through it, and it is left so because it has more than Millrace put there',
    );
  for (const name of names) if (secret.test(name)) close(join(folder, name), 0o600, logger);
}

function close(path: string, mode: number, logger: Logger): void {
  if (!isOpen(path)) return;
  const before = modeOf(path);
  try {
    chmodSync(path, mode);
  } catch (error) {
    logger.warn({ path, mode: before, err: error }, 'data-folder.open: other users may read it');
    return;
  }
  if (isOpen(path)) logger.warn({ path, mode: before }, 'data-folder.open: other users may read it');
  else logger.info({ path, before, now: modeOf(path) }, 'data-folder.closed: other users could read it');
}

function isOpen(path: string): boolean {
  return ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & othersMay) !== 0;
}

function modeOf(path: string): string {
  return (statSync(path).mode & 0o7777).toString(8).padStart(4, '0');
}
