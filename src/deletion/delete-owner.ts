import { addRemovedRows, changeDeletion, findDeletion } from '#identity/deletion-store.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { insertJobs, settleJobs } from '#jobs/job-store.ts';
import { removeOwnedRows } from '#storage/owned-rows.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DeletionTable } from '#storage/tables/deletion-tables.ts';
import { deletionJob } from './begin-deletion.ts';
import { type EndOwnerOptions, endOwner } from './end-owner.ts';
import { tablesToEmpty } from './removed-tables.ts';

/**
 * A request, a run or an import that was under way when the deletion was accepted may write once more. So a second look follows, later than
 * any of them lasts.
 */
const lateLookMs = 3_600_000;

export interface DeleteOwnerOptions extends EndOwnerOptions {
  store: Store;
  node: string;
  /** Removes what these owners have outside of the store, before what is known of it goes. Throws when that cannot be done now. */
  removeContent: (ownerIds: readonly string[], signal: AbortSignal) => Promise<void>;
}

/**
 * Carries out an accepted deletion: ends what runs, then empties table by table, a batch per transaction. The job ends with the last one, so
 * after a crash it continues with what is left.
 */
export function deleteOwnerHandler(options: DeleteOwnerOptions): JobHandler {
  const { store, node, clock, logger } = options;
  return {
    async run(job, signal) {
      const { deletion_id: id, isLate = false } = job.payload as JobPayloads['delete_owner'];
      const settle = (end: (tx: Tx) => Promise<unknown>) =>
        store.transaction(async (tx) => {
          const held = await settleJobs(store, tx, { node, jobs: [job] });
          if (held.has(job.id)) await end(tx);
        });
      const deletion = await findDeletion(store.read, id);
      if (deletion === undefined) return settle(async () => {});
      if (isLate || deletion.state === 'ending') await endOwner(options, deletion.subject_id, signal);
      if (!isLate) await store.transaction((tx) => changeDeletion(tx, id, { state: 'removing' }));
      await options.removeContent(ownersOf(deletion), signal);
      await removeRows(store, deletion, signal);
      if (isLate) return settle(async () => {});
      const nowMs = clock.now();
      await settle(async (tx) => {
        // The name of a person is not kept; the audit of the instance has it for as long as it keeps its records.
        const name = deletion.kind === 'user' ? { name: null } : {};
        await changeDeletion(tx, id, { state: 'done', ended_at_ms: nowMs, ...name });
        await insertJobs(tx, [deletionJob({ deletion, isLate: true, runAtMs: nowMs + lateLookMs, nowMs })]);
      });
      logger.info({ deletion: id, owner: deletion.subject_id }, 'deletion.finished');
    },
    // A deletion that was accepted is not given up.
    async quarantined(job) {
      const { deletion_id: id, isLate = false } = job.payload as JobPayloads['delete_owner'];
      const deletion = await findDeletion(store.read, id);
      if (deletion === undefined) return;
      const nowMs = clock.now();
      const again = deletionJob({ deletion, isLate, runAtMs: nowMs + lateLookMs, nowMs });
      await store.transaction((tx) => insertJobs(tx, [again]));
    },
  };
}

/** Removes all rows of the owners of a deletion. */
export async function removeRows(
  store: Pick<Store, 'transaction' | 'read' | 'reclaimSpace'>,
  deletion: Pick<DeletionTable, 'id' | 'owner_ids'>,
  signal: AbortSignal,
): Promise<void> {
  const ownerIds = ownersOf(deletion);
  const onBatch = (tx: Tx, removed: number) => addRemovedRows(tx, deletion.id, removed);
  for (const rows of tablesToEmpty) await removeOwnedRows(store, rows, { ownerIds, signal, onBatch });
}

function ownersOf({ owner_ids }: Pick<DeletionTable, 'owner_ids'>): string[] {
  return JSON.parse(owner_ids) as string[];
}
