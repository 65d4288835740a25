import { readFileSync } from 'node:fs';

/** The niceness of the session of a process; undefined where the kernel does not share the cores by session. */
export function sessionNicenessOf(pid: number): number | undefined {
  try {
    if (readFileSync('/proc/sys/kernel/sched_autogroup_enabled', 'latin1').trim() !== '1') return undefined;
    const niceness = / nice (-?\d+)/.exec(readFileSync(`/proc/${pid}/autogroup`, 'latin1'))?.[1];
    return niceness === undefined ? undefined : Number(niceness);
  } catch {
    return undefined;
  }
}
