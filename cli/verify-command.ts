import { existsSync, realpathSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { Instance } from '#sdk';
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

const needsKey: Result = { state: 'skipped', detail: 'not checked without a valid API key' };

/** A service whose store takes no writes runs nothing and is not ready, which says nothing about what else is checked. */
const needsStore: Result = { state: 'skipped', detail: 'not checked: see the store' };

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
    const isOk = (name: string) => checks.find((one) => one.name === name)?.state === 'ok';
    const missing = isOk('api key') ? (isOk('store') ? undefined : needsStore) : needsKey;
    const withKey = async <Answer>(work: () => Promise<Answer>) => missing ?? work();
    await check('sandbox level', () => withKey(() => checkSandboxLevel(api)));
    await check('sandbox', () => withKey(() => checkSandbox(session, api)));
    await check('files', () => withKey(() => checkFiles(api)));
    await check('outbound proxy', () => withKey(() => checkProxy(api)));
  }
  const folder = await findFolder(session, api);
  await check('data folder', async () => checkFolder(folder));
  await check('database', async () => checkDatabase(session, folder));
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
    sandbox?: { level: string; reason: string | null; cgroups_reason: string | null };
  };
  if (sandbox === undefined) return { state: 'skipped', detail: 'only the admin of the instance is told' };
  const { level, reason, cgroups_reason: cgroupsReason } = sandbox;
  const cgroups = cgroupsReason === null ? 'one for each process' : `not delegated (${cgroupsReason})`;
  if (level === 'kernel')
    return { state: 'ok', detail: `kernel: walls around every process of user code; cgroups: ${cgroups}` };
  const detail = reason === null ? level : `${level}, no kernel level: ${reason}`;
  return {
    state: 'warning',
    detail: `${detail}; only people you trust may deploy code; cgroups: ${cgroups}`,
  };
}

/** The service tries the bucket every minute, and after a failure. */
async function checkFiles(api: Api): Promise<Result> {
  const { sandbox, file_bucket: found } = (await api.call('GET', '/readyz')) as {
    sandbox?: unknown;
    file_bucket?: { bucket: string; state: string; since: number | null; reason: string | null };
  };
  if (sandbox === undefined) return { state: 'skipped', detail: 'only the admin of the instance is told' };
  if (found === undefined) return { state: 'ok', detail: 'their content is in the store' };
  const since = found.since === null ? '' : ` since ${new Date(found.since * 1000).toISOString()}`;
  if (found.state === 'ok')
    return { state: 'ok', detail: `bucket ${found.bucket}: written, read and removed${since}` };
  if (found.state === 'unchecked')
    return { state: 'warning', detail: `bucket ${found.bucket}: not tried yet; ask again in a minute` };
  return { state: 'failed', detail: `fails${since}: ${found.reason}` };
}

/** The service asks it something at least every minute. */
async function checkProxy(api: Api): Promise<Result> {
  const { sandbox, egress_proxy: found } = (await api.call('GET', '/readyz')) as {
    sandbox?: unknown;
    egress_proxy?: { proxy: string; state: string; since: number | null; reason: string | null };
  };
  if (sandbox === undefined) return { state: 'skipped', detail: 'only the admin of the instance is told' };
  if (found === undefined)
    return { state: 'ok', detail: 'none: connections to the outside are made directly' };
  const since = found.since === null ? '' : ` since ${new Date(found.since * 1000).toISOString()}`;
  if (found.state === 'ok') return { state: 'ok', detail: `${found.proxy} answers${since}` };
  if (found.state === 'unchecked')
    return { state: 'warning', detail: `${found.proxy}: not tried yet; ask again in a minute` };
  return { state: 'failed', detail: `fails${since}: ${found.reason}` };
}

/**
 * The data folder: that of MILLRACE_DATA, else the one that the service tells its admin, else where `npm start` would make it here.
 * Otherwise why it cannot be checked.
 */
async function findFolder(session: Session, api: Api): Promise<string | Result> {
  const { hostname } = new URL(api.url);
  if (hostname !== 'localhost' && hostname !== '[::1]' && !hostname.startsWith('127.'))
    return { state: 'skipped', detail: `not checked: the service is on another machine, ${hostname}` };
  const told = await folderOfService(api);
  const named = session.environment.MILLRACE_DATA ?? '';
  if (named !== '') {
    const folder = session.path(named);
    if (!existsSync(folder))
      return { state: 'failed', detail: `MILLRACE_DATA: found ${folder}, which does not exist here` };
    if (told !== undefined && existsSync(told) && realpathSync(told) !== realpathSync(folder))
      return { state: 'failed', detail: `MILLRACE_DATA: found ${folder}, and the service uses ${told}` };
    return folder;
  }
  const folder = told ?? session.path('.millrace');
  if (existsSync(folder)) return folder;
  const detail =
    told === undefined
      ? `not checked: there is no ${folder}; set MILLRACE_DATA to the data folder of the service`
      : `not checked: the service uses ${told}, which does not exist here; set MILLRACE_DATA to where it is mounted`;
  return { state: 'skipped', detail };
}

/** Undefined: the service does not answer, or the caller is not its admin. */
async function folderOfService(api: Api): Promise<string | undefined> {
  try {
    const { disk } = await api.data<Pick<Instance, 'disk'>>('GET', '/v1/instance');
    return disk?.folder;
  } catch (error) {
    if (!(error instanceof CliError) || error.reason === 'interrupted') throw error;
    return undefined;
  }
}

/** Reads all of the embedded store: a gigabyte takes some seconds. */
async function checkDatabase(session: Session, folder: string | Result): Promise<Result> {
  if (typeof folder !== 'string') return skippedLike(folder);
  const file = join(folder, 'millrace.sqlite');
  if (!existsSync(file))
    return { state: 'skipped', detail: 'not embedded: PostgreSQL is checked with pg_amcheck' };
  const damage = await damageOfStore(folder, session.environment);
  return damage === undefined
    ? { state: 'ok', detail: `whole: ${file}` }
    : { state: 'failed', detail: damage };
}

/** What is wrong with the folder is one failure, not two. */
function skippedLike({ state, detail }: Result): Result {
  return state === 'failed'
    ? { state: 'skipped', detail: 'not checked: see the data folder' }
    : { state, detail };
}

/** The free space and who may read it. */
async function checkFolder(folder: string | Result): Promise<Result | readonly Check[]> {
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
