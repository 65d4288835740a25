/**
 * What an instance holds while nothing is deployed: each process with its memory, and the time until it is ready. `PSS`: memory that
 * processes share counts once in all of them together.
 *
 * With `--program`, of an installed package instead of the clone; with `--cache`, with a folder of compiled code, as `npm start` and `millrace
 * start` have it.
 *
 * Run: npm run bench -- idle [--seconds 20] [--sandbox auto] [--starts 3] [--program FOLDER/lib/main.mjs] [--cache FOLDER]
 */
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type ProcessUsage, processesOf } from './support/process-tree.ts';
import { startService } from './support/service.ts';

const { values: options } = parseArgs({
  options: {
    /** From ready to the measurement. */
    seconds: { type: 'string', default: '20' },
    sandbox: { type: 'string', default: 'auto' },
    program: { type: 'string' },
    cache: { type: 'string' },
    /** Starts whose time is measured; the memory is that of the last one. */
    starts: { type: 'string', default: '3' },
  },
});

const readyMs: number[] = [];
let processes: ProcessUsage[] = [];
for (let left = Number(options.starts); left > 0; left -= 1) {
  const service = await startService(
    {
      MILLRACE_SANDBOX: options.sandbox,
      ...(options.cache === undefined ? {} : { NODE_COMPILE_CACHE: options.cache }),
    },
    options.program === undefined ? {} : { program: options.program },
  );
  try {
    readyMs.push(Math.round(service.readyMs));
    if (left > 1) continue;
    await delay(Number(options.seconds) * 1000);
    processes = processesOf(service.pid);
  } finally {
    await service.stop();
  }
}
const sumOf = (field: 'pssMb' | 'privateMb' | 'rssMb') => processes.reduce((sum, one) => sum + one[field], 0);
const rowOf = (process: string, { pssMb, privateMb, rssMb }: Omit<ProcessUsage, 'command'>) => ({
  process,
  'PSS MB': pssMb.toFixed(1),
  'private MB': privateMb.toFixed(1),
  'RSS MB': rssMb.toFixed(1),
});
console.table([
  ...processes.map((one) => rowOf(one.command, one)),
  rowOf('all', { pssMb: sumOf('pssMb'), privateMb: sumOf('privateMb'), rssMb: sumOf('rssMb') }),
]);
console.log(`ready after ${readyMs.join(', ')} ms`);
