import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { isObject } from './api.ts';
import { CliError } from './exit-codes.ts';

export interface Profile {
  /** The URL of the service, without a slash at the end and without /v1. */
  url: string;
  apiKey: string;
}

export interface Profiles {
  /** The one that is used when none is named. */
  current: string;
  byName: Readonly<Record<string, Profile>>;
}

type Environment = Readonly<Record<string, string | undefined>>;

export const defaultProfile = 'default';
const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** `$XDG_CONFIG_HOME/millrace/config.json`, or below `~/.config`. */
export function profilesFile(environment: Environment): string {
  const base = environment.XDG_CONFIG_HOME;
  // The XDG convention ignores a relative path.
  const folder =
    base !== undefined && isAbsolute(base) ? base : join(environment.HOME ?? homedir(), '.config');
  return join(folder, 'millrace', 'config.json');
}

/** No file is no profiles. Refuses a file that others may read: it has keys in it. */
export async function readProfiles(environment: Environment): Promise<Profiles> {
  const file = profilesFile(environment);
  let text: string;
  try {
    const { mode } = await stat(file);
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      throw new CliError('failed', `${file} can be read by others, and there are API keys in it`, {
        hint: `chmod 600 '${file}', and replace the keys if another user may have read them.`,
      });
    }
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { current: defaultProfile, byName: {} };
    throw error;
  }
  const profiles = parsed(text);
  if (profiles === undefined) {
    throw new CliError('failed', `${file} is not a file of profiles`, {
      hint: 'Remove it, and log in again.',
    });
  }
  return profiles;
}

/** Replaces the file as a whole, readable by its owner alone from its first byte on. */
export async function writeProfiles(environment: Environment, profiles: Profiles): Promise<void> {
  const file = profilesFile(environment);
  const entries = Object.entries(profiles.byName).map(([name, { url, apiKey }]) => [
    name,
    { url, api_key: apiKey },
  ]);
  const text = `${JSON.stringify({ current: profiles.current, profiles: Object.fromEntries(entries) }, null, 2)}\n`;
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${process.pid}`;
  try {
    await writeFile(draft, text, { mode: 0o600, flag: 'wx' });
    await chmod(draft, 0o600);
    await rename(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
}

export function checkProfileName(name: string): string {
  if (namePattern.test(name)) return name;
  throw new CliError('usage', `${JSON.stringify(name)} cannot be the name of a profile`, {
    hint: 'Letters, digits, dots, dashes and underscores, 64 at most.',
  });
}

function parsed(text: string): Profiles | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value) || typeof value.current !== 'string' || !isObject(value.profiles)) return undefined;
  const byName: Record<string, Profile> = Object.create(null) as Record<string, Profile>;
  for (const [name, profile] of Object.entries(value.profiles)) {
    if (!isObject(profile) || typeof profile.url !== 'string' || typeof profile.api_key !== 'string')
      return undefined;
    byName[name] = { url: profile.url, apiKey: profile.api_key };
  }
  return { current: value.current, byName };
}
