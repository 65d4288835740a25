import { appendFileSync } from 'node:fs';
import { constants } from 'node:os';
import { after } from 'node:test';
import { cpuSecondsSoFar } from './cpu-time.ts';

/**
 * Loaded into every test file by `npm test` (`--import`). When the file's process ends, it appends `[file, CPU seconds]` as one line
 * of JSON to the file that `MILLRACE_TEST_CPU_TIMES` names. It ends the process on a signal to stop, and when something that a
 * test left (a service that was not stopped, after a failure) would keep it from ending. Listeners of `exit` then end what it started.
 */
const target = process.env.MILLRACE_TEST_CPU_TIMES;
// Child processes of the test are counted with it, not by themselves.
delete process.env.MILLRACE_TEST_CPU_TIMES;

/** From the last test of the file until its process has ended by itself. Hooks of the file are called in it, which end services. */
const endPatienceMs = 90_000;

if (target !== undefined) {
  process.on('exit', () => {
    const seconds = cpuSecondsSoFar();
    if (seconds !== undefined) appendFileSync(target, `${JSON.stringify([process.argv[1], seconds])}\n`);
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => process.exit(128 + constants.signals[signal]));
  after(() => {
    setTimeout(() => {
      const left = process.getActiveResourcesInfo().filter((name) => name !== 'Timeout');
      console.error(`The tests are over, but the process of this file does not end: ${left.join(', ')}`);
      process.exit(1);
    }, endPatienceMs).unref();
  });
}
