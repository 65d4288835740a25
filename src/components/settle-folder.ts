import { chmod, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CallerError } from '#lib/errors.ts';

/** Files looked at, at a time. */
const filesAtATime = 64;
/** What nothing in the folder may have: set-uid, set-gid and sticky bits, and a way for others to write. */
const refusedModes = 0o7022;

/**
 * Makes installed packages safe for processes of other users, and returns their size in bytes. The modes of files are what the
 * publisher of a package says, and the files are ours, root's perhaps: a set-uid program among them would give any user who
 * starts it our rights. Throws for what is neither file nor folder.
 */
export async function settleFolder(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  let bytes = 0;
  for (let at = 0; at < entries.length; at += filesAtATime) {
    const sizes = await Promise.all(
      entries.slice(at, at + filesAtATime).map(async (entry) => {
        const path = join(entry.parentPath, entry.name);
        if (!entry.isFile() && !entry.isDirectory()) {
          throw new CallerError('package_refused', `${entry.name} in a package is neither file nor folder`);
        }
        const { mode, size } = await lstat(path);
        // Processes of other users read it, and the umask of the service keeps them from what it makes.
        const wanted = (mode & 0o7777 & ~refusedModes) | (entry.isDirectory() ? 0o555 : 0o444);
        if (wanted !== (mode & 0o7777)) await chmod(path, wanted);
        return entry.isFile() ? size : 0;
      }),
    );
    bytes += sizes.reduce((sum, size) => sum + size, 0);
  }
  return bytes;
}
