import { readFileSync } from 'node:fs';

const pageBytes = 4096;

/** Resident and private memory in bytes, or undefined where there is no /proc or no such process. */
export function processMemory(pid: number): { residentBytes: number; privateBytes: number } | undefined {
  try {
    const [, resident, shared] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ').map(Number);
    if (resident === undefined || shared === undefined) return undefined;
    return { residentBytes: resident * pageBytes, privateBytes: (resident - shared) * pageBytes };
  } catch {
    return undefined;
  }
}

/** Linux counts in hundredths of a second here, whatever the kernel was built with. */
const msPerTick = 10;

/** Processor time that a process has used, in ms; undefined where there is no /proc or no such process. */
export function processCpuMs(pid: number): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name in parentheses may hold spaces and parentheses.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * msPerTick;
  } catch {
    return undefined;
  }
}
