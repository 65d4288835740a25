import { existsSync } from 'node:fs';
import {
  type AdminAnswer,
  type AdminRequest,
  adminHelp,
  type OfflineContext,
  readAdminRequest,
  UsageError,
  usageOf,
} from '#admin/admin-command-line.ts';
import { identityCommands } from '#admin/admin-commands.ts';
import { auditCommand } from '#admin/audit-command.ts';
import { backupCommands } from '#admin/backup/backup-commands.ts';
import { BackupError } from '#admin/backup/backup-error.ts';
import { checkCommands } from '#admin/backup/check-command.ts';
import { keyCommands } from '#admin/key-commands.ts';
import { registryCommands } from '#admin/registry-commands.ts';
import { upgradeCommands } from '#admin/upgrade/upgrade-command.ts';
import { sessionUrlOf } from '#config/database-url.ts';
import { readSettings, SettingsError } from '#config/read-settings.ts';
import type { Settings } from '#config/settings.ts';
import { hasUsers } from '#identity/user-store.ts';
import { systemClock } from '#lib/clock.ts';
import { CallerError, toError, UnavailableError } from '#lib/errors.ts';
import { installedVersion } from '#lib/installation.ts';
import { silentLogger } from '#lib/logger.ts';
import { FolderLockedError, lockFolder } from '#storage/lock-folder.ts';
import { openStore } from '#storage/open-store.ts';
import type { Store } from '#storage/store.ts';
import { MasterKeyError } from '#vault/master-key.ts';

/** `npm run millrace -- …`: administration without the API. Exit codes: 0 done, 1 failed, 2 wrong command line. */

/** An error that is shown to the user without its stack. */
class AdminError extends Error {
  override name = 'AdminError';
}

// No other user of the machine may read what a command writes: the store, backups, keys.
process.umask(0o077);
const commands = {
  ...identityCommands,
  ...keyCommands,
  ...registryCommands,
  ...backupCommands,
  ...checkCommands,
  ...upgradeCommands,
};
const wantsJson = process.argv.includes('--json');
/** What the command line is about, such as `user`: a mistake in it needs the help of no other command. */
const topic = process.argv[2] ?? '';

try {
  const request = readAdminRequest(commands, process.argv.slice(2));
  if (request.command === undefined) process.stdout.write(adminHelp(commands, topic));
  else print(await execute(request, request.command), request.json);
} catch (error) {
  process.exitCode = fail(toError(error));
}

async function execute(
  request: AdminRequest,
  command: NonNullable<AdminRequest['command']>,
): Promise<AdminAnswer> {
  const settings = readSettings(process.env);
  const environment = process.env;
  const context: OfflineContext = {
    clock: systemClock,
    version: installedVersion,
    settings,
    environment,
    // npm changes to the project's folder, and keeps the original one in INIT_CWD.
    folder: environment.INIT_CWD ?? process.cwd(),
    progress,
    status,
    isInteractive: process.stdin.isTTY && process.stderr.isTTY && !wantsJson,
  };
  if ('runOffline' in command) return command.runOffline(context, request.options, request.argument);
  const release = holdFolder(settings, command.api);
  try {
    const store = await openStore({
      databaseUrl: sessionUrlOf(settings),
      folder: settings.data,
      logger: silentLogger,
    });
    try {
      await refuseEmpty(store);
      return await auditCommand({ store, clock: context.clock, request }, (audited) =>
        command.run({ ...context, store: audited }, request.options, request.argument),
      );
    } finally {
      await store.close();
    }
  } finally {
    release();
  }
}

/** The embedded store has one process at a time; PostgreSQL takes any number. */
function holdFolder(settings: Settings, api: string | null): () => void {
  if (settings.databaseUrl !== '') return () => {};
  if (!existsSync(settings.data)) {
    throw new AdminError(
      `there is no data folder ${settings.data}: set MILLRACE_DATA, or start the service once to make it`,
    );
  }
  try {
    return lockFolder(settings.data);
  } catch (error) {
    if (!(error instanceof FolderLockedError)) throw error;
    throw new AdminError(
      `the service is running on the data folder ${settings.data}: stop it first${api === null ? '' : `, or use its API (${api})`}`,
      { cause: error },
    );
  }
}

/** Refuses a store without users: a user made here would keep the first start from making an admin. */
async function refuseEmpty(store: Store): Promise<void> {
  if (await hasUsers(store.read)) return;
  throw new AdminError('nothing is in this store yet: start the service once, which makes the first user');
}

/** Progress goes to stderr, so that a pipe does not read it. */
function progress(line: string): void {
  if (!wantsJson) process.stderr.write(`${line}\n`);
}

/** Writes a line that the next one overwrites. */
function status(line: string): void {
  if (wantsJson || !process.stderr.isTTY) return;
  process.stderr.write(`\r\u001b[K${line}`);
}

function print(answer: AdminAnswer, json: boolean): void {
  const text = json ? JSON.stringify(answer.data, null, 2) : answer.lines.join('\n');
  process.stdout.write(text === '' ? '' : `${text}\n`);
}

function fail(error: Error): number {
  status('');
  const isUsage = error instanceof UsageError;
  if (wantsJson) {
    const code = isUsage ? 'usage' : error instanceof CallerError ? error.code : 'failed';
    process.stderr.write(`${JSON.stringify({ error: error.message, code })}\n`);
  } else {
    process.stderr.write(`${isForPeople(error) ? error.message : error.stack}\n`);
    if (isUsage) process.stderr.write(`\n${usageOf(commands, topic).join('\n')}\n`);
  }
  return isUsage ? 2 : 1;
}

function isForPeople(error: Error): boolean {
  return (
    [AdminError, BackupError, UsageError, CallerError, UnavailableError, SettingsError, MasterKeyError].some(
      (kind) => error instanceof kind,
    ) || error.name === 'SchemaError'
  );
}
