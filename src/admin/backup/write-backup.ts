import { createHash, randomBytes } from 'node:crypto';
import { createWriteStream, existsSync } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress } from 'node:zlib';
import type { Clock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import { type Migration, migrations } from '#storage/migrate.ts';
import type { Cell, StoreSnapshot } from '#storage/snapshot.ts';
import { usageOfPlace } from '#user-data/files/file-bucket-store.ts';
import { checkMasterKey } from '#vault/check-master-key.ts';
import { lostMark, type Vault } from '#vault/vault.ts';
import { BackupError } from './backup-error.ts';
import { encodeHeader, newDerivation } from './backup-header.ts';
import { type BackupKeys, type BackupSecret, deriveKeys, type ScryptCost } from './backup-key.ts';
import { completeLine, endLine, rowLine, tableLine } from './backup-records.ts';
import { keptTables } from './backup-tables.ts';
import { sealFrames } from './sealed-frames.ts';

const blockCharacters = 128 * 1024;

export interface BackupJob {
  snapshot: StoreSnapshot;
  /** Opens the data keys of the store. */
  vault: Vault;
  secret: BackupSecret;
  /** A file that is not there yet, or a folder, in which it gets a name by its time. */
  target: string;
  clock: Clock;
  version: string;
  /** For tests of older and newer versions; else those of this one, and no other store is backed up. */
  migrations?: readonly Pick<Migration, 'name'>[];
  /** For tests, which make many backups; else that of every backup. */
  scryptCost?: ScryptCost;
  /** How far it has come. */
  onProgress: (table: string, written: WrittenSoFar) => void;
  signal: AbortSignal;
}

export interface WrittenSoFar {
  tables: number;
  rows: number;
  /** Before compression. */
  bytes: number;
}

export interface WrittenBackup extends WrittenSoFar {
  file: string;
  createdAtMs: number;
  fileBytes: number;
  /** Data keys that the master key did not open: they are in it as they are. */
  lost: string[];
  /** Files whose content is in a bucket, which is not in the backup. */
  outside: { files: number; bytes: number };
}

/**
 * Writes everything durable of a store into one file, which is there whole or not at all. Throws `BackupError`, and
 * UnavailableError `wrong_encryption_key` or MasterKeyError where the data keys cannot be rewrapped.
 */
export async function writeBackup(job: BackupJob): Promise<WrittenBackup> {
  const { snapshot, vault, secret, clock, version } = job;
  refuseOtherSchema(snapshot.migrations, job.migrations ?? migrations);
  await checkMasterKey(snapshot.db, vault);
  const createdAtMs = clock.now();
  const file = await fileFor(job.target, createdAtMs);
  const key = newDerivation(secret, job.scryptCost);
  const keys = await deriveKeys(secret, key);
  const header = encodeHeader({
    created_at_ms: createdAtMs,
    millrace: version,
    store: snapshot.name,
    migrations: snapshot.migrations,
    key,
    check: keys.check,
  });
  const written: WrittenSoFar = { tables: 0, rows: 0, bytes: 0 };
  const lost: string[] = [];
  const draft = `${file}.partial-${randomBytes(4).toString('hex')}`;
  try {
    await pipeline(
      Readable.from(linesOf(job, keys, written, lost), { objectMode: false, highWaterMark: 1 }),
      createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 3 } }),
      async function* (packed: AsyncIterable<Buffer>) {
        yield header;
        yield* sealFrames(packed, { key: keys.body, bound: createHash('sha256').update(header).digest() });
      },
      createWriteStream(draft, { flags: 'wx', mode: 0o600, flush: true }),
      { signal: job.signal },
    );
    await publish(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    if (job.signal.aborted) throw new BackupError('interrupted: no backup was made', { cause: error });
    throw error;
  }
  const outside = await contentOutside(snapshot);
  return { ...written, file, createdAtMs, fileBytes: (await stat(file)).size, lost, outside };
}

/** A store of an older version has all content of files itself. */
async function contentOutside(snapshot: StoreSnapshot): Promise<WrittenBackup['outside']> {
  const columns = await snapshot.columnsOf('files');
  return columns.includes('content_in') ? usageOfPlace(snapshot.db, 's3') : { files: 0, bytes: 0 };
}

async function* linesOf(
  { snapshot, vault, onProgress }: BackupJob,
  keys: BackupKeys,
  written: WrittenSoFar,
  lost: string[],
): AsyncGenerator<Buffer> {
  const text = new TextBlocks();
  const counted = (block: Buffer): Buffer => {
    written.bytes += block.length;
    return block;
  };
  for (const table of keptTables) {
    const columns = await snapshot.columnsOf(table);
    // A store of an older version has not all of them.
    if (columns.length === 0) continue;
    text.add(tableLine(table, columns));
    const rewrap = table === 'data_keys' ? rewrapper(columns, vault, keys.vault, lost) : undefined;
    let rows = 0;
    for await (const batch of snapshot.rows(table, columns)) {
      for (const row of batch) {
        text.add(rowLine(rewrap === undefined ? row : rewrap(row)));
        if (text.isFull) yield counted(text.take());
      }
      rows += batch.length;
      written.rows += batch.length;
      onProgress(table, written);
    }
    text.add(endLine(table, rows));
    written.tables += 1;
  }
  text.add(completeLine(written.tables, written.rows));
  yield counted(text.take());
}

/** Lines together: a row by itself is too small a piece to compress, encrypt and write. */
class TextBlocks {
  #lines: string[] = [];
  #size = 0;

  get isFull(): boolean {
    return this.#size >= blockCharacters;
  }

  add(line: string): void {
    this.#lines.push(line);
    this.#size += line.length;
  }

  take(): Buffer {
    const block = Buffer.from(this.#lines.join(''), 'utf8');
    this.#lines = [];
    this.#size = 0;
    return block;
  }
}

/** Rows of `data_keys`, each wrapped by another master key. One that does not open is marked, as a rotation does. */
export function rewrapper(
  columns: readonly string[],
  from: Vault,
  to: Vault,
  lost: string[],
): (row: readonly Cell[]) => Cell[] {
  const at = (name: string) => columns.indexOf(name);
  const [owner, id, wrappedAt] = [at('owner_id'), at('key_id'), at('wrapped')];
  return (row) => {
    const key = { ownerId: String(row[owner]), keyId: String(row[id]), wrapped: String(row[wrappedAt]) };
    const place = `${key.keyId} of ${key.ownerId}`;
    if (key.wrapped.startsWith(lostMark)) {
      lost.push(place);
      return [...row];
    }
    try {
      return row.with(wrappedAt, from.rewrap(key, to).wrapped);
    } catch (error) {
      if (!(error instanceof UnavailableError) || error.code !== 'sealed_value_damaged') throw error;
      lost.push(place);
      return row.with(wrappedAt, `${lostMark}${key.wrapped}`);
    }
  };
}

function refuseOtherSchema(applied: readonly string[], known: readonly Pick<Migration, 'name'>[]): void {
  const names = known.map(({ name }) => name);
  if (applied.length === 0) throw new BackupError('nothing is in this store yet: start the service once');
  if (applied.join() === names.join()) return;
  throw new BackupError(
    'the store is of another version of Millrace than this program: make backups with the version that runs the service ' +
      `(the store ends with ${applied.at(-1)}, this program with ${names.at(-1)})`,
  );
}

async function fileFor(target: string, nowMs: number): Promise<string> {
  const found = await stat(target).catch(() => undefined);
  if (found?.isDirectory() === true) {
    const time = new Date(nowMs).toISOString().slice(0, 19).replaceAll(':', '-');
    return fileFor(join(target, `millrace-${time}Z.backup`), nowMs);
  }
  if (found !== undefined) throw new BackupError(`${target} is there already: a backup replaces nothing`);
  // A file of this name would be the one backup of a job that runs each night.
  if (/[/\\]$/.test(target)) throw new BackupError(`there is no folder ${target}: make it first`);
  if (!existsSync(dirname(target))) throw new BackupError(`there is no folder ${dirname(target)}`);
  return target;
}

/** Whole and on disk under its name, or not there. */
async function publish(draft: string, file: string): Promise<void> {
  await rename(draft, file);
  if (process.platform === 'win32') return;
  const folder = await open(dirname(file), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
