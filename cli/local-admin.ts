import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { text } from 'node:stream/consumers';
import { hasConnection } from './connection.ts';
import { adminProgram } from './installed-programs.ts';

/**
 * Commands that work on the data folder itself, without the API: they have a program of their own, which is started with
 * the same words. Their options are in its help.
 */
export const localCommands: Readonly<Record<string, string>> = {
  user: 'users: create, list',
  workspace: 'workspaces: create, list',
  member: 'members of workspaces: add',
  key: 'API keys of any user: create, list, revoke',
  keys: 'the keys that seal credentials: status, rotate-master, rotate-data',
  backup: 'everything into one encrypted file, also while the service runs; --check reads such a file',
  store:
    'check reads all of the embedded store and says whether it is damaged; migrate brings the tables to this version',
  upgrade: 'another version of the npm package: says what it would do; --yes does it, --back goes back',
  restore: 'a backup into an empty instance on either store; --replace for one that is in use',
};

/**
 * True when a command line is for the data folder. The command `registry` is for it with `--local`, with a folder, or without a
 * service to call, because there is no login.
 */
export async function isLocal(
  words: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<boolean> {
  const [first = ''] = words;
  if (Object.hasOwn(localCommands, first)) return true;
  if (first !== 'registry' || words.length === 1 || words.includes('--help') || words.includes('-h'))
    return false;
  if (words.includes('--local')) return true;
  // A clone is read by the service where there is one; a folder only by the command on the data folder.
  const isClone = words.some((word) => word === '--git' || word.startsWith('--git='));
  if (!isClone && words.slice(2).some((word) => /^(?:\.{1,2}(?:\/|$)|\/)/.test(word))) return true;
  return !words.includes('--profile') && !(await hasConnection(environment));
}

/** What `store check` found wrong with the embedded store of a data folder; undefined: nothing. */
export async function damageOfStore(
  folder: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<string | undefined> {
  const child = spawn(process.execPath, [adminProgram, 'store', 'check', '--json'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...environment, MILLRACE_DATA: folder, MILLRACE_DATABASE_URL: '' },
  });
  const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  if (code === 0) return undefined;
  try {
    return String((JSON.parse(said) as { error: unknown }).error);
  } catch {
    return said.trim();
  }
}

/** Resolves to its exit code. */
export async function runLocal(
  words: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<number> {
  // What only this program understands would stop that one.
  const { MILLRACE_URL, MILLRACE_PROFILE, ...rest } = environment;
  const child = spawn(process.execPath, [adminProgram, ...words.filter((word) => word !== '--local')], {
    stdio: 'inherit',
    env: rest,
  });
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
}
