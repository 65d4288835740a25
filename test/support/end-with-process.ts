import type { ChildProcess } from 'node:child_process';

/** A child that a failed test left running does not outlive this process. */
export function endWithProcess(child: ChildProcess): void {
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  child.once('exit', () => process.off('exit', kill));
}
