import { appendFileSync } from 'node:fs';
import { cpuSecondsSoFar } from './cpu-time.ts';

/**
 * Loaded into every test file by `npm test` (`--import`): when the file's process ends, it appends `[file, CPU seconds]` as one
 * line of JSON to the file that `MILLRACE_TEST_CPU_TIMES` names.
 */
const target = process.env.MILLRACE_TEST_CPU_TIMES;
// Child processes of the test are counted with it, not by themselves.
delete process.env.MILLRACE_TEST_CPU_TIMES;
if (target !== undefined) {
  process.on('exit', () => {
    const seconds = cpuSecondsSoFar();
    if (seconds !== undefined) appendFileSync(target, `${JSON.stringify([process.argv[1], seconds])}\n`);
  });
}
