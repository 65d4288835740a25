import { readdirSync, readFileSync } from 'node:fs';

/** What the kernel counts for a process and everything it started, on Linux; zeroes elsewhere. */
export interface TreeUsage {
  processes: number;
  /** User and system time so far, of ended children too, in microseconds. */
  cpuUs: number;
  /** Resident memory of the first process alone. */
  rootRssMb: number;
  /** Resident memory of all; pages that several processes share count in each of them. */
  rssMb: number;
  /** Proportional memory of all: a shared page counts once in total. */
  pssMb: number;
}

/** USER_HZ; 100 on every Linux that Node runs on. */
const ticksPerSecond = 100;

export function treeUsage(rootPid: number): TreeUsage {
  const usage: TreeUsage = { processes: 0, cpuUs: 0, rootRssMb: 0, rssMb: 0, pssMb: 0 };
  for (const pid of treeOf(rootPid)) {
    const stat = readProc(`${pid}/stat`);
    if (stat === undefined) continue;
    usage.processes += 1;
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // utime, stime, cutime, cstime: fields 14 to 17 of proc(5), of which the first two are cut off here.
    const ticks = [11, 12, 13, 14].reduce((sum, index) => sum + Number(fields[index] ?? 0), 0);
    usage.cpuUs += (ticks / ticksPerSecond) * 1e6;
    const rollup = readProc(`${pid}/smaps_rollup`) ?? '';
    const rssMb = Number(/^Rss: +(\d+)/m.exec(rollup)?.[1] ?? 0) / 1024;
    if (pid === rootPid) usage.rootRssMb = rssMb;
    usage.rssMb += rssMb;
    usage.pssMb += Number(/^Pss: +(\d+)/m.exec(rollup)?.[1] ?? 0) / 1024;
  }
  return usage;
}

/** The memory of one process, in MB. */
export interface ProcessUsage {
  /** The program, and the file that it runs. */
  command: string;
  rssMb: number;
  pssMb: number;
  /** Pages that no other process has. */
  privateMb: number;
}

/** A process and everything that it started, the first one first. */
export function processesOf(rootPid: number): ProcessUsage[] {
  return treeOf(rootPid).flatMap((pid) => {
    const rollup = readProc(`${pid}/smaps_rollup`);
    if (rollup === undefined) return [];
    const mbOf = (name: string) => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(rollup)?.[1] ?? 0) / 1024;
    const privateMb = mbOf('Private_Clean') + mbOf('Private_Dirty');
    return [{ command: commandOf(pid), rssMb: mbOf('Rss'), pssMb: mbOf('Pss'), privateMb }];
  });
}

function commandOf(pid: number): string {
  const [program = '', ...args] = (readProc(`${pid}/cmdline`) ?? '').split('\0');
  const file = args.find((arg) => /\.[cm]?[jt]s$/.test(arg));
  return [program, file]
    .map((path) => path?.split('/').at(-1) ?? '')
    .join(' ')
    .trim();
}

function treeOf(rootPid: number): number[] {
  const childrenOf = new Map<number, number[]>();
  for (const name of process.platform === 'linux' ? readdirSync('/proc') : []) {
    const stat = /^\d+$/.test(name) ? readProc(`${name}/stat`) : undefined;
    if (stat === undefined) continue;
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    childrenOf.set(parent, [...(childrenOf.get(parent) ?? []), Number(name)]);
  }
  const tree = [rootPid];
  for (const pid of tree) tree.push(...(childrenOf.get(pid) ?? []));
  return tree;
}

function readProc(path: string): string | undefined {
  try {
    return readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    // It ended between the listing and the look.
    return undefined;
  }
}
