import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { OfflineContext, Options } from '#admin/admin-command-line.ts';
import { UsageError } from '#admin/admin-command-line.ts';
import { readKeyFile } from '#vault/master-key.ts';
import { BackupError } from './backup-error.ts';
import type { BackupSecret } from './backup-key.ts';

/** A thief of the file has unlimited time to guess. */
const passphraseCharactersMin = 12;
const passphraseBytesMax = 64 * 1024;

/**
 * The secret of a backup: from the file of a recovery key, the file of a passphrase, MILLRACE_BACKUP_PASSPHRASE, or the
 * user at the terminal. Throws `BackupError` or `UsageError` where there is none.
 */
export async function secretOf(
  { settings, folder, isInteractive }: Pick<OfflineContext, 'settings' | 'folder' | 'isInteractive'>,
  options: Options,
  use: 'new' | 'existing',
): Promise<BackupSecret> {
  const { 'key-file': keyFile, 'passphrase-file': passphraseFile } = options;
  if (keyFile !== undefined && passphraseFile !== undefined)
    throw new UsageError('--key-file and --passphrase-file: give one of them');
  if (keyFile !== undefined) {
    const path = resolve(folder, keyFile);
    const key = await readKeyFile(path);
    if (key === undefined) throw new BackupError(`--key-file: there is no file ${path}`);
    return { kind: 'key', key };
  }
  const text =
    passphraseFile !== undefined
      ? await readPassphrase(resolve(folder, passphraseFile))
      : settings.backupPassphrase !== ''
        ? settings.backupPassphrase
        : await asked(isInteractive, use);
  if (use === 'new' && [...text].length < passphraseCharactersMin) {
    throw new BackupError(
      `the passphrase has ${[...text].length} characters; expected at least ${passphraseCharactersMin}, such as four words`,
    );
  }
  return { kind: 'passphrase', text };
}

async function readPassphrase(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw new BackupError(`--passphrase-file: there is no file ${path}`);
  if (!found.isFile() || found.size > passphraseBytesMax)
    throw new BackupError(`--passphrase-file: ${path} is no file with a passphrase`);
  if (process.platform !== 'win32' && (found.mode & 0o077) !== 0)
    throw new BackupError(`others may read ${path}: run chmod 600 ${path}`);
  const text = (await readFile(path, 'utf8')).replace(/\r?\n$/, '');
  if (text === '') throw new BackupError(`--passphrase-file: ${path} is empty`);
  return text;
}

async function asked(isInteractive: boolean, use: 'new' | 'existing'): Promise<string> {
  if (!isInteractive) {
    throw new UsageError(
      'there is no passphrase: give --passphrase-file or --key-file, or set MILLRACE_BACKUP_PASSPHRASE',
    );
  }
  const { default: password } = await import('@inquirer/password');
  const ask = (message: string) => answered(password({ message, mask: true }, { output: process.stderr }));
  const text = await ask('Passphrase of the backup');
  if (use === 'new' && (await ask('The same once more')) !== text)
    throw new BackupError('these are two different passphrases');
  return text;
}

/** The answer to a question; Ctrl-C is one too. */
export function answered<T>(question: Promise<T>): Promise<T> {
  return question.catch((error: unknown) => {
    if ((error as Error).name !== 'ExitPromptError') throw error;
    throw new BackupError('interrupted: nothing was changed', { cause: error });
  });
}
