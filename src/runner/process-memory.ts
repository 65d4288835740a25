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
