import { chmod, mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startTimeOf } from '#runner/runner-folders.ts';

/**
 * The folder below `parent` that is this process's alone, made with `mode`. What processes left there that are gone is
 * removed; what those have that still run (a service that ends while the next one starts, two commands) stays.
 */
export async function processFolder(parent: string, mode: number): Promise<string> {
  await mkdir(parent, { recursive: true, mode });
  // The umask may have taken what other users need to pass through.
  await chmod(parent, mode);
  for (const name of await readdir(parent)) {
    const [, pid, start] = /^(\d+)-(\d+)$/.exec(name) ?? [];
    if (pid === undefined || (startTimeOf(Number(pid)) ?? '0') !== start)
      await rm(join(parent, name), { recursive: true, force: true });
  }
  const folder = processFolderOf(parent);
  await mkdir(folder, { recursive: true, mode });
  await chmod(folder, mode);
  return folder;
}

/** Where that folder is, made or not. */
export function processFolderOf(parent: string): string {
  return join(parent, `${process.pid}-${startTimeOf(process.pid) ?? '0'}`);
}
