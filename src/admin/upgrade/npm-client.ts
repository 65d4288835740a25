import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { OfflineContext } from '#admin/admin-command-line.ts';
import { BackupError } from '#admin/backup/backup-error.ts';

const npmMs = 10 * 60_000;

/** A version as the registry describes it. */
export interface PublishedVersion {
  version: string;
  /** Names of the migrations that its store has. */
  migrations: readonly string[];
}

/** Asks npm's registry for `latest`, or an exact version. Throws `BackupError` where there is none. */
export async function findVersion(
  wanted: string,
  environment: OfflineContext['environment'],
): Promise<PublishedVersion> {
  const text = await runNpm(['view', `millrace@${wanted}`, 'version', 'millrace', '--json'], environment);
  const found = (text.trim() === '' ? undefined : JSON.parse(text)) as
    | { version?: unknown; millrace?: { migrations?: unknown } }
    | undefined;
  const migrations = found?.millrace?.migrations;
  if (typeof found?.version !== 'string' || !Array.isArray(migrations))
    throw new BackupError(`the registry of npm has no version ${wanted} of millrace`);
  return { version: found.version, migrations: migrations.map(String) };
}

/** The npm of the user, which installed Millrace. It needs none of the settings, some of which are secrets. */
export async function runNpm(
  args: readonly string[],
  environment: OfflineContext['environment'],
): Promise<string> {
  const env = Object.fromEntries(
    Object.entries(environment).filter(([name]) => !/^(MILLRACE_|NODE_COMPILE_CACHE$)/.test(name)),
  );
  try {
    const { stdout } = await promisify(execFile)('npm', [...args], { env, timeout: npmMs });
    return stdout;
  } catch (thrown) {
    const error = thrown as Error & { code?: unknown; stderr?: string };
    const reason =
      error.code === 'ENOENT' ? 'npm is not in the PATH' : (error.stderr ?? error.message).trim();
    throw new BackupError(`npm ${args[0]} failed, and nothing was changed: ${reason.slice(0, 2000)}`, {
      cause: error,
    });
  }
}
