import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { bundlePrograms } from './support/bundle-programs.ts';
import { chromiumSkip } from './support/chromium.ts';
import { cpuSecondsSoFar } from './support/cpu-time.ts';
import { keepReturnedDatabases } from './support/databases.ts';
import { mariadbSkip } from './support/mariadb-server.ts';
import { PostgresUnavailableError, startPostgres } from './support/postgres-server.ts';
import { kernelSkip } from './support/sandbox-level.ts';
import { startSharedServices } from './support/shared-services.ts';
import { slowestFirst } from './support/slowest-first.ts';
import { turnVariable } from './support/story-stores.ts';
import { createRunFolder } from './support/temp-folder.ts';
import { TestReport } from './support/test-report.ts';

/**
 * `npm test`: starts what test files share (one PostgreSQL, one service per store), runs the files with Node's test runner, the
 * slowest first, prints what test-report.ts says, and ends everything again, whatever happened in between.
 *
 * Arguments: test files, and `--test-name-pattern=<regular expression>` any number of times. When files are named, each suite starts
 * a service for itself; with `--share`, the files use one service per store, as in a run of all.
 * Example: `npm test -- src/storage/*.test.ts --test-name-pattern=lease`.
 *
 * In a run of all files, stories about the API run on one store each, in turns that change with the commit (story-stores.ts);
 * `--every-store` (`npm run test:all`) runs them on both, and MILLRACE_TEST_TURN (0 or 1) repeats a turn.
 *
 * - `MILLRACE_TEST_DATABASE_URL` set: that server is used and none is started.
 * - `MILLRACE_TEST_PROGRAMS=` (empty): services and command lines under test start from their sources, as those of a clone do, not from what
 *   is bundled of these for the run (bundle-programs.ts). Some always start from the sources: the-log-has-no-reader, and README.md in
 *   manual-examples-run.
 * - `MILLRACE_TEST_REQUIRE_POSTGRES=1`, `_MARIADB=1`, `_CHROMIUM=1`, `_BUBBLEWRAP=1`: where the program is missing, the run fails instead of skipping
 *   its tests; with `_PROMTOOL=1`, `_PGBOUNCER=1` and `_HELM=1` these tests run and fail.
 */
const allTests = [
  'src/**/*.test.ts',
  'cli/**/*.test.ts',
  'test/**/*.test.ts',
  'components/**/*.test.ts',
  'bench/**/*.test.ts',
  'sdk/src/**/*.test.ts',
];

/** More than the cores of the smallest machine we support: much of a run waits for leases and grace periods. */
const filesAtATime = 4;

/** A test that hangs must not hold the run for ever; the longest fault test stays well below. */
const testTimeoutMs = 180_000;

const root = fileURLToPath(new URL('..', import.meta.url));
const started = performance.now();
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'test-name-pattern': { type: 'string', multiple: true, default: [] },
    'every-store': { type: 'boolean', default: false },
    share: { type: 'boolean', default: false },
  },
});
const files = globSync(positionals.length === 0 ? allTests : positionals, { cwd: root });

const stopped = new AbortController();
let stopSignal: NodeJS.Signals | undefined;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    stopSignal ??= signal;
    stopped.abort();
  });

/** Called in reverse order at the end. */
const cleanups: (() => Promise<unknown>)[] = [];
const notices: string[] = [];
const problems: string[] = [];
const report = new TestReport({ root, print: (line) => console.log(line) });

try {
  if (files.length === 0) problems.push(`no test file matches ${positionals.join(' ')}`);
  else await runFiles();
} finally {
  for (const clean of cleanups.reverse()) await clean().catch((error: unknown) => problems.push(`${error}`));
}
for (const line of report.summary({
  wallSeconds: (performance.now() - started) / 1000,
  cpuSeconds: cpuSecondsSoFar(),
  notices: [...notices, ...problems.map((problem) => `✖ ${problem}`)],
}))
  console.log(line);
// A test file that ends its browser first, on a signal to stop, is not waited for.
if (stopSignal !== undefined) process.exit(128 + constants.signals[stopSignal]);
process.exitCode = report.failed + problems.length > 0 ? 1 : 0;

async function runFiles(): Promise<void> {
  const folder = await createRunFolder();
  cleanups.push(async () => {
    const left = await readdir(folder.temporary);
    await folder.remove();
    // What tests that fail leave is no second failure.
    if (left.length > 0) notices.push(`Temporary files were left, and are removed now: ${left.join(', ')}`);
  });
  // The servers that are started here take their folders there too.
  process.env.TMPDIR = folder.temporary;
  // Every test file and every service under test loads the same code: compiled once, that is a third of their start.
  process.env.NODE_COMPILE_CACHE ??= join(root, 'node_modules', '.cache', 'compiled');
  process.env.MILLRACE_TEST_PROGRAMS ??= await bundlePrograms();
  await providePostgres();
  skipWithout('MariaDB', mariadbSkip(), process.env.MILLRACE_TEST_REQUIRE_MARIADB);
  skipWithout('Chromium', chromiumSkip(), process.env.MILLRACE_TEST_REQUIRE_CHROMIUM);
  skipWithout(
    'the kernel level of the sandbox',
    await kernelSkip(),
    process.env.MILLRACE_TEST_REQUIRE_BUBBLEWRAP,
  );
  if (problems.length > 0 || stopped.signal.aborted) return;
  if (positionals.length === 0 || values.share) {
    const hasPostgres = process.env.MILLRACE_TEST_POSTGRES_UNAVAILABLE === undefined;
    if (positionals.length === 0 && hasPostgres && !values['every-store']) {
      const turn = process.env[turnVariable] ?? turnOfCommit();
      process.env[turnVariable] = turn;
      notices.push(
        `Stories about the API ran on one store each: ${turnVariable}=${turn}; npm run test:all runs both`,
      );
    }
    const services = await startSharedServices(hasPostgres ? ['sqlite', 'postgres'] : ['sqlite']);
    cleanups.push(() => services.stop());
    Object.assign(process.env, services.environment);
  }
  const cpuTimes = join(folder.path, 'cpu-times');
  const events = run({
    files: slowestFirst(files).map((file) => join(root, file)),
    cwd: root,
    concurrency: filesAtATime,
    timeout: testTimeoutMs,
    signal: stopped.signal,
    testNamePatterns: values['test-name-pattern'],
    execArgv: ['--import', join(import.meta.dirname, 'support', 'test-file-process.ts')],
    env: { ...process.env, MILLRACE_TEST_CPU_TIMES: cpuTimes },
  });
  for await (const event of events) report.take(event);
  report.addCpuSeconds(readCpuTimes(cpuTimes));
}

/** Changes with the commit; 0 where there is no git. */
function turnOfCommit(): string {
  const { stdout, status } = spawnSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' });
  return status === 0 ? String(Number.parseInt(stdout.trim().slice(-1), 16) % 2) : '0';
}

async function providePostgres(): Promise<void> {
  const given = process.env.MILLRACE_TEST_DATABASE_URL;
  if (given) {
    cleanups.push(await keepReturnedDatabases(given));
    return;
  }
  try {
    const server = await startPostgres();
    cleanups.push(() => server.stop());
    process.env.MILLRACE_TEST_DATABASE_URL = server.url;
    await keepReturnedDatabases(server.url);
  } catch (error) {
    if (!(error instanceof PostgresUnavailableError)) throw error;
    process.env.MILLRACE_TEST_POSTGRES_UNAVAILABLE = error.message;
    skipWithout('PostgreSQL', error.message, process.env.MILLRACE_TEST_REQUIRE_POSTGRES);
  }
}

/** Says what is not tested here; a problem where it has to be. */
function skipWithout(program: string, reason: string | false, isRequired: string | undefined): void {
  if (reason === false) return;
  const text = `tests with ${program} are skipped: ${reason}`;
  (isRequired === '1' ? problems : notices).push(text);
}

/** The lines of test-file-process.ts, by path relative to the root. */
function readCpuTimes(file: string): Map<string, number> {
  const seconds = new Map<string, number>();
  for (const line of readFileSync(file, { encoding: 'utf8', flag: 'a+' }).split('\n')) {
    if (line === '') continue;
    const [path, value] = JSON.parse(line) as [string, number];
    seconds.set(path.slice(root.length), value);
  }
  return seconds;
}
