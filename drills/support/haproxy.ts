import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { endWithProcess } from '../../test/support/end-with-process.ts';

const configuration = join(import.meta.dirname, '..', '..', 'ops', 'compose', 'haproxy.cfg');

/** A real HAProxy with the settings of ops/compose, on the loopback, in front of these ports. */
export async function startHaproxy(options: {
  folder: string;
  port: number;
  nodes: readonly number[];
}): Promise<{ stop(): Promise<void> }> {
  const text = (await readFile(configuration, 'utf8'))
    .replace('bind :8080', `bind 127.0.0.1:${options.port}`)
    .replaceAll(/^ {2}server .*\n/gm, '')
    .concat(options.nodes.map((port, index) => `  server node${index} 127.0.0.1:${port}\n`).join(''));
  const file = join(options.folder, 'haproxy.cfg');
  await writeFile(file, text);
  const child: ChildProcess = spawn('haproxy', ['-db', '-f', file], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  endWithProcess(child);
  return {
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}
