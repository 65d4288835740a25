import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type { ServerCertificate } from './certificates.ts';
import {
  freePort,
  guardPipe,
  type Identity,
  letProcessEnd,
  makeReadableFolder,
  own,
  spawnGuarded,
  unprivilegedIdentity,
} from './guarded-process.ts';

/** A real MariaDB for tests, on a folder of its own, that never outlives the process that started it. */
export interface MariadbServer {
  readonly port: number;
  /** Ends the server and removes its folder. May be called twice. */
  stop(): Promise<void>;
}

export interface MariadbOptions {
  /** Clients may go over to TLS with it, and must. */
  certificate: ServerCertificate;
  /** Run as the administrator before the server takes connections: one statement a line. */
  statements: readonly string[];
}

const startTimeoutMs = 60_000;
const stopTimeoutMs = 20_000;
/** Someone else may take the free port between our look and the server's bind. */
const portAttempts = 5;
const logCharactersMax = 100_000;

/**
 * For the `skip` option of tests that need MariaDB: the reason where there is none, else false. A missing one makes
 * `npm test` say so in its last line, and fail when `MILLRACE_TEST_REQUIRE_MARIADB=1`.
 */
export function mariadbSkip(): string | false {
  return findProgram('mariadbd') === undefined || findProgram('mariadb-install-db') === undefined
    ? 'there is no mariadbd here (Debian: mariadb-server-core and mariadb-client-core)'
    : false;
}

export async function startMariadb({ certificate, statements }: MariadbOptions): Promise<MariadbServer> {
  const server = findProgram('mariadbd');
  const installer = findProgram('mariadb-install-db');
  if (server === undefined || installer === undefined) throw new Error(String(mariadbSkip()));
  const identity = unprivilegedIdentity();
  const folder = await makeReadableFolder('mariadb', identity);
  if (folder === undefined) throw new Error('no temporary folder that another user may enter');
  const remove = () => rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  try {
    const data = join(folder, 'data');
    await initialise(installer, { folder, data, identity });
    const files = {
      'cert.pem': certificate.cert,
      'key.pem': certificate.key,
      'init.sql': `${statements.join('\n')}\n`,
    };
    for (const [name, text] of Object.entries(files)) {
      await writeFile(join(folder, name), text, { mode: 0o600 });
      own(join(folder, name), identity);
    }
    for (let attempt = 1; ; attempt += 1) {
      const started = await launch(server, { folder, data, identity, port: await freePort() });
      if ('port' in started) {
        const { port, end } = started;
        return { port, stop: () => end().then(remove) };
      }
      if (attempt === portAttempts || !started.log.includes('Address already in use'))
        throw new Error(`MariaDB did not start:\n${started.log}`);
    }
  } catch (error) {
    await remove();
    throw error;
  }
}

interface Place {
  folder: string;
  data: string;
  identity: Identity;
}

async function initialise(installer: string, { folder, data, identity }: Place): Promise<void> {
  const child = spawn(
    installer,
    ['--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal', '--skip-test-db'],
    { cwd: folder, ...identity, env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C', TMPDIR: folder } },
  );
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk: Buffer) => {
    output += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${installer} ended with ${code}:\n${output}`);
}

async function launch(
  program: string,
  { folder, data, identity, port }: Place & { port: number },
): Promise<{ port: number; end: () => Promise<void> } | { log: string }> {
  const options = {
    datadir: data,
    socket: join(folder, 'socket'),
    'pid-file': join(folder, 'pid'),
    tmpdir: folder,
    'init-file': join(folder, 'init.sql'),
    'bind-address': '127.0.0.1',
    port: String(port),
    'ssl-cert': join(folder, 'cert.pem'),
    'ssl-key': join(folder, 'key.pem'),
    'require-secure-transport': 'ON',
    // What is written here is thrown away.
    'innodb-flush-log-at-trx-commit': '0',
    'innodb-buffer-pool-size': '16M',
  };
  const args = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
  const child = spawnGuarded(program, ['--no-defaults', '--skip-log-bin', '--skip-name-resolve', ...args], {
    env: { LC_ALL: 'C', TZ: 'UTC' },
    identity,
    folder,
  });
  let log = '';
  const ready = Promise.withResolvers<boolean>();
  const take = (chunk: Buffer): void => {
    log = (log + chunk.toString()).slice(-logCharactersMax);
    if (log.includes('ready for connections')) ready.resolve(true);
  };
  child.stdout?.on('data', take);
  child.stderr?.on('data', take);
  const exited = new Promise<void>((resolve) => {
    const end = (): void => {
      // Tells the guard that there is nothing left to end.
      guardPipe(child)?.end('ended\n');
      ready.resolve(false);
      resolve();
    };
    child.on('error', (error) => {
      log += error.message;
      end();
    });
    child.on('exit', end);
  });
  const killAfter = (ms: number) => setTimeout(() => child.kill('SIGKILL'), ms);
  const starting = killAfter(startTimeoutMs);
  const isReady = await ready.promise;
  clearTimeout(starting);
  if (!isReady) return { log };
  letProcessEnd(child);
  const end = async (): Promise<void> => {
    child.ref();
    child.kill('SIGTERM');
    const stopping = killAfter(stopTimeoutMs);
    await exited;
    clearTimeout(stopping);
  };
  return { port, end };
}

/** Servers stand in folders that are in the path of administrators alone. */
function findProgram(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin', '/usr/bin'];
  return folders
    .filter((folder) => folder.startsWith('/'))
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
