import { readFileSync } from 'node:fs';

/** Clock ticks per second in /proc; 100 on every Linux that Node supports. */
const ticksPerSecond = 100;

/**
 * CPU seconds (user and system) of this process, and of all its descendants that have ended and were waited for.
 * Undefined where there is no /proc.
 */
export function cpuSecondsSoFar(): number | undefined {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    // The name of the program, in parentheses, may contain spaces. utime is field 14, cstime field 17.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    return ticks / ticksPerSecond;
  } catch {
    return undefined;
  }
}

/** CPU milliseconds of this process while `work` was done: a bound of them also holds on a busy machine, which one of wall time does not. */
export async function cpuMsOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
