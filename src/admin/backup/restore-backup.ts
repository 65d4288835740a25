import { databaseTimeMs, listLiveNodes } from '#jobs/node-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { RestoreTarget } from '#storage/restore-target.ts';
import type { Cell } from '#storage/snapshot.ts';
import type { Db } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { BackupError } from './backup-error.ts';
import { backupTables } from './backup-tables.ts';
import type { OpenBackup } from './read-backup.ts';
import { countUsers, settleRestored } from './settle-store.ts';
import { rewrapper } from './write-backup.ts';

export interface RestoreJob {
  /** Checked already: all of it can be read. */
  backup: OpenBackup;
  target: RestoreTarget;
  /** The vault of the instance that receives the backup. */
  vault: Vault;
  /** True: a store in use may be replaced. */
  mayReplace: boolean;
  clock: Clock;
  onProgress: (restored: { table: string; rows: number; fileBytes: number }) => void;
  signal: AbortSignal;
}

export interface RestoredBackup {
  rows: number;
  /** Data keys that were rewrapped. */
  dataKeys: number;
  lost: string[];
  /** Files whose content is in a bucket, and was not in the backup. */
  filesOutside: number;
  /** Where the store that was there is now. */
  kept: string | undefined;
}

/** Puts what is in a backup in the place of a store: all of it, or nothing. */
export async function restoreBackup(job: RestoreJob): Promise<RestoredBackup> {
  const { backup, target, vault, clock, signal } = job;
  refuseUsed(target.users, job.mayReplace);
  const done: RestoredBackup = { rows: 0, dataKeys: 0, lost: [], filesOutside: 0, kept: undefined };
  done.kept = await target.replace({
    migrations: backup.header.migrations,
    tables: Object.keys(backupTables),
    mayBegin: async (db) => {
      await refuseLiveNodes(db);
      refuseUsed(await countUsers(db), job.mayReplace);
    },
    fill: async (insert) => {
      // A transaction that is tried again starts over.
      Object.assign(done, { rows: 0, dataKeys: 0, lost: [], filesOutside: 0 });
      let fileBytes = 0;
      const onRead = (bytes: number) => {
        fileBytes = bytes;
      };
      for await (const { table, columns, rows } of backup.batches(onRead)) {
        if (signal.aborted) throw new BackupError('interrupted: nothing was changed');
        const changed =
          table === 'data_keys' ? rows.map(rewrapper(columns, backup.keys.vault, vault, done.lost)) : rows;
        if (table === 'data_keys') done.dataKeys += rows.length;
        if (table === 'files') done.filesOutside += countOutside(columns, rows);
        if (rows.length > 0) await insert(table, columns, changed as Cell[][]);
        done.rows += rows.length;
        job.onProgress({ table, rows: done.rows, fileBytes });
      }
      done.dataKeys -= done.lost.length;
    },
    finish: (tx) => settleRestored(tx, vault.masterKeyId, clock.now()),
  });
  return done;
}

/** A backup of an older version has no such column: all content was in the store. */
function countOutside(columns: readonly string[], rows: readonly (readonly Cell[])[]): number {
  const at = columns.indexOf('content_in');
  return at === -1 ? 0 : rows.filter((row) => row[at] === 's3').length;
}

export function refuseUsed(users: number | undefined, mayReplace: boolean): void {
  if (users === 0 || mayReplace) return;
  if (users === undefined) {
    throw new BackupError(
      'the store that is there is damaged: --replace puts the backup in its place, and keeps the damaged one',
    );
  }
  throw new BackupError(
    `this instance is in use: it has ${users} ${users === 1 ? 'user' : 'users'}. Restore into an empty one, or ` +
      'say --replace: everything in it is then replaced by the backup',
  );
}

/** Running nodes would continue with what they remember of the previous store. */
async function refuseLiveNodes(db: Db): Promise<void> {
  const nodes = await listLiveNodes(db, await databaseTimeMs(db));
  if (nodes.length === 0) return;
  throw new BackupError(
    `the service is running (${nodes.join(', ')}): stop every process of it first. One that was killed counts as running ` +
      'until its lease runs out (MILLRACE_NODE_LEASE, 15 seconds by default)',
  );
}
