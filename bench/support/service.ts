import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** A real Millrace as a child process, on a data folder of its own, used through its API only. */
export interface Service {
  readonly url: string;
  readonly pid: number;
  readonly apiKey: string;
  /** From spawn to the first 200 of /readyz. */
  readonly readyMs: number;
  /** Path without /v1; throws with the answer's text unless the status is 2xx. */
  api(method: string, path: string, body?: unknown): Promise<unknown>;
  /** The same service with a new user, who is no admin. */
  asNewUser(username: string): Promise<Service>;
  stop(): Promise<void>;
}

const readyTimeoutMs = 120_000;
const stopTimeoutMs = 15_000;

/**
 * `settings` are environment variables on top of the few this sets; `apiKey` is the one of an earlier start on the same data; `program`: the
 * file to run, such as `lib/main.mjs` of a package.
 */
export async function startService(
  settings: Record<string, string> = {},
  {
    apiKey = randomBytes(24).toString('base64url'),
    program = fileURLToPath(new URL('../../src/main.ts', import.meta.url)),
  }: { apiKey?: string; program?: string } = {},
): Promise<Service> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
  const port = await freePort();
  const logFile = join(folder, 'service.log');
  const log = openSync(logFile, 'a');
  const started = performance.now();
  const child = spawn(process.execPath, ['--disable-sigusr1', program], {
    cwd: folder,
    stdio: ['ignore', log, log],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      MILLRACE_DATA: join(folder, 'data'),
      MILLRACE_PORT: String(port),
      MILLRACE_API_KEY: apiKey,
      ...settings,
    },
  });
  let hasEnded = false;
  const ended = once(child, 'exit').then(() => {
    hasEnded = true;
  });
  const stop = async (): Promise<void> => {
    if (!hasEnded) {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs);
      await ended;
      clearTimeout(timer);
    }
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  };
  const url = `http://127.0.0.1:${port}`;
  for (;;) {
    if (hasEnded || performance.now() - started > readyTimeoutMs) {
      const text = readFileSync(logFile, 'utf8').slice(-4000);
      await stop();
      throw new Error(`the service did not become ready:\n${text}`);
    }
    const status = await fetch(`${url}/readyz`).then(
      (response) => response.status,
      () => 0,
    );
    if (status === 200) break;
    await delay(10);
  }
  const readyMs = performance.now() - started;
  const withKey = (key: string): Service => {
    const api: Service['api'] = async (method, path, body) => {
      const response = await fetch(`${url}/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
      return text === '' ? undefined : JSON.parse(text);
    };
    const asNewUser = async (username: string) => {
      const { data } = (await api('POST', '/users', { username, email: `${username}@example.com` })) as {
        data: { api_key: string };
      };
      return withKey(data.api_key);
    };
    return { url, pid: child.pid ?? 0, apiKey: key, readyMs, api, asNewUser, stop };
  };
  return withKey(apiKey);
}

export async function freePort(): Promise<number> {
  const probe = createServer();
  probe.listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
