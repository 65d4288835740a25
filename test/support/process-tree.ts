import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { startTimeOf } from '#runner/runner-folders.ts';

/** A process, told apart from a later one with its pid. */
export interface SeenProcess {
  pid: number;
  startTime: string;
  command: string;
}

/** Every process that descends from `pid`, and every other one that has `folder` in its command or works in it. Not `pid` itself. */
export function processesBelow(pid: number, folder: string): SeenProcess[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), parent: parentOf(name), ...seen(name, folder) }));
  const below = new Set([pid]);
  for (let size = 0; size !== below.size; ) {
    size = below.size;
    for (const one of all) if (below.has(one.parent)) below.add(one.pid);
  }
  return all.flatMap((one) => {
    if (one.pid === pid || one.pid === process.pid || !(below.has(one.pid) || one.hasFolder)) return [];
    const startTime = startTimeOf(one.pid);
    return startTime === undefined ? [] : [{ pid: one.pid, startTime, command: one.command }];
  });
}

/** True while it runs. A zombie does not. */
export function runs({ pid, startTime }: SeenProcess): boolean {
  return startTimeOf(pid) === startTime;
}

function parentOf(name: string): number {
  // The name of the program, in brackets, may have spaces and brackets in it.
  return Number(/^.*\) \S (\d+) /s.exec(read(name, 'stat'))?.[1] ?? 0);
}

function seen(name: string, folder: string): { command: string; hasFolder: boolean } {
  const command = read(name, 'cmdline').replaceAll('\0', ' ').trim();
  let cwd = '';
  try {
    cwd = readlinkSync(`/proc/${name}/cwd`);
  } catch {
    // It has ended, or belongs to another user.
  }
  return { command, hasFolder: command.includes(folder) || `${cwd}/`.startsWith(`${folder}/`) };
}

function read(name: string, file: string): string {
  try {
    return readFileSync(`/proc/${name}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
