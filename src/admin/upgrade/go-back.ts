import type { AdminAnswer, OfflineContext, Options } from '#admin/admin-command-line.ts';
import { holdFolder } from '#admin/backup/backup-commands.ts';
import { BackupError } from '#admin/backup/backup-error.ts';
import { secretOf } from '#admin/backup/backup-secret.ts';
import { checkBackup, openBackup } from '#admin/backup/read-backup.ts';
import { migrations } from '#storage/migrate.ts';
import { setStoreAside } from '#storage/restore-target.ts';
import { type InstallationKind, installArguments } from './installation-kind.ts';
import { runNpm } from './npm-client.ts';
import { runInstalled } from './run-installed.ts';
import { readRecord, removeRecord, type UpgradeRecord } from './upgrade-record.ts';

/**
 * `millrace upgrade --back`. Where the version of before knows all tables, it only takes its place again, and no data is lost. Otherwise it
 * restores the backup of the upgrade; the store of now is kept in `backups`, and put back when the restore fails.
 */
export async function goBack(
  context: OfflineContext & { installation: Extract<InstallationKind, { kind: 'global' | 'project' }> },
  options: Options,
): Promise<AdminAnswer> {
  const { settings, version, installation, environment, progress } = context;
  const record = await readRecord(settings.data);
  if (record === undefined || record.to !== version)
    throw new BackupError(`there is no upgrade to ${version} in ${settings.data} to go back from`);
  const added = migrations.map(({ name }) => name).filter((name) => !record.migrations.includes(name));
  const mustRestore = added.length > 0 && record.backup !== null;
  if (options.yes === undefined) return planOf(record, added, mustRestore);
  if (mustRestore && settings.databaseUrl !== '') {
    throw new BackupError(
      `the tables in PostgreSQL were changed (${added.join(', ')}): install millrace@${record.from}, set MILLRACE_DATABASE_URL to an ` +
        `empty database, and run: millrace restore ${record.backup}`,
    );
  }
  const release = settings.databaseUrl === '' ? holdFolder(settings.data) : () => {};
  let aside: Awaited<ReturnType<typeof setStoreAside>> | undefined;
  try {
    // All of it is read before anything is changed.
    if (mustRestore && record.backup !== null)
      await checkBackup(
        await openBackup(record.backup, () => secretOf(context, options, 'existing')),
        () => {},
      );
    const npmArguments = installArguments(installation, record.from);
    progress(`npm ${npmArguments.join(' ')}`);
    await runNpm(npmArguments, environment);
    if (mustRestore) aside = await setStoreAside(settings.data);
  } finally {
    release();
  }
  if (mustRestore && record.backup !== null) await restore(context, options, record.backup, aside);
  await removeRecord(settings.data);
  return {
    data: {
      installed: record.from,
      restored: mustRestore ? record.backup : null,
      replaced_store: aside?.file ?? null,
    },
    lines: [
      `Millrace ${record.from} is installed again.`,
      ...(mustRestore ? [`The backup ${record.backup} is restored.`] : ['The data is as it was.']),
      ...(aside === undefined ? [] : [`The store that was there is ${aside.file}.`]),
      'Start it: millrace',
    ],
  };
}

async function restore(
  context: OfflineContext,
  options: Options,
  file: string,
  aside: { putBack(): Promise<void> } | undefined,
): Promise<void> {
  const secret = (['passphrase-file', 'key-file'] as const).flatMap((name) => {
    const value = options[name];
    return value === undefined ? [] : [`--${name}`, value];
  });
  try {
    await runInstalled(['restore', file, '--yes', ...secret], context);
  } catch (error) {
    await aside?.putBack();
    throw error;
  }
}

function planOf(
  { from, to, backup }: UpgradeRecord,
  added: readonly string[],
  mustRestore: boolean,
): AdminAnswer {
  return {
    data: { installed: to, available: from, migrations: added, backup },
    lines: [
      `Installed   ${to}`,
      `Before it   ${from}`,
      mustRestore
        ? `Backup      ${backup} is restored, because ${from} does not know ${added.join(', ')}: what happened since is lost`
        : `Backup      not needed: ${from} knows all tables, and the data stays`,
      'Stop the service (with PostgreSQL, all nodes), then: millrace upgrade --back --yes',
    ],
  };
}
