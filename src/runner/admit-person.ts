import { CallerError } from '#lib/errors.ts';
import type { RunnerStats } from './runner.ts';

/** The sandbox level that the operator set, and the one that the machine supports. */
export interface SandboxState {
  setting: 'auto' | 'require' | 'seat-belt' | 'off';
  stats: Pick<RunnerStats, 'level' | 'notKernel'>;
}

/**
 * Throws CallerError `sandbox_required` where a further person must not be admitted: without the kernel level, code of one person can reach
 * what belongs to another, and no operator has decided that they trust each other.
 */
export function admitPerson({ setting, stats: { level, notKernel } }: SandboxState): void {
  if (setting !== 'auto' || level === 'kernel') return;
  throw new CallerError(
    'sandbox_required',
    `the kernel level of the sandbox does not work here (${notKernel ?? 'unknown reason'}), and without it code of one person can reach what belongs to another: install bubblewrap and restart the service, or set MILLRACE_SANDBOX=seat-belt where all users who deploy code are trusted with everything`,
    { level },
  );
}
