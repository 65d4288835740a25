import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, link, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

const keyBytes = 32;

/** Longest key file that is read: base64 or hex, and a line end. */
const keyFileBytesMax = 1024;

/** The master key cannot be had; the service must not start. The message never holds the key. */
export class MasterKeyError extends Error {
  override name = 'MasterKeyError';
}

/**
 * The key that wraps all data keys: from the text of the setting, else from the file `<data>.key` beside the data
 * folder, which is made when it is missing and `mayCreate` says that nothing is sealed yet.
 * Throws `MasterKeyError` when the setting or the file holds no key, when others may read the file, or when the file is
 * missing though it is needed.
 */
export async function loadMasterKey(options: {
  setting: string;
  dataFolder: string;
  mayCreate: boolean;
}): Promise<Buffer> {
  if (options.setting !== '') return keyOfSetting(options.setting, 'MILLRACE_ENCRYPTION_KEY');
  const path = keyFilePath(options.dataFolder);
  const existing = await readKeyFile(path);
  if (existing !== undefined) return existing;
  if (!options.mayCreate) {
    throw new MasterKeyError(
      `${path} is missing, and the database holds credentials sealed under it: bring the file back from your backup, ` +
        'or give its content as MILLRACE_ENCRYPTION_KEY',
    );
  }
  await createKeyFile(path);
  const created = await readKeyFile(path);
  if (created === undefined) throw new MasterKeyError(`${path} was removed while it was being made`);
  return created;
}

/** Beside the data folder, not in it: a copy of the folder is worth nothing without the key. */
export function keyFilePath(dataFolder: string): string {
  return `${dataFolder.replace(/[/\\]+$/, '')}.key`;
}

/** The new key file of a rotation, until it takes the place of the other: beside it, and durable before anything uses it. */
export function nextKeyFilePath(dataFolder: string): string {
  return `${keyFilePath(dataFolder)}.next`;
}

/** The key that a setting holds. Throws `MasterKeyError`, without the text, when it is none. */
export function keyOfSetting(text: string, name: string): Buffer {
  const key = parseKey(text);
  if (key === undefined)
    throw new MasterKeyError(`${name}: expected 32 bytes as base64 (44 characters) or hex (64)`);
  return key;
}

/**
 * Puts the file of the new key in the place of the old one, which stays beside it under the id of its key: what it
 * sealed may still be in backups. May be interrupted anywhere and done again. Returns the path of the old key.
 */
export async function replaceKeyFile(dataFolder: string, oldKeyId: string): Promise<string> {
  const path = keyFilePath(dataFolder);
  const kept = `${path}.${oldKeyId}`;
  try {
    await link(path, kept).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    await syncFolder(dirname(path));
    await rename(nextKeyFilePath(dataFolder), path);
    await syncFolder(dirname(path));
  } catch (error) {
    throw new MasterKeyError(`${path} cannot be replaced: ${(error as Error).message}`, { cause: error });
  }
  return kept;
}

function parseKey(text: string): Buffer | undefined {
  const trimmed = text.trim();
  if (/^[0-9a-f]{64}$/i.test(trimmed)) return Buffer.from(trimmed, 'hex');
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)) return undefined;
  const key = Buffer.from(trimmed, 'base64');
  return key.length === keyBytes ? key : undefined;
}

/** Undefined: there is no such file. Throws `MasterKeyError` for one that is not as it has to be. */
export async function readKeyFile(path: string): Promise<Buffer | undefined> {
  let file: FileHandle;
  try {
    // A link could point the service at another file than the one whose mode was checked by the operator.
    file = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'ELOOP')
      throw new MasterKeyError(`${path} is a symbolic link; expected the key file itself`);
    throw new MasterKeyError(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  try {
    const found = await file.stat();
    if (!found.isFile() || found.size > keyFileBytesMax)
      throw new MasterKeyError(`${path} is not a key file`);
    // Windows has no such bits; access there is the folder's business.
    if (process.platform !== 'win32' && (found.mode & 0o077) !== 0) {
      const mode = (found.mode & 0o777).toString(8).padStart(4, '0');
      throw new MasterKeyError(`${path} has mode ${mode}, so others may read it: run chmod 600 ${path}`);
    }
    const key = parseKey(await file.readFile('utf8'));
    if (key === undefined)
      throw new MasterKeyError(`${path} holds no key: expected 32 bytes as base64 or hex`);
    return key;
  } finally {
    await file.close();
  }
}

/**
 * Makes the file whole or not at all, and leaves one that another process made in the same moment: the key is written
 * and flushed under another name first. Linking fails when the final name is taken, renaming would replace it.
 */
export async function createKeyFile(path: string): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  try {
    const file = await open(draft, 'wx', 0o600);
    try {
      await file.writeFile(`${randomBytes(keyBytes).toString('base64')}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await link(draft, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  } catch (error) {
    throw new MasterKeyError(`${path} cannot be made: ${(error as Error).message}`, { cause: error });
  } finally {
    await rm(draft, { force: true });
  }
  await syncFolder(dirname(path));
}

/** Makes the new name durable. Windows cannot open folders, and does not need it. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const folder = await open(path, constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
