/** What attacks aim at: files, ports and a process of this machine that code in a sandbox has no business with. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import {
  type AddressInfo,
  createServer as createSocketServer,
  type ListenOptions,
  type Server as SocketServer,
} from 'node:net';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { AddressPolicy } from '#egress/address-policy.ts';
import type { CallOutcome } from '#runner/call-outcome.ts';
import { type RunnerFixture, resultOf } from '../support/runner-fixture.ts';
import type { Attack, Ending, Surroundings } from './attack-table.ts';

/** An attack worked. */
export const worked = /CANARY|^done$/;

/** Where the redirecting server and the port of the service are: the policy of these tests allows this address. */
const allowedAddress = '127.0.0.2';
/** Addresses that lead nowhere in a test: the control leads them to the server that has the canary. */
const ledAddresses =
  '169.254.169.254 [fd00:ec2::254] 100.100.100.200 168.63.129.16 192.0.0.192 10.0.0.1 172.16.0.1 192.168.0.1 100.64.0.1 [fe80::1] [fc00::1] [64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe] [2002:7f00:1::] [::127.0.0.1] 224.0.0.1 255.255.255.255'.split(
    ' ',
  );

export class AttackSurroundings {
  readonly #connections: ReadonlyMap<number, number>;
  readonly #closers: (() => unknown)[] = [];
  readonly values: Omit<Surroundings, 'T'>;
  readonly #idle: ChildProcess;

  private constructor(
    values: Omit<Surroundings, 'T'>,
    idle: ChildProcess,
    closers: (() => unknown)[],
    connections: ReadonlyMap<number, number>,
  ) {
    this.#connections = connections;
    this.values = values;
    this.#idle = idle;
    this.#closers = closers;
  }

  /** How many connections one of the servers has got. */
  connections(server: 'web' | 'redirect' | 'denied'): number {
    return this.#connections.get(this.values.P[server]) ?? 0;
  }

  static async make(): Promise<AttackSurroundings> {
    const closers: (() => unknown)[] = [];
    const connections = new Map<number, number>();
    // Not below /tmp, which is another folder where code runs.
    const folder = await mkdtemp('/var/tmp/millrace-canary-');
    closers.push(() => rm(folder, { recursive: true, force: true }));
    await chmod(folder, 0o777);
    for (const [name, text] of [
      ['canary.txt', 'CANARY'],
      ['canary.mjs', 'export const text = "CANARY";'],
      ['canary.cjs', 'console.log("CANARY")'],
      ['canary.json', '{"text":"CANARY"}'],
      ['canary.env', 'CANARY_VALUE=CANARY'],
      ['package.json', '{}'],
      ['cert.pem', rootCertificates[0] ?? ''],
    ] as const) {
      await writeFile(join(folder, name), text);
      // Nothing but the wall keeps the code from it.
      await chmod(join(folder, name), 0o666);
    }
    const listen = async (listener: RequestListener, where: ListenOptions): Promise<number> => {
      const server = createServer(listener).on('upgrade', ({ headers }, socket) => {
        const key = `${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
        const accept = createHash('sha1').update(key).digest('base64');
        socket.end(
          `HTTP/1.1 101 CANARY\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
        );
      });
      const port = await listening(server, where, closers);
      server.on('connection', () => connections.set(port, (connections.get(port) ?? 0) + 1));
      return port;
    };
    const sayCanary: RequestListener = (request, response) => {
      request.resume();
      response.end('CANARY');
    };
    const sockets = await mkdtemp('/var/tmp/millrace-sockets-');
    closers.push(() => rm(sockets, { recursive: true, force: true }));
    await chmod(sockets, 0o755);
    const unix = join(sockets, 'socket');
    const abstract = `\0millrace-canary-${process.pid}`;
    const web = await listen(sayCanary, { port: 0, host: '0.0.0.0' });
    // Not every machine has IPv6.
    const web6 = await listen(sayCanary, { port: 0, host: '::' }).catch(() => 0);
    const http2 = createHttp2Server((_request, response) => response.end('CANARY'));
    const web2 = await listening(http2, { port: 0, host: '127.0.0.1' }, closers);
    const denied = await listen(sayCanary, { port: 0, host: allowedAddress });
    const redirect = await listen(
      (request, response) => {
        request.resume();
        response.writeHead(302, { location: `http:/${request.url}:${web}/` }).end();
      },
      { port: 0, host: allowedAddress },
    );
    await listen(sayCanary, { path: `${unix}.http` });
    for (const path of [unix, abstract]) {
      const server = createSocketServer((socket) => socket.on('error', () => {}).end('CANARY'));
      await listening(server, { path }, closers);
    }
    for (const path of [unix, `${unix}.http`]) await chmod(path, 0o777);
    const datagrams = createSocket('udp4', (_message, from) =>
      datagrams.send('CANARY', from.port, from.address),
    );
    datagrams.bind(0, '127.0.0.1');
    await once(datagrams, 'listening');
    closers.push(() => datagrams.close());
    const udp = datagrams.address().port;
    // Stands for the service where an attack would harm it.
    const idle = spawn(process.execPath, ['-e', 'process.on("SIGUSR1", () => {}); process.stdin.resume()'], {
      env: {},
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    closers.push(() => idle.kill('SIGKILL'));
    const P = { web, web6, web2, redirect, denied, udp, unix, abstract, service: idle.pid ?? 0 };
    return new AttackSurroundings(
      { C: join(folder, 'canary.txt'), D: folder, P },
      idle,
      closers,
      connections,
    );
  }

  /** What the service allows user code: public addresses, and the server that redirects. */
  get policy(): AddressPolicy {
    const { denied } = this.values.P;
    return new AddressPolicy({
      allow: ['public', `${allowedAddress}/32`],
      deny: () => [{ address: allowedAddress, port: denied }],
    });
  }

  /** A policy that forbids nothing. */
  get openPolicy(): AddressPolicy {
    const { web } = this.values.P;
    return new AddressPolicy({
      allow: ['public', 'local'],
      deny: () => [],
      connectTo: ledAddresses.map((address) => `${address}:${web}:127.0.0.1:${web}`),
    });
  }

  /** What each attack says in Node without any wall, by name. */
  async sayBare(attacks: readonly Attack[]): Promise<Record<string, string>> {
    const own = await mkdtemp('/var/tmp/millrace-own-');
    try {
      const said = join(own, 'said.json');
      const script = `(async () => { const said = {};
        for (const [name, code] of ${JSON.stringify(attacks.map(({ name, code }) => [name, code]))})
          said[name] = await (${sayCode})(require, code, ${JSON.stringify({ ...this.values, T: own })});
        require('fs').writeFileSync(${JSON.stringify(said)}, JSON.stringify(said)); process.exit(0);
      })();`;
      await writeFile(join(own, 'controls.cjs'), script);
      const canary = openSync(this.values.C, 'r');
      const child = spawn(
        process.execPath,
        ['--no-warnings', '--experimental-vfs', join(own, 'controls.cjs')],
        { env: { TZ: 'UTC' }, stdio: ['ignore', 'ignore', 'pipe', canary], timeout: 60_000 },
      );
      let error = '';
      child.stderr?.on('data', (chunk) => {
        error += chunk;
      });
      const [code, signal] = await once(child, 'close');
      if (code !== 0) throw new Error(`the controls ended by ${code ?? signal}: ${error}`);
      return JSON.parse(await readFile(said, 'utf8')) as Record<string, string>;
    } finally {
      await rm(own, { recursive: true, force: true });
      await writeFile(this.values.C, 'CANARY');
    }
  }

  /** What an attack says in a sandbox, in one process for all: as `sayBare`, or the status of a call that did not finish. */
  async say(fixture: RunnerFixture, { code }: Attack): Promise<string> {
    const values = { ...this.values, T: '/tmp' };
    const body = `return await (${sayCode})(require, ${JSON.stringify(code)}, ${JSON.stringify(values)});`;
    return endingOf(await fixture.evaluate(body));
  }

  async close(): Promise<void> {
    for (const close of this.#closers.reverse()) await close();
    if (this.#idle.exitCode === null && this.#idle.signalCode === null) await once(this.#idle, 'exit');
  }
}

export function endingOf(outcome: CallOutcome): string {
  if (outcome.status === 'finished') return String(resultOf(outcome));
  return outcome.status === 'threw' ? String(outcome.error?.code ?? outcome.error?.message) : outcome.status;
}

/** Says in words how an attack does not end as it should; undefined where it does. */
export function wrongEnding(said: string, expected: Ending): string | undefined {
  const isHarmless = typeof expected === 'string' && expected.startsWith('harmless: ');
  if (isHarmless) return worked.test(said) ? undefined : `it ends as ${said}, expected it to be harmless`;
  if (worked.test(said)) return 'it gets through';
  return [expected].flat().includes(said) ? undefined : `it ends as ${said}, expected ${[expected].flat()}`;
}

/** An attack that waits for longer says so. */
const patienceMs = 10_000;

/** Source text of a function that runs the code of an attack and reports its outcome. */
const sayCode = `async (require, code, { C, D, T, P }) => {
  const AsyncFunction = (async () => {}).constructor;
  const attack = async () => new AsyncFunction('fs', 'fsp', 'require', 'C', 'D', 'T', 'P', code)(require('fs'), require('fs/promises'), require, C, D, T, P);
  const { promise, resolve } = Promise.withResolvers();
  const timer = setTimeout(resolve, ${patienceMs}, 'no end');
  try { const said = String(await Promise.race([attack(), promise])); return /CANARY|^done$|^no end$/.test(said) ? said : 'nothing'; }
  catch (error) { return String(error?.code ?? error?.cause?.code ?? error?.name); }
  finally { clearTimeout(timer); }
}`;

async function listening(
  server: Server | SocketServer,
  where: ListenOptions,
  closers: (() => unknown)[],
): Promise<number> {
  server.listen(where);
  await once(server, 'listening');
  closers.push(() => {
    if ('closeAllConnections' in server) server.closeAllConnections();
    server.close();
  });
  const address = server.address() as AddressInfo | string;
  return typeof address === 'string' ? 0 : address.port;
}
