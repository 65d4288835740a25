import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { endWithProcess } from '../../test/support/end-with-process.ts';

const configuration = join(import.meta.dirname, '..', '..', 'ops', 'compose', 'haproxy.cfg');

/**
 * A real HAProxy with the settings of ops/compose, on the loopback, in front of these ports; or, with `hosts`, of the port that belongs to the
 * host name of a request.
 */
export async function startHaproxy(options: {
  folder: string;
  port: number;
  nodes: readonly number[];
  hosts?: Readonly<Record<string, number>>;
}): Promise<{ stop(): Promise<void> }> {
  const hosts = Object.entries(options.hosts ?? {});
  const configured = (await readFile(configuration, 'utf8')).replace(
    'bind :8080',
    `bind 127.0.0.1:${options.port}`,
  );
  const text =
    hosts.length === 0
      ? withNodes(configured, options.nodes)
      : goingByHost(configured, Object.fromEntries(hosts));
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

function withNodes(text: string, ports: readonly number[]): string {
  return text.replaceAll(/(?:^ {2}server .*\n)+/gm, (servers) =>
    ports
      .map((port, index) => {
        const track = / track /.test(servers) ? ` track nodes/node${index}` : '';
        return `  server node${index} 127.0.0.1:${port}${track}\n`;
      })
      .join(''),
  );
}

/** The backend `nodes` once for each host name. */
function goingByHost(text: string, hosts: Readonly<Record<string, number>>): string {
  const [front = ''] = text.split(/(?=^ {2}use_backend )/m);
  const [, nodes = ''] = text.split(/^backend nodes\n/m);
  const each = (make: (host: string, port: number, index: number) => string) =>
    Object.entries(hosts)
      .map(([host, port], index) => make(host, port, index))
      .join('');
  return `${front}${each((host, _, index) => `  use_backend nodes${index} if { req.hdr(host),field(1,:) -i ${host} }\n`)}
${each((_, port, index) => `backend nodes${index}\n${nodes.replace(/(?:^ {2}server .*\n)+/m, `  server node 127.0.0.1:${port}\n`)}\n`)}`;
}
