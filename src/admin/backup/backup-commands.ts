import { resolve } from 'node:path';
import {
  type AdminAnswer,
  type AdminCommands,
  type OfflineContext,
  type Options,
  UsageError,
} from '#admin/admin-command-line.ts';
import { sessionUrlOf } from '#config/database-url.ts';
import { FolderLockedError, lockFolder } from '#storage/lock-folder.ts';
import { openRestoreTarget } from '#storage/restore-target.ts';
import { openSnapshot } from '#storage/snapshot.ts';
import { claimKey } from '#user-data/files/bucket-keeper.ts';
import { loadMasterKey } from '#vault/master-key.ts';
import { Vault } from '#vault/vault.ts';
import { BackupError } from './backup-error.ts';
import { type BackupHeader, readHeader } from './backup-header.ts';
import { answered, secretOf } from './backup-secret.ts';
import { checkBackup, openBackup } from './read-backup.ts';
import { refuseUsed, restoreBackup } from './restore-backup.ts';
import { writeBackup } from './write-backup.ts';

const tellEveryMs = 250;
const secretOptions = { 'passphrase-file': '<file>', 'key-file': '<file>' } as const;

/** Commands that bring everything into one file, and back. */
export const backupCommands: AdminCommands = {
  backup: {
    argument: { name: '<file or folder>', isRequired: true },
    required: {},
    optional: { ...secretOptions, check: '' },
    summary:
      'everything durable into one encrypted file, also while the service runs; in a folder it is named by its time. With ' +
      '--check: reads a file that is there to its end, and says whether it can be restored',
    api: null,
    runOffline: (context, options, argument = '') =>
      options.check === undefined ? backup(context, options, argument) : check(context, options, argument),
  },
  restore: {
    argument: { name: '<file>', isRequired: true },
    required: {},
    optional: { ...secretOptions, replace: '', yes: '' },
    summary:
      'a backup into an unused instance, on either store, all or nothing; the service must be stopped. With ' +
      '--replace: in the place of one that was used, after it has asked; --yes answers',
    api: null,
    runOffline: restore,
  },
};

/** Writes a backup to a file, or into a folder. `data.file` of the answer is its path. */
export async function backup(
  context: OfflineContext,
  options: Options,
  argument: string,
): Promise<AdminAnswer> {
  const { settings, folder, clock, version, status, progress } = context;
  const secret = await secretOf(context, options, 'new');
  const snapshot = await openSnapshot({ databaseUrl: sessionUrlOf(settings), folder: settings.data });
  if (snapshot === undefined) {
    throw new BackupError(
      `there is no store in ${settings.data}: set MILLRACE_DATA, or MILLRACE_DATABASE_URL, as for the service`,
    );
  }
  const signal = interruption();
  try {
    const vault = new Vault(
      await loadMasterKey({ setting: settings.encryptionKey, dataFolder: settings.data, mayCreate: false }),
    );
    const paced = nowAndThen();
    const done = await writeBackup({
      ...{ snapshot, vault, secret, clock, signal },
      target: resolve(folder, argument),
      version,
      onProgress: (table, { tables, rows, bytes }) =>
        paced(() => status(`${table}: ${tables} tables, ${rows} rows, ${megabytes(bytes)} so far`)),
    });
    status('');
    for (const key of done.lost) progress(`Data key ${key} is damaged, and is in the backup as it is.`);
    return {
      data: {
        file: done.file,
        created_at: Math.floor(done.createdAtMs / 1000),
        bytes: done.fileBytes,
        tables: done.tables,
        rows: done.rows,
        lost_keys: done.lost.length,
        files_outside: done.outside.files,
      },
      lines: [
        `${done.file}: ${done.rows} rows of ${done.tables} tables in ${megabytes(done.fileBytes)}.`,
        `Without its ${secret.kind === 'key' ? 'recovery key' : 'passphrase'} it cannot be read: keep that elsewhere.`,
        ...(done.outside.files === 0
          ? []
          : [
              `Not in it: the content of ${done.outside.files} files (${megabytes(done.outside.bytes)}) in the bucket ${settings.filesBucket}, which needs a backup or versions of its own.`,
            ]),
      ],
    };
  } finally {
    await snapshot.close();
  }
}

async function check(context: OfflineContext, options: Options, argument: string): Promise<AdminAnswer> {
  const file = resolve(context.folder, argument);
  const opened = await openBackup(file, () => secretOf(context, options, 'existing'));
  const checked = await checkBackup(opened, bytesDone(context, 'checked', opened.fileBytes));
  context.status('');
  const { header, fileBytes } = opened;
  return {
    data: {
      ...told(header),
      file,
      bytes: fileBytes,
      tables: Object.fromEntries(checked.tables),
      rows: checked.rows,
      data_keys: checked.dataKeys,
      lost_keys: checked.lost.length,
    },
    lines: [
      `${file} is whole: ${checked.rows} rows of ${checked.tables.size} tables in ${megabytes(fileBytes)}, of ` +
        `${new Date(header.created_at_ms).toISOString()}, made by Millrace ${header.millrace} on ${header.store}.`,
      `${checked.dataKeys} data keys open with this ${header.key.kind === 'key' ? 'recovery key' : 'passphrase'}.`,
      ...(checked.lost.length === 0 ? [] : [`${checked.lost.length} were damaged already when it was made.`]),
    ],
  };
}

async function restore(context: OfflineContext, options: Options, argument = ''): Promise<AdminAnswer> {
  const { settings, clock, status, progress } = context;
  const file = resolve(context.folder, argument);
  const mayReplace = options.replace !== undefined;
  // The kind of the file is checked before the operator is asked for its passphrase.
  await readHeader(file);
  const release = settings.databaseUrl === '' ? holdFolder(settings.data) : () => {};
  const signal = interruption();
  try {
    const target = await openRestoreTarget({ databaseUrl: sessionUrlOf(settings), folder: settings.data });
    refuseUsed(target.users, mayReplace);
    if (target.users !== 0) await confirmReplacing(context, options, target.name);
    const opened = await openBackup(file, () => secretOf(context, options, 'existing'));
    const checked = bytesDone(context, 'checked', opened.fileBytes);
    await checkBackup(opened, (bytes) => {
      if (signal.aborted) throw new BackupError('interrupted: nothing was changed');
      checked(bytes);
    });
    const vault = new Vault(
      await loadMasterKey({ setting: settings.encryptionKey, dataFolder: settings.data, mayCreate: true }),
    );
    const paced = nowAndThen();
    const done = await restoreBackup({
      ...{ backup: opened, target, vault, mayReplace, clock, signal },
      onProgress: ({ table, rows, fileBytes }) =>
        paced(() => status(`${share(fileBytes, opened.fileBytes)} restored: ${table}, ${rows} rows`)),
    });
    status('');
    for (const key of done.lost) progress(`Data key ${key} was damaged when the backup was made.`);
    return {
      data: {
        ...told(opened.header),
        file,
        rows: done.rows,
        data_keys: done.dataKeys,
        lost_keys: done.lost.length,
        files_outside: done.filesOutside,
        master_key: vault.masterKeyId,
        store: target.name,
        replaced_store: done.kept ?? null,
      },
      lines: [
        `${done.rows} rows were restored from ${new Date(opened.header.created_at_ms).toISOString()}; ${done.dataKeys} data keys ` +
          `are wrapped by the master key ${vault.masterKeyId} now.`,
        ...(done.filesOutside === 0
          ? []
          : [
              `The content of ${done.filesOutside} files is not in the backup: it is read from the bucket of MILLRACE_FILES_BUCKET, and can be written there once the ` +
                `object ${settings.filesPrefix}${claimKey} was removed, which says that no other instance uses it.`,
            ]),
        ...(done.kept === undefined ? [] : [`The store that was there is ${done.kept}.`]),
        'Start the service: it continues the jobs, timers and deliveries of the backup. Two instances from one backup both ' +
          'deliver, poll and refresh tokens: stop the other one first, or look around with MILLRACE_ROLES=api.',
      ],
    };
  } finally {
    release();
  }
}

async function confirmReplacing(context: OfflineContext, options: Options, store: string): Promise<void> {
  if (options.yes !== undefined) return;
  if (!context.isInteractive)
    throw new UsageError('--replace asks first: add --yes where there is no terminal');
  const { default: confirm } = await import('@inquirer/confirm');
  const what =
    store === 'sqlite' ? `the store in ${context.settings.data}` : 'the database of MILLRACE_DATABASE_URL';
  const message = `Everything in ${what} is replaced by the backup${store === 'sqlite' ? '; a copy is kept' : ', and no copy is kept'}. Continue?`;
  const isSure = await answered(confirm({ message, default: false }, { output: process.stderr }));
  if (!isSure) throw new BackupError('nothing was changed');
}

/** Locks the data folder until the returned function is called. Throws `BackupError` when the service has it. */
export function holdFolder(folder: string): () => void {
  try {
    return lockFolder(folder);
  } catch (error) {
    if (!(error instanceof FolderLockedError)) throw error;
    throw new BackupError(`the service is running on the data folder ${folder}: stop it first`, {
      cause: error,
    });
  }
}

function told({ created_at_ms, millrace, store }: BackupHeader) {
  return { created_at: Math.floor(created_at_ms / 1000), version: millrace, from_store: store };
}

/** Ctrl-C leaves nothing half done. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => controller.abort());
  return controller.signal;
}

function bytesDone({ status }: OfflineContext, what: string, all: number): (bytes: number) => void {
  const paced = nowAndThen();
  return (bytes) => paced(() => status(`${share(bytes, all)} ${what}`));
}

/** Throttles progress to a rate that a reader can follow. */
function nowAndThen(): (tell: () => void) => void {
  let last = 0;
  return (tell) => {
    const now = performance.now();
    if (now - last < tellEveryMs) return;
    last = now;
    tell();
  };
}

function share(part: number, whole: number): string {
  return `${Math.min(100, Math.floor((part / Math.max(1, whole)) * 100))} %`;
}

function megabytes(bytes: number): string {
  return bytes < 1024 ** 2 ? `${Math.ceil(bytes / 1024)} KB` : `${(bytes / 1024 ** 2).toFixed(1)} MB`;
}
