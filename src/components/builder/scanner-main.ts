import { createWriteStream } from 'node:fs';
import { stop } from 'esbuild';
import type { PackageFile, ScanOutput, ScanRequest } from './build-messages.ts';
import { readMessages, writeMessage } from './message-lines.ts';
import { readHead } from './read-head.ts';

/**
 * The scanner process: reads what components say of themselves, one request at a time, and ends when its stdin does. No
 * network, no files, nothing is evaluated.
 */
type Reading = ScanOutput['readings'][number];

/** Texts of 2 MB take a second or two. */
const fileDeadlineMs = 20_000;
const lateProblem = `it takes longer than ${fileDeadlineMs / 1000} seconds to read`;

const output = createWriteStream('', { fd: 3 });

readMessages<ScanRequest>(process.stdin, (request) => void answer(request));
process.stdin.on('close', () => {
  output.end();
  void stop();
});

async function answer({ files }: ScanRequest): Promise<void> {
  const readings: ScanOutput['readings'] = await Promise.all(files.map(readInTime));
  const isSpent = readings.some((reading) => endedEsbuild(reading) || reading.problem === lateProblem);
  for (const [index, reading] of readings.entries()) {
    const file = files[index];
    if (file === undefined || !endedEsbuild(reading)) continue;
    // esbuild ends by some texts, and takes the others that it was reading along: each is read once more, alone. It only
    // starts again after it was stopped.
    await stop();
    const again = await readInTime(file);
    readings[index] = endedEsbuild(again) ? { head: null, problem: 'it is nested too deeply' } : again;
  }
  writeMessage(output, { readings, isSpent } satisfies ScanOutput);
}

/** So that one text does not use up the time of a whole package. */
async function readInTime(file: PackageFile): Promise<Reading> {
  const { promise, resolve } = Promise.withResolvers<Reading>();
  const timer = setTimeout(() => resolve({ head: null, problem: lateProblem }), fileDeadlineMs);
  try {
    return await Promise.race([readHead(file), promise]);
  } finally {
    clearTimeout(timer);
  }
}

function endedEsbuild({ problem = '' }: Reading): boolean {
  return /^The service (?:was stopped|is no longer running)/.test(problem);
}
