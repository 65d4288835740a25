import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { createZstdDecompress } from 'node:zlib';
import { lostMark } from '#vault/vault.ts';
import { BackupError } from './backup-error.ts';
import { type BackupHeader, readHeader, refuseNewer } from './backup-header.ts';
import { type BackupKeys, type BackupSecret, deriveKeys, isSameCheck } from './backup-key.ts';
import { readRecords, type TableBatch } from './backup-records.ts';
import { openFrames } from './sealed-frames.ts';
import { rewrapper } from './write-backup.ts';

const readBytes = 256 * 1024;

/** A backup whose secret was right. */
export interface OpenBackup {
  file: string;
  fileBytes: number;
  header: BackupHeader;
  keys: BackupKeys;
  /** Its rows, from the beginning each time; `onRead` gets the number of bytes read of the file. */
  batches(onRead?: (bytes: number) => void): AsyncIterable<TableBatch>;
}

/** Throws `BackupError` for what is no backup, a wrong secret, or a newer version. */
export async function openBackup(
  file: string,
  secretFor: (header: BackupHeader) => Promise<BackupSecret>,
): Promise<OpenBackup> {
  const { header, bytes } = await readHeader(file);
  refuseNewer(header);
  const secret = await secretFor(header);
  const keys = await deriveKeys(secret, header.key);
  if (!isSameCheck(keys.check, header.check)) {
    throw new BackupError(
      secret.kind === 'key'
        ? 'this is not the recovery key that the backup was made with; nothing was changed'
        : 'this is not the passphrase that the backup was made with; nothing was changed',
    );
  }
  const bound = createHash('sha256').update(bytes).digest();
  const batches = (onRead: (bytes: number) => void = () => {}) =>
    readRecords(unpacked(file, bytes.length, { key: keys.body, bound }, onRead));
  return { file, fileBytes: (await stat(file)).size, header, keys, batches };
}

async function* unpacked(
  file: string,
  start: number,
  key: { key: Buffer; bound: Buffer },
  onRead: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  const stored = createReadStream(file, { start, highWaterMark: readBytes });
  const counted = async function* () {
    let read = start;
    for await (const chunk of stored) {
      read += (chunk as Buffer).length;
      onRead(read);
      yield chunk as Buffer;
    }
  };
  const plain = Readable.from(openFrames(counted(), key), { objectMode: false });
  const unpack = createZstdDecompress();
  // An error on the way comes out at its end.
  pipeline(plain, unpack, () => {});
  try {
    for await (const chunk of unpack) yield chunk as Buffer;
  } catch (error) {
    if (error instanceof BackupError) throw error;
    throw new BackupError(`${file} cannot be read: ${(error as Error).message}`, { cause: error });
  } finally {
    stored.destroy();
    unpack.destroy();
  }
}

export interface CheckedBackup {
  tables: Map<string, number>;
  rows: number;
  dataKeys: number;
  lost: string[];
}

/** Reads all of it: every part is as it was written, every row is there, and every data key opens. */
export async function checkBackup(
  backup: OpenBackup,
  onRead: (bytes: number) => void = () => {},
): Promise<CheckedBackup> {
  const checked: CheckedBackup = { tables: new Map(), rows: 0, dataKeys: 0, lost: [] };
  for await (const { table, columns, rows } of backup.batches(onRead)) {
    checked.tables.set(table, (checked.tables.get(table) ?? 0) + rows.length);
    checked.rows += rows.length;
    if (table !== 'data_keys') continue;
    const rewrap = rewrapper(columns, backup.keys.vault, backup.keys.vault, checked.lost);
    for (const row of rows) {
      const wrapped = rewrap(row)[columns.indexOf('wrapped')];
      if (!String(wrapped).startsWith(lostMark)) checked.dataKeys += 1;
    }
  }
  return checked;
}
