import { getuid } from 'node:process';
import { makeAttackTargets } from './attack-targets.ts';
import { findKernelPrograms, insidePaths } from './bubblewrap-command.ts';
import { type PoolOptions, ProcessPool } from './process-pool.ts';
import type { ProbeRequest } from './protocol.ts';
import { findExecutable, othersCanReach } from './runner-folders.ts';
import type { Confinement } from './sandbox-grant.ts';
import { SelfTestResults, selfTestKey } from './self-test-results.ts';

/** True when the service is root and other users can reach the node binary. */
export function mayUseDistinctUsers(): boolean {
  return getuid?.() === 0 && othersCanReach(process.execPath);
}

interface TestOptions extends Omit<PoolOptions, 'confinement' | 'endIdle'> {
  level: 'auto' | 'require' | 'seat-belt' | 'off';
  distinctUsers: boolean;
  /** File with the stored results of earlier self-tests. */
  resultsFile: string;
  /** For tests of walls that let an attack through. */
  findPrograms?: typeof findKernelPrograms;
}

/**
 * Finds the strongest confinement under which a process starts here, and proves in it that forbidden calls fail. Only trying proves it;
 * looking for programs or versions does not. Throws when the proof fails.
 */
export async function findConfinement(options: TestOptions): Promise<Confinement> {
  const { level, logger } = options;
  let notKernel: string | undefined;
  if (level === 'auto' || level === 'require') {
    const found = await kernelConfinement(options);
    if (typeof found !== 'string') {
      logger.debug({ level: found.level }, 'runner.confinement-set');
      return found;
    }
    notKernel = found;
    if (level === 'require') throw new KernelLevelMissingError(found);
    // The start reports the active level and the reason to the operator. A machine without bubblewrap is no fault.
    logger.debug({ reason: found }, 'runner.confinement-refused');
  }
  const confinement = await nodeConfinement(options);
  logger.debug({ level: confinement.level }, 'runner.confinement-set');
  return notKernel === undefined ? confinement : { ...confinement, notKernel };
}

/** The operator requires the kernel level, and it does not work on this machine. */
class KernelLevelMissingError extends Error {
  override name = 'SandboxError';
  constructor(reason: string) {
    super(
      `MILLRACE_SANDBOX is "require", and the kernel level of the sandbox does not work here: ${reason}. Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap) and allow user namespaces, or set MILLRACE_SANDBOX to "auto" or "seat-belt"`,
    );
  }
}

/** Tries the kernel level. A text instead is the reason why it does not work. */
async function kernelConfinement(options: TestOptions): Promise<Confinement | string> {
  const { distinctUsers, folders } = options;
  // As root, code inside could write to files of root in /proc/sys.
  if (getuid?.() === 0 && !distinctUsers)
    return `the service is root, and other users cannot reach ${process.execPath}: install Node where they can, or start the service as a user of its own`;
  const { findPrograms = findKernelPrograms } = options;
  const kernel = findPrograms(folders.program);
  if (typeof kernel === 'string') return kernel;
  const confinement: Confinement = {
    ...{ level: 'kernel', distinctUsers, setpriv: undefined, prlimit: undefined },
    kernel,
  };
  const results = new SelfTestResults(options.resultsFile);
  const key = selfTestKey(confinement, options.program);
  // One process has the walls that user code has. The other has no permission model, so that the walls are proved alone.
  const [usual, bare] = await Promise.all([
    startProbe(options, confinement),
    results.has(key)
      ? undefined
      : startAttacks(options, confinement, { program: insidePaths.program, bare: true }),
  ]);
  const failed = [usual, bare].find((started) => started?.ready === false);
  if (failed?.ready === false)
    return `no process could be started in namespaces of its own: ${failed.reason}`;
  try {
    if (usual.ready) checkReport(usual.report);
    if (bare?.ready === true) {
      checkAttacks(bare.report);
      results.add(key);
    }
    return confinement;
  } catch (error) {
    return (error as Error).message;
  }
}

async function nodeConfinement(options: TestOptions): Promise<Confinement> {
  const { distinctUsers } = options;
  const level = options.level === 'off' ? 'off' : 'seat-belt';
  const [setpriv, prlimit] =
    level === 'off' ? [] : ['setpriv', 'prlimit'].map((name) => findExecutable(name));
  const candidates: Confinement[] = [distinctUsers, false].flatMap((own) => [
    { level, distinctUsers: own, setpriv, prlimit },
    { level, distinctUsers: own, setpriv, prlimit: undefined },
    { level, distinctUsers: own, setpriv: undefined, prlimit: undefined },
  ]);
  const results = new SelfTestResults(options.resultsFile);
  let reason = '';
  for (const confinement of candidates) {
    const key = selfTestKey(confinement, options.program);
    const isProved = level === 'off' || results.has(key);
    const started = await (isProved
      ? startProbe(options, confinement)
      : startAttacks(options, confinement, { program: options.program }));
    if (!started.ready) {
      reason = started.reason;
      options.logger.warn({ confinement, reason }, 'runner.confinement-refused');
      continue;
    }
    if (level !== 'off') checkReport(started.report);
    if (!isProved) {
      checkAttacks(started.report);
      results.add(key);
    }
    return confinement;
  }
  throw new Error(`no sandboxed process could be started: ${reason}`);
}

type Started = { ready: true; report: unknown } | { ready: false; reason: string };

/** Starts a process that tries the attacks. `bare`: without Node's permission model. */
async function startAttacks(
  options: TestOptions,
  confinement: Confinement,
  { program, ...rest }: { program: string; bare?: true },
): Promise<Started> {
  await using targets = await makeAttackTargets(options.folders.program);
  const { servicePid, serviceStart, canary, secret, port } = targets;
  return await startProbe(options, confinement, {
    ...rest,
    attacks: { servicePid, serviceStart, canary, secret, port, program },
  });
}

async function startProbe(
  options: TestOptions,
  confinement: Confinement,
  extra: Pick<ProbeRequest, 'attacks' | 'bare'> = {},
): Promise<Started> {
  const pool = new ProcessPool({ ...options, confinement, endIdle: () => undefined });
  try {
    const process = await pool.startProcess({ probe: { hostFile: import.meta.filename, ...extra } });
    if (process instanceof Error) return { ready: false, reason: process.message };
    const said = await process.ready;
    if (said !== undefined) return { ready: true, report: said.report };
    return { ready: false, reason: process.stderrTail.trim().slice(-500) || 'it ended without output' };
  } finally {
    await pool.close();
  }
}

function checkAttacks(report: unknown): void {
  const { attacks } = report as { attacks?: { tried: number; through: string[] } };
  if (attacks === undefined || attacks.tried === 0) throw new Error('the ways out were not tried');
  if (attacks.through.length > 0) throw new Error(`the sandbox does not hold: ${attacks.through.join(', ')}`);
}

function checkReport(report: unknown): void {
  const { readFile, listFolder, connect, environment, ...engine } = (report ?? {}) as Record<string, unknown>;
  const { changeFolder, setFlags, signalService } = engine;
  const found = JSON.stringify(report);
  // A path that does not exist proves no refusal.
  const areRefused = [readFile, listFolder].every(
    (code) => code === 'ERR_ACCESS_DENIED' || code === 'ENOENT',
  );
  for (const code of [connect, changeFolder, setFlags, signalService]) {
    if (!areRefused || code !== 'ERR_ACCESS_DENIED') {
      throw new Error(
        `the sandbox does not hold: a forbidden file read, connection or call did not fail with ERR_ACCESS_DENIED (${found}). Node 26 or newer is needed`,
      );
    }
  }
  if (!Array.isArray(environment) || environment.some((name) => name !== 'TZ')) {
    throw new Error(`the sandbox does not hold: its environment is not empty (${found})`);
  }
}
