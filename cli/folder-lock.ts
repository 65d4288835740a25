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

/** The text of the lock of a process: its id and, where the system tells, when it began. */
export async function lockText(pid: number): Promise<string> {
  return `${pid} ${(await startOf(pid)) ?? ''}`.trimEnd();
}

async function take(file: string, root: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await writeFile(file, await lockText(process.pid), { flag: 'wx', mode: 0o600 });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const [pid, start] = (await readFile(file, 'utf8').catch(() => '')).split(' ');
    if (tries > 2 || (await isUnderWay(Number(pid), start)))
      throw new CliError('failed', `another push or pull of ${root} is under way`, {
        hint: `Nothing was changed. Repeat this when process ${pid} has ended.`,
      });
    // It was killed.
    await rm(file, { force: true });
  }
}

/** False also when another process has the id: the system gives it again. */
async function isUnderWay(pid: number, start: string | undefined): Promise<boolean> {
  if (!Number.isInteger(pid) || pid < 1) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  const now = await startOf(pid);
  return start === undefined || now === undefined || now === start;
}

/** The time at which a process began, in ticks since the machine began. Undefined where there is no `/proc`, as on macOS. */
async function startOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The name of the program comes before it, and may have spaces and brackets (proc(5)).
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
}
