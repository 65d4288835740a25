import type { Command } from 'commander';
import { type GetSessionOptions, plain } from './command-kit.ts';
import { CliError } from './exit-codes.ts';
import { launcher } from './installed-programs.ts';

/** `millrace start`, where the launcher has not started the service by itself: `npm run millrace -- start`. */
export function startCommand(program: Command, sessionOptions: GetSessionOptions): void {
  plain(
    program,
    'start',
    'start the service, in this terminal until Ctrl-C; of an installed package also `millrace` alone',
  ).action(() => {
    if (process.execve === undefined) throw new CliError('failed', 'expected Linux or macOS');
    // The service takes the place of this process: signals and the exit code are its own.
    process.execve('/bin/sh', ['sh', launcher, 'start'], sessionOptions().environment);
  });
}
