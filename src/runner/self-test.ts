import { getuid } from 'node:process';
import type { Confinement } from './confinement.ts';
import { type PoolOptions, ProcessPool } from './process-pool.ts';
import { findExecutable, othersCanReach } from './sandbox-folders.ts';

/** Whether the service is root and other users can reach the node binary. */
export function mayUseDistinctUsers(): boolean {
  return getuid?.() === 0 && othersCanReach(process.execPath);
}

/**
 * Finds the strongest confinement under which a process starts here, and proves in it that what must be forbidden
 * fails. Looking for programs or versions proves nothing; only trying does. Throws when the proof fails.
 */
export async function findConfinement(
  options: Omit<PoolOptions, 'confinement' | 'makeRoom'> & { level: 'auto' | 'off'; distinctUsers: boolean },
): Promise<Confinement> {
  const level = options.level === 'off' ? 'off' : 'seat-belt';
  const setpriv = level === 'off' ? undefined : findExecutable('setpriv');
  const candidates: Confinement[] = [
    { level, distinctUsers: options.distinctUsers, setpriv },
    { level, distinctUsers: options.distinctUsers, setpriv: undefined },
    { level, distinctUsers: false, setpriv },
    { level, distinctUsers: false, setpriv: undefined },
  ];
  let reason = '';
  for (const confinement of candidates) {
    const pool = new ProcessPool({ ...options, confinement, makeRoom: () => false });
    try {
      const process = pool.startProcess({ probe: true });
      if (process instanceof Error) {
        reason = process.message;
        options.logger.warn({ confinement, reason }, 'runner.confinement_not_available');
        continue;
      }
      const said = await process.ready;
      if (said === undefined) {
        reason = process.stderrTail.trim().slice(-500);
        options.logger.warn({ confinement, reason }, 'runner.confinement_not_available');
        continue;
      }
      if (level !== 'off') checkReport(said.report);
      options.logger.debug({ confinement }, 'runner.confinement');
      return confinement;
    } finally {
      await pool.close();
    }
  }
  throw new Error(`no sandboxed process could be started: ${reason}`);
}

function checkReport(report: unknown): void {
  const { readFile, listFolder, connect, environment, ...engine } = (report ?? {}) as Record<string, unknown>;
  const { changeFolder, setFlags, signalService } = engine;
  const found = JSON.stringify(report);
  for (const code of [readFile, listFolder, connect, changeFolder, setFlags, signalService]) {
    if (code !== 'ERR_ACCESS_DENIED') {
      throw new Error(
        `the sandbox does not hold: a forbidden file read, connection or call did not fail with ERR_ACCESS_DENIED (${found}). Node 26 or newer is needed`,
      );
    }
  }
  if (!Array.isArray(environment) || environment.some((name) => name !== 'TZ')) {
    throw new Error(`the sandbox does not hold: its environment is not empty (${found})`);
  }
}
