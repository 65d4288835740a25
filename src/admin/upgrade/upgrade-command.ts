import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type AdminAnswer,
  type AdminCommands,
  type OfflineContext,
  type Options,
  UsageError,
} from '#admin/admin-command-line.ts';
import { backup, holdFolder } from '#admin/backup/backup-commands.ts';
import { BackupError } from '#admin/backup/backup-error.ts';
import { installationFolder, isPackaged } from '#lib/installation.ts';
import { migrations } from '#storage/migrate.ts';
import { goBack } from './go-back.ts';
import { installArguments, installationKind } from './installation-kind.ts';
import { findVersion, type PublishedVersion, runNpm } from './npm-client.ts';
import { runInstalled } from './run-installed.ts';
import { writeRecord } from './upgrade-record.ts';

/** `millrace upgrade`: another version in the place of this one, with a backup and a way back. */
export const upgradeCommands: AdminCommands = {
  upgrade: {
    required: {},
    optional: { to: '<version>', back: '', yes: '', 'passphrase-file': '<file>', 'key-file': '<file>' },
    summary:
      'says what an upgrade to the newest version (or --to) would do; --yes does it: a backup, the installation by npm, the ' +
      'migrations. --back: the version before it again, and the backup where tables have changed',
    api: null,
    runOffline: upgrade,
  },
};

const cloneLines = [
  'This is a clone. Stop the service, then:',
  '  millrace backup FOLDER',
  '  git pull',
  '  npm ci',
  '  npm start',
];

async function upgrade(context: OfflineContext, options: Options): Promise<AdminAnswer> {
  if (options.back !== undefined && options.to !== undefined)
    throw new UsageError('--back and --to: give one of them');
  const installation = installationKind(installationFolder, isPackaged);
  if (installation.kind === 'clone')
    return { data: { installed: context.version, installation: 'clone' }, lines: cloneLines };
  if (installation.kind === 'npx') {
    const lines = ['npx runs the version that it is asked for: npx millrace@latest'];
    return { data: { installed: context.version, installation: 'npx' }, lines };
  }
  if (options.back !== undefined) return goBack({ ...context, installation }, options);
  const wanted = await findVersion(options.to ?? 'latest', context.environment);
  if (wanted.version === context.version) {
    const lines = [`Millrace ${context.version} is installed, and nothing is to be done.`];
    return { data: { installed: context.version, available: wanted.version, migrations: [] }, lines };
  }
  const plan = planOf(context, wanted);
  if (options.yes === undefined) return plan;
  const npmArguments = installArguments(installation, wanted.version);
  const file = await backUp(context, options);
  await writeRecord(context.settings.data, {
    ...{ from: context.version, to: wanted.version, backup: file },
    migrations: migrations.map(({ name }) => name),
  });
  context.progress(`npm ${npmArguments.join(' ')}`);
  await runNpm(npmArguments, context.environment);
  if (file !== null) await runInstalled(['store', 'migrate'], context);
  return {
    data: { ...(plan.data as object), backup: file, installed: wanted.version },
    lines: [
      `Millrace ${wanted.version} is installed${file === null ? '' : `, and the tables are as it needs them. The backup is ${file}`}.`,
      'Start it: millrace. To go back: millrace upgrade --back --yes',
    ],
  };
}

function planOf({ version, settings }: OfflineContext, wanted: PublishedVersion): AdminAnswer {
  const missing = migrations.filter(({ name }) => !wanted.migrations.includes(name));
  if (missing.length > 0) {
    throw new BackupError(
      `Millrace ${wanted.version} is older than the tables of ${version} (it lacks ${missing.map(({ name }) => name).join(', ')}): ` +
        'only `millrace upgrade --back` or a backup of that version leads there',
    );
  }
  const known = new Set(migrations.map(({ name }) => name));
  const pending = wanted.migrations.filter((name) => !known.has(name));
  return {
    data: { installed: version, available: wanted.version, migrations: pending, data: settings.data },
    lines: [
      `Installed   ${version}, with its data in ${settings.data}`,
      `Available   ${wanted.version}`,
      `Migrations  ${pending.length === 0 ? 'none' : pending.join(', ')}`,
      `Way back    a backup in ${join(settings.data, 'backups')} is made first; \`millrace upgrade --back --yes\` brings ${version} back` +
        (pending.length === 0 ? '' : ', and the backup: what happens after the upgrade is lost then'),
      'Stop the service (with PostgreSQL, all nodes), then: millrace upgrade --yes',
    ],
  };
}

/** Returns the file; null: there is no store yet. */
async function backUp(context: OfflineContext, options: Options): Promise<string | null> {
  const { settings } = context;
  if (settings.databaseUrl === '' && !existsSync(join(settings.data, 'millrace.sqlite'))) {
    await mkdir(settings.data, { recursive: true, mode: 0o700 });
    return null;
  }
  const release = settings.databaseUrl === '' ? holdFolder(settings.data) : () => {};
  try {
    const folder = join(settings.data, 'backups');
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const { data } = await backup(context, options, folder);
    return (data as { file: string }).file;
  } finally {
    release();
  }
}
