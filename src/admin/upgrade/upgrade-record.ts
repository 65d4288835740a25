import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** What the last upgrade did, in `upgrade.json` in the data folder: the way back. */
export interface UpgradeRecord {
  from: string;
  to: string;
  /** Names of the migrations that the version of before knows. */
  migrations: readonly string[];
  /** Path of the backup; null: there was no store yet. */
  backup: string | null;
}

function fileOf(dataFolder: string): string {
  return join(dataFolder, 'upgrade.json');
}

export async function writeRecord(dataFolder: string, record: UpgradeRecord): Promise<void> {
  const file = fileOf(dataFolder);
  await writeFile(`${file}.part`, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.part`, file);
}

/** Undefined: nothing was upgraded here. */
export async function readRecord(dataFolder: string): Promise<UpgradeRecord | undefined> {
  const text = await readFile(fileOf(dataFolder), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : (JSON.parse(text) as UpgradeRecord);
}

export async function removeRecord(dataFolder: string): Promise<void> {
  await rm(fileOf(dataFolder), { force: true });
}
