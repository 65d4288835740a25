import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundlePrograms } from './support/bundle-programs.ts';
import { mariadbSkip } from './support/mariadb-server.ts';
import { type PostgresServer, PostgresUnavailableError, startPostgres } from './support/postgres-server.ts';

/**
 * `npm test`: starts one real PostgreSQL, runs node's test runner against it, and ends the server again, whatever
 * happened in between. Arguments go to the runner: `npm test -- src/storage/*.test.ts --test-name-pattern=lease`.
 *
 * - `MILLRACE_TEST_DATABASE_URL` set: that server is used and none is started.
 * - `MILLRACE_TEST_PROGRAMS=` (empty): services under test start from their sources, as `npm start` does, not from what is
 *   bundled of these for the run (bundle-programs.ts). One story always starts from the sources: nobody-reads-the-log.
 * - `MILLRACE_TEST_REQUIRE_POSTGRES=1`: tests that cannot run without PostgreSQL fail the run instead of being skipped.
 * - `MILLRACE_TEST_REQUIRE_MARIADB=1`: likewise, where there is no MariaDB on this machine.
 */
const allTests = [
  'src/**/*.test.ts',
  'cli/**/*.test.ts',
  'test/**/*.test.ts',
  'components/**/*.test.ts',
  'bench/**/*.test.ts',
  'sdk/src/**/*.test.ts',
];

/**
 * One more than the cores of the smallest machine we support: much of a run waits for leases and grace periods. More only
 * makes what is sensitive to timing noisier.
 */
const filesAtATime = 3;

/** A test that hangs must not hold the run for ever; the longest fault test stays well below. */
const testTimeoutMs = 180_000;

const root = fileURLToPath(new URL('..', import.meta.url));

const stopSignal = Promise.withResolvers<NodeJS.Signals>();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => stopSignal.resolve(signal));

const environment: NodeJS.ProcessEnv = {
  ...process.env,
  // Every test file and every service under test loads the same code: compiled once, that is a third of their start.
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(root, 'node_modules', '.cache', 'compiled'),
};
environment.MILLRACE_TEST_PROGRAMS ??= await bundlePrograms();
let server: PostgresServer | undefined;
const notices: string[] = [];
let isRequirementMet = true;
if (!environment.MILLRACE_TEST_DATABASE_URL) {
  try {
    server = await startPostgres();
    environment.MILLRACE_TEST_DATABASE_URL = server.url;
  } catch (error) {
    if (!(error instanceof PostgresUnavailableError)) throw error;
    notices.push(`PostgreSQL cannot run here, its tests are skipped: ${error.message}`);
    isRequirementMet &&= environment.MILLRACE_TEST_REQUIRE_POSTGRES !== '1';
    environment.MILLRACE_TEST_POSTGRES_UNAVAILABLE = error.message;
  }
}

const noMariadb = mariadbSkip();
if (noMariadb !== false) {
  notices.push(`The tests of MariaDB are skipped: ${noMariadb}`);
  isRequirementMet &&= environment.MILLRACE_TEST_REQUIRE_MARIADB !== '1';
}

let exitCode: number;
if (!isRequirementMet) {
  exitCode = 1;
  await server?.stop();
} else {
  try {
    exitCode = await runNodeTests(process.argv.slice(2));
  } finally {
    await server?.stop();
  }
}
// The runner's own summary stays the last thing printed, but for the lines nobody should miss.
for (const notice of notices) console.error(notice);
process.exitCode = exitCode;

async function runNodeTests(extraArguments: string[]): Promise<number> {
  const files = extraArguments.some((argument) => !argument.startsWith('-')) ? [] : allTests;
  const runner = spawn(
    process.execPath,
    [
      '--test',
      `--test-concurrency=${filesAtATime}`,
      `--test-timeout=${testTimeoutMs}`,
      '--test-reporter=spec',
      ...extraArguments,
      ...files,
    ],
    { cwd: root, env: environment, stdio: 'inherit' },
  );
  const ended = new Promise<number>((resolve, reject) => {
    runner.on('error', reject);
    runner.on('exit', (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  });
  void stopSignal.promise.then(() => runner.kill('SIGTERM'));
  return await Promise.race([
    ended,
    stopSignal.promise.then((signal) => ended.then(() => 128 + constants.signals[signal])),
  ]);
}
