import { createWriteStream } from 'node:fs';
import { stop } from 'esbuild';
import type { ScanOutput, ScanRequest } from './build-messages.ts';
import { readMessages, writeMessage } from './message-lines.ts';
import { readHead } from './read-head.ts';

/** The scanner process: reads what components say of themselves. No network, no files, nothing is evaluated. */
const output = createWriteStream('', { fd: 3 });

readMessages<ScanRequest>(process.stdin, (request) => void answer(request));
process.stdin.on('close', () => {
  output.end();
  void stop();
});

async function answer({ files }: ScanRequest): Promise<void> {
  const readings: ScanOutput['readings'] = await Promise.all(files.map(readHead));
  writeMessage(output, { readings } satisfies ScanOutput);
}
