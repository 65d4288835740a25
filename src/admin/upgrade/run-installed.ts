import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { OfflineContext } from '#admin/admin-command-line.ts';
import { BackupError } from '#admin/backup/backup-error.ts';
import { installationFolder } from '#lib/installation.ts';
import { launcherOf } from './installation-kind.ts';

/** Runs a command of the version that is installed now; this process is still the one of before. Throws `BackupError` when it fails. */
export async function runInstalled(
  words: readonly string[],
  { environment, folder }: OfflineContext,
): Promise<void> {
  const child = spawn(launcherOf(installationFolder), [...words], {
    cwd: folder,
    env: { ...environment },
    stdio: ['inherit', 'ignore', 'inherit'],
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0)
    throw new BackupError(`\`millrace ${words[0]}\` of the installed version failed, see above`);
}
