import { createHash } from 'node:crypto';
import { readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { CliError } from './exit-codes.ts';

/** Runs `work` while no other command of this machine and user changes the folder: two pushes would each make what is new. */
export async function withFolderLock<T>(root: string, work: () => Promise<T>): Promise<T> {
  const file = lockFileOf(await realpath(root).catch(() => root));
  await take(file, root);
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

/** Beside no file of the folder, so that it gets into no commit. */
export function lockFileOf(root: string): string {
  const hash = createHash('sha256').update(root).digest('hex').slice(0, 16);
  return join(tmpdir(), `millrace-folder-${userInfo().uid}-${hash}.lock`);
}

async function take(file: string, root: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await writeFile(file, String(process.pid), { flag: 'wx', mode: 0o600 });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const pid = Number(await readFile(file, 'utf8').catch(() => ''));
    if (tries > 2 || isAlive(pid))
      throw new CliError('failed', `another push or pull of ${root} is under way`, {
        hint: `Nothing was changed. Repeat this when process ${pid} has ended.`,
      });
    // It was killed.
    await rm(file, { force: true });
  }
}

function isAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid < 1) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
