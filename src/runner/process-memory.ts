import { readdirSync, readFileSync } from 'node:fs';

const pageBytes = 4096;

// These files are read as UTF-8, for which Node needs no buffer. With other encodings each read makes one of 64 KB, and the service looks at fifty
// processes ten times a second: V8 then collected its whole heap every 0.7 s, with pauses of 20 to 60 ms while the cores were busy.

/** Resident and private memory in bytes, or undefined where there is no /proc or no such process. */
export function processMemory(pid: number): { residentBytes: number; privateBytes: number } | undefined {
  try {
    const [, resident, shared] = readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ').map(Number);
    if (resident === undefined || shared === undefined) return undefined;
    return { residentBytes: resident * pageBytes, privateBytes: (resident - shared) * pageBytes };
  } catch {
    return undefined;
  }
}

/** Linux counts in hundredths of a second here, independent of the kernel's build. */
const msPerTick = 10;

/** Processor time that a process has used, in ms; undefined where there is no /proc or no such process. */
export function processCpuMs(pid: number): number | undefined {
  const fields = statFields(pid);
  return fields === undefined ? undefined : ticksIn(fields, 11, 12) * msPerTick;
}

/** Processor time of a process, as `processCpuMs` returns it, and whether its main thread runs or waits for a core now. */
export function processActivity(pid: number): { cpuMs: number; wantsCpu: boolean } | undefined {
  const fields = statFields(pid);
  return fields && { cpuMs: ticksIn(fields, 11, 12) * msPerTick, wantsCpu: fields[0] === 'R' };
}

/** True when the process runs or waits for a core now. */
export function wantsCpu(pid: number): boolean {
  return statFields(pid)?.[0] === 'R';
}

/** Processor time of a process, as `processCpuMs` returns it, with all its descendants, including those that have ended. */
export function processTreeCpuMs(pid: number): number | undefined {
  const fields = statFields(pid);
  if (fields === undefined) return undefined;
  let ms = ticksIn(fields, 11, 12, 13, 14) * msPerTick;
  for (const child of childrenOf(pid)) ms += processTreeCpuMs(child) ?? 0;
  return ms;
}

/** Resident memory in bytes of a process with all its descendants; undefined where there is no /proc or no such process. */
export function processTreeMemory(pid: number): number | undefined {
  const own = processMemory(pid);
  if (own === undefined) return undefined;
  let bytes = own.residentBytes;
  for (const child of childrenOf(pid)) bytes += processTreeMemory(child) ?? 0;
  return bytes;
}

/** The fields of /proc/PID/stat after the name. */
function statFields(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may hold spaces and parentheses.
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

function ticksIn(fields: readonly string[], ...indexes: number[]): number {
  return indexes.reduce((sum, index) => sum + Number(fields[index]), 0);
}

export function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [];
  }
}

/** Each thread has a list of the children that it started. */
export function childrenOf(pid: number): number[] {
  try {
    return threadsOf(pid).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    );
  } catch {
    return [];
  }
}
