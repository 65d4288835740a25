import { existsSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { Api, isObject } from './api.ts';
import { type GetSessionOptions, leaf } from './command-kit.ts';
import { CliError } from './exit-codes.ts';
import { damageOfStore } from './local-admin.ts';
import { probeCode } from './probe-action.ts';
import type { Session } from './session.ts';
import { column, showList } from './show.ts';

const clockDifferenceMs = { warn: 5_000, fail: 300_000 };
const freeBytes = { warn: 5 * 1024 ** 3, fail: 512 * 1024 ** 2 };

interface Check {
  [field: string]: unknown;
  name: string;
  state: 'ok' | 'warning' | 'failed' | 'skipped';
  detail: string;
}

type Result = Pick<Check, 'state' | 'detail'>;

export function verifyCommand(program: Command, options: GetSessionOptions): void {
  leaf(
    program,
    'verify',
    'check an install: version, health, store, clock, key, and what user code can reach; where it is local, also disk, data folder and database',
    options,
    verify,
  );
}

/** Everything is tried, whatever failed before. */
async function verify(session: Session): Promise<void> {
  const { url, apiKey } = await session.connection();
  const api = new Api({ url, apiKey, signal: session.interrupted });
  const checks: Check[] = [];
  const check = async (name: string, work: () => Promise<Result | readonly Check[]>): Promise<void> => {
    session.terminal.status(`${name} …`);
    let result: Result | readonly Check[];
    try {
      result = await work();
    } catch (error) {
      if (!(error instanceof CliError) || error.reason === 'interrupted') throw error;
      result = { state: 'failed', detail: error.message };
    }
    session.terminal.endStatus();
    if ('state' in result) checks.push({ name, ...result });
    else checks.push(...result);
  };
  await check('service', () => checkService(api));
  if (checks.every(({ state }) => state !== 'failed')) {
    await check('version', () => checkVersion(api, session.version));
    await check('store', () => checkStore(api));
    await check('clock', () => checkClock(api));
    await check('api key', async () => {
      const user = await api.data('GET', '/v1/users/me');
      return { state: 'ok', detail: `of ${String(user.username)}` };
    });
    await check('sandbox level', () => checkSandboxLevel(api));
    await check('sandbox', () => checkSandbox(session, api));
  }
  await check('data folder', async () => checkFolder(session, url));
  await check('database', async () => checkDatabase(session, url));
  showList(
    session,
    checks,
    [
      column('CHECK', 'name', { isWhole: true }),
      column('RESULT', ({ state }) => state, { isWhole: true }),
      column('DETAIL', 'detail'),
    ],
    '',
  );
  const failed = checks.filter(({ state }) => state === 'failed');
  if (failed.length > 0) throw new CliError('failed', `${failed.length} of ${checks.length} checks failed`);
}

async function checkService(api: Api): Promise<Result> {
  const start = performance.now();
  await api.call('GET', '/healthz');
  return { state: 'ok', detail: `${api.url} answers after ${Math.round(performance.now() - start)} ms` };
}

async function checkVersion(api: Api, own: string): Promise<Result> {
  const { info } = await api.call('GET', '/openapi.json');
  const version = isObject(info) ? String(info.version) : 'unknown';
  if (version === own) return { state: 'ok', detail: version };
  return {
    state: 'warning',
    detail: `the service is ${version}, this program ${own}: use the one that came with the service`,
  };
}

async function checkStore(api: Api): Promise<Result> {
  const start = performance.now();
  await api.call('GET', '/readyz');
  return { state: 'ok', detail: `takes writes, after ${Math.round(performance.now() - start)} ms` };
}

/** `Date` has whole seconds; the middle of the request is compared, so that a slow network is no wrong clock. */
async function checkClock(api: Api): Promise<Result> {
  const start = Date.now();
  let date = '';
  await api.call('GET', '/healthz', {
    onHeaders: (headers) => {
      date = headers.get('date') ?? '';
    },
  });
  const here = (start + Date.now()) / 2;
  const there = Date.parse(date);
  if (Number.isNaN(there)) return { state: 'skipped', detail: 'the answer has no Date' };
  const difference = there + 500 - here;
  const detail =
    Math.abs(difference) < 2000
      ? 'no difference to the clock here'
      : `${Math.round(Math.abs(difference) / 1000)} s ${difference > 0 ? 'ahead of' : 'behind'} the clock here`;
  if (Math.abs(difference) >= clockDifferenceMs.fail)
    return { state: 'failed', detail: `${detail}: signatures of webhooks will be refused` };
  return { state: Math.abs(difference) >= clockDifferenceMs.warn ? 'warning' : 'ok', detail };
}

/** An action that tries what user code must not do. Nothing of it is recorded, and it sends nothing to other hosts. */
async function checkSandbox(session: Session, api: Api): Promise<readonly Check[] | Result> {
  let tried: unknown;
  try {
    const result = await api.data('POST', '/v1/actions/run', {
      body: { ...session.owner, component_code: probeCode, timeout_seconds: 30 },
    });
    tried = result.ret;
  } catch (error) {
    if (error instanceof CliError && error.reason === 'notAllowed')
      return { state: 'skipped', detail: 'your role does not allow running an action' };
    throw error;
  }
  if (!isObject(tried)) return { state: 'failed', detail: 'the action that tries it gave no answer' };
  const attempt = (name: string): string => (isObject(tried) ? String(tried[name]) : 'nothing');
  const open = ['files', 'processes', 'environment'].filter((name) => attempt(name) !== 'refused');
  return [
    {
      name: 'sandbox',
      ...(open.length === 0
        ? {
            state: 'ok' as const,
            detail: 'user code reaches no files, processes or environment of the service',
          }
        : {
            state: 'failed' as const,
            detail: `user code reaches ${open.join(', ')}: MILLRACE_SANDBOX is off`,
          }),
    },
    {
      name: 'egress: cloud metadata',
      ...(attempt('metadata') === 'refused'
        ? { state: 'ok' as const, detail: 'refused' }
        : {
            state: 'failed' as const,
            detail: 'user code reaches 169.254.169.254, where clouds keep credentials',
          }),
    },
    {
      name: 'egress: own machine',
      ...(attempt('loopback') === 'refused'
        ? { state: 'ok' as const, detail: 'refused' }
        : {
            state: 'warning' as const,
            detail: 'user code reaches 127.0.0.1: MILLRACE_EGRESS has local in it',
          }),
    },
  ];
}

async function checkSandboxLevel(api: Api): Promise<Result> {
  const { sandbox } = (await api.call('GET', '/readyz')) as {
    sandbox?: { level: string; reason: string | null };
  };
  if (sandbox === undefined) return { state: 'skipped', detail: 'only the admin of the instance is told' };
  const { level, reason } = sandbox;
  if (level === 'kernel') return { state: 'ok', detail: 'kernel: walls around every process of user code' };
  const detail = reason === null ? level : `${level}, no kernel level: ${reason}`;
  return { state: 'warning', detail: `${detail}; only people you trust may deploy code` };
}

/** The folder; otherwise why it cannot be looked at. */
function localFolder(session: Session, url: string): string | Result {
  const { hostname } = new URL(url);
  const isLocal = hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.');
  const folder = session.path(session.environment.MILLRACE_DATA || '.millrace');
  if (!isLocal) return { state: 'skipped', detail: 'the service is on another machine' };
  if (!existsSync(folder))
    return { state: 'skipped', detail: `no ${folder}; MILLRACE_DATA says where it is` };
  return folder;
}

/** Reads all of the embedded store: a gigabyte takes some seconds. */
async function checkDatabase(session: Session, url: string): Promise<Result> {
  const folder = localFolder(session, url);
  if (typeof folder !== 'string') return folder;
  if (!existsSync(join(folder, 'millrace.sqlite')))
    return { state: 'skipped', detail: 'not embedded: PostgreSQL is checked with pg_amcheck' };
  const damage = await damageOfStore(folder, session.environment);
  return damage === undefined ? { state: 'ok', detail: 'whole' } : { state: 'failed', detail: damage };
}

/** Only where the service is on this machine and its folder is where this program would look for it. */
async function checkFolder(session: Session, url: string): Promise<Result | readonly Check[]> {
  const folder = localFolder(session, url);
  if (typeof folder !== 'string') return folder;
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const gigabytes = `${(free / 1024 ** 3).toFixed(1)} GB are free`;
  // The master key is beside the folder, so that a copy of the folder cannot be decrypted.
  const secretFiles = [join(folder, 'api-key'), `${folder.replace(/[/\\]+$/, '')}.key`];
  const readable = secretFiles.filter((file) => isReadableByOthers(file));
  return [
    {
      name: 'disk',
      state: free < freeBytes.fail ? 'failed' : free < freeBytes.warn ? 'warning' : 'ok',
      detail: gigabytes,
    },
    {
      name: 'data folder',
      ...(readable.length > 0
        ? { state: 'failed' as const, detail: `others can read ${readable.join(' and ')}: chmod 600` }
        : { state: 'ok' as const, detail: folder }),
    },
  ];
}

function isReadableByOthers(file: string): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  return process.platform !== 'win32' && found !== undefined && (found.mode & 0o077) !== 0;
}
