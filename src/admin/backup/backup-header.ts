import { randomBytes } from 'node:crypto';
import { open } from 'node:fs/promises';
import { migrations } from '#storage/migrate.ts';
import { BackupError } from './backup-error.ts';
import { type BackupSecret, type KeyDerivation, type ScryptCost, scryptCost } from './backup-key.ts';

/** The first line of every backup: what it is, and which version of the form. */
const magic = 'millrace backup';
const formatVersion = 1;
const headerBytesMax = 64 * 1024;
/** What a Date takes. */
const epochMsMax = 8.64e15;

/** The second line, as JSON: the only clear text of the file. */
export interface BackupHeader {
  /** Epoch milliseconds of the moment it shows. */
  created_at_ms: number;
  /** Version of Millrace that made it. */
  millrace: string;
  /** Store it was made from; it restores into either. */
  store: 'sqlite' | 'postgres';
  /** Names of the migrations that its tables had. */
  migrations: readonly string[];
  key: KeyDerivation;
  check: string;
}

export function newDerivation(secret: BackupSecret, cost: Readonly<ScryptCost> = scryptCost): KeyDerivation {
  const salt = randomBytes(16).toString('base64');
  return secret.kind === 'key' ? { kind: 'key', salt } : { kind: 'scrypt', salt, ...cost };
}

export function encodeHeader(header: BackupHeader): Buffer {
  return Buffer.from(`${magic} ${formatVersion}\n${JSON.stringify(header)}\n`, 'utf8');
}

/** The header of a file, and its bytes. Throws `BackupError` for a file that is none, or of a form we do not know. */
export async function readHeader(file: string): Promise<{ header: BackupHeader; bytes: Buffer }> {
  const start = await readStart(file);
  const first = start.indexOf(10);
  const second = first === -1 ? -1 : start.indexOf(10, first + 1);
  const version = new RegExp(`^${magic} (\\d{1,6})$`).exec(
    start.toString('latin1', 0, Math.max(0, first)),
  )?.[1];
  if (version === undefined) throw new BackupError(`${file} is not a backup of Millrace`);
  if (Number(version) !== formatVersion) {
    throw new BackupError(
      `${file} has form ${version}, this version of Millrace reads form ${formatVersion}: restore it with a newer version`,
    );
  }
  if (second === -1) throw new BackupError(`${file} is cut off: it ends in its header`);
  const header = parseHeader(file, start.toString('utf8', first + 1, second));
  return { header, bytes: start.subarray(0, second + 1) };
}

/** Throws `BackupError` for a backup whose tables this version does not know. */
export function refuseNewer({ migrations: names, millrace }: BackupHeader): void {
  const unknown = names.filter((name, index) => migrations[index]?.name !== name);
  if (unknown.length === 0) return;
  throw new BackupError(
    `this backup was made by a newer version of Millrace (${millrace}; it has ${unknown.join(', ')}): restore it with ` +
      'that version or a later one',
  );
}

async function readStart(file: string): Promise<Buffer> {
  const handle = await open(file, 'r').catch((error: NodeJS.ErrnoException) => {
    throw new BackupError(
      error.code === 'ENOENT' ? `there is no file ${file}` : `${file} cannot be read: ${error.message}`,
      { cause: error },
    );
  });
  try {
    if (!(await handle.stat()).isFile()) throw new BackupError(`${file} is not a file`);
    const buffer = Buffer.alloc(headerBytesMax);
    const { bytesRead } = await handle.read(buffer, 0, headerBytesMax, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

function parseHeader(file: string, text: string): BackupHeader {
  let header: Partial<BackupHeader> | null;
  try {
    header = JSON.parse(text) as Partial<BackupHeader> | null;
  } catch (error) {
    throw new BackupError(`${file} is damaged: its header is no JSON`, { cause: error });
  }
  const { created_at_ms: at, millrace, store, migrations: names, key, check } = header ?? {};
  // Texts of it are printed before they are authenticated.
  const isWhole =
    typeof at === 'number' &&
    Math.abs(at) <= epochMsMax &&
    isPlain(millrace) &&
    (store === 'sqlite' || store === 'postgres') &&
    Array.isArray(names) &&
    names.every(isPlain) &&
    typeof check === 'string' &&
    typeof key?.salt === 'string' &&
    (key.kind === 'key' || (key.kind === 'scrypt' && [key.n, key.r, key.p].every(Number.isInteger)));
  if (!isWhole) throw new BackupError(`${file} is damaged: its header is not as it was written`);
  return { created_at_ms: at, millrace, store, migrations: names, key, check };
}

/** A version or the name of a migration. */
function isPlain(text: unknown): text is string {
  return typeof text === 'string' && /^[\w.+-]{1,100}$/.test(text);
}
