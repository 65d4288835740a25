import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import pg from 'pg';
import { endWithProcess } from './end-with-process.ts';
import { freePort } from './guarded-process.ts';
import { waitFor } from './wait-for.ts';

/** For `skip`: false where there is pgbouncer, or where there has to be one; else why the tests are left out. */
export function pgbouncerSkip(): string | false {
  if (pgbouncerFile() !== undefined || process.env.MILLRACE_TEST_REQUIRE_PGBOUNCER === '1') return false;
  return 'no pgbouncer was found: install the package pgbouncer';
}

function pgbouncerFile(): string | undefined {
  return `${process.env.PATH ?? ''}${delimiter}/usr/sbin`
    .split(delimiter)
    .map((folder) => join(folder, 'pgbouncer'))
    .find((file) => existsSync(file));
}

export interface PgBouncer {
  /** `postgres://…` of the database behind it. */
  readonly url: string;
  stop(): Promise<void>;
}

/** A real pgbouncer in transaction mode on 127.0.0.1, with its defaults: it takes no startup parameter that it does not know. */
export async function startPgBouncer(databaseUrl: string, options: { poolSize: number }): Promise<PgBouncer> {
  const behind = new URL(databaseUrl);
  const name = behind.pathname.slice(1);
  const folder = await mkdtemp(join(tmpdir(), 'millrace-pgbouncer-'));
  // It refuses to run as root, and has to read its settings.
  await chmod(folder, 0o755);
  const port = await freePort();
  const server = {
    host: behind.hostname,
    port: behind.port || '5432',
    user: behind.username,
    password: behind.password,
  };
  const place = Object.entries(server).map(([key, value]) => `${key}=${decodeURIComponent(value)}`);
  const settings = [
    '[databases]',
    `${name} = ${place.join(' ')} dbname=${name}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    `default_pool_size = ${options.poolSize}`,
    'max_client_conn = 200',
  ];
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(file, `${settings.join('\n')}\n`, { mode: 0o644 });
  const child = spawn(pgbouncerFile() ?? 'pgbouncer', [file], {
    stdio: 'ignore',
    ...(process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}),
  });
  endWithProcess(child);
  const url = `postgres://${behind.username}@127.0.0.1:${port}/${name}`;
  await waitFor(() => answers(url));
  return { url, stop: () => stop(child, folder) };
}

async function stop(child: ChildProcess, folder: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const exited = once(child, 'exit');
    // Immediate: clients are not waited for.
    child.kill('SIGTERM');
    await exited;
  }
  await rm(folder, { recursive: true, force: true });
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('select 1');
    return true;
  } catch {
    return false;
  } finally {
    client.end().catch(() => {});
  }
}
