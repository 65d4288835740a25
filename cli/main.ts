import { exitCodes } from './exit-codes.ts';
import { installedVersion } from './installed-programs.ts';
import { runCli } from './run-cli.ts';
import { Terminal } from './terminal.ts';

/** `millrace …`, and `npm run millrace -- …`. Exit codes: exit-codes.ts. */

/** A second Ctrl-C within this time is npm passing on the first one. */
const sameSignalMs = 500;

const { env, stdin, stdout, stderr } = process;
const interruption = new AbortController();
let interruptedAt: number | undefined;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    const now = performance.now();
    if (interruptedAt !== undefined && now - interruptedAt > sameSignalMs)
      process.exit(exitCodes.interrupted.code);
    interruptedAt ??= now;
    interruption.abort();
  });
}
// The reader of our output has closed it: `millrace events … | head`.
for (const stream of [stdout, stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(exitCodes.ok.code);
  });
}

process.exitCode = await runCli(process.argv.slice(2), {
  terminal: new Terminal({ stdin, stdout, stderr }, env),
  environment: env,
  // npm changes to the project's folder, and keeps the original one in INIT_CWD.
  folder: (env.npm_lifecycle_event === 'millrace' ? env.INIT_CWD : undefined) ?? process.cwd(),
  interrupted: interruption.signal,
  version: installedVersion,
});
// Input that was read once keeps the process alive.
stdin.unref?.();
