import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { run } from './programs.ts';

const release = 'bookworm';

/** A root file system of Debian without recommended packages. It is made once, in the user's cache. */
export async function debianBase(): Promise<string> {
  const folder = join(homedir(), '.cache', 'millrace-drills');
  const base = join(folder, release);
  if (existsSync(base)) return base;
  const unfinished = `${base}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await run('debootstrap', ['--variant=minbase', '--include=ca-certificates', release, unfinished]);
  await rename(unfinished, base);
  return base;
}
