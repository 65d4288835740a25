import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { DataStoreEntryTable } from '#storage/tables/workflow-tables.ts';
import { entriesPerOwnerMax } from './data-store-limits.ts';
import { lockDataStores, resizeDataStore, sizesOfOwners } from './data-store-store.ts';
import { deleteEntries, putEntries, readHeads, setExpiry } from './entry-store.ts';

/** One change of an entry, by its store and key; a store of somebody else than `ownerId` is unknown. */
export type EntryWrite = { storeId: string; ownerId: string; key: string; nowMs: number } & (
  | { kind: 'set' /** JSON text. */; value: string; expiresAtMs: number | null }
  | { kind: 'set_ttl'; expiresAtMs: number | null }
  | { kind: 'delete' }
);

export type EntryWriteResult =
  /** `existed`: there was an entry to change. */
  | { written: true; existed: boolean }
  /** The store is gone, or its owner has as many entries or bytes as one may have. */
  | { written: false; reason: 'unknown' | 'too_many' | 'too_large' };

interface Entry {
  /** undefined: there is none (any more). */
  now: { bytes: number; expiresAtMs: number | null; createdAtMs: number } | undefined;
  wasStored: boolean;
  /** Set by a write of this batch; its `now` has the rest of the row. */
  value?: string;
  ownerId: string;
  updatedAtMs: number;
  changed: boolean;
}

/**
 * Writes entries of data stores: for many callers in one transaction, in a constant number of statements for `set` and
 * `delete`, in the order in which they were asked for. What a store holds is counted in the same transaction, so that a
 * bound costs no count of rows. On PostgreSQL two stores of one owner that grow at the same moment may pass the
 * bound by what one batch brings.
 */
export function writeEntries(
  store: Pick<Store, 'name' | 'defer' | 'lockRows'>,
  limits: { bytesPerOwnerMax: number },
): BatchWrite<EntryWrite, EntryWriteResult> {
  return {
    name: 'write-data-store-entries',
    bytes: (write) => write.key.length + (write.kind === 'set' ? write.value.length : 0),
    async run(tx, writes) {
      const stores = await lockDataStores(store, tx, [...new Set(writes.map(({ storeId }) => storeId))]);
      const known = writes.filter(({ storeId }) => stores.has(storeId));
      if (known.length === 0) return writes.map(() => ({ written: false, reason: 'unknown' }));
      const sizes = await sizesOfOwners(tx, [...new Set([...stores.values()].map((row) => row.owner_id))]);
      const entries = new Map<string, Entry>();
      for (const head of await readHeads(tx, keysOf(known))) {
        const { bytes, expires_at_ms: expiresAtMs, created_at_ms: createdAtMs } = head;
        entries.set(`${head.store_id} ${head.key}`, {
          now: { bytes, expiresAtMs, createdAtMs },
          wasStored: true,
          ownerId: '',
          updatedAtMs: 0,
          changed: false,
        });
      }
      const growth = new Map<string, { entries: number; bytes: number; nowMs: number }>();
      const results = writes.map((write): EntryWriteResult => {
        const row = stores.get(write.storeId);
        const size = row && sizes.get(row.owner_id);
        if (row?.owner_id !== write.ownerId || size === undefined)
          return { written: false, reason: 'unknown' };
        const id = `${write.storeId} ${write.key}`;
        const entry = entries.get(id) ?? {
          now: undefined,
          wasStored: false,
          ownerId: row.owner_id,
          updatedAtMs: 0,
          changed: false,
        };
        const before = entry.now;
        const existed =
          before !== undefined && (before.expiresAtMs === null || before.expiresAtMs > write.nowMs);
        const by = { entries: 0, bytes: 0 };
        if (write.kind === 'set') {
          const bytes = Buffer.byteLength(write.key) + Buffer.byteLength(write.value);
          by.entries = before === undefined ? 1 : 0;
          by.bytes = bytes - (before?.bytes ?? 0);
          if (by.entries > 0 && size.entries + by.entries > entriesPerOwnerMax)
            return { written: false, reason: 'too_many' };
          // What gets smaller is always taken.
          if (by.bytes > 0 && size.bytes + by.bytes > limits.bytesPerOwnerMax)
            return { written: false, reason: 'too_large' };
          const createdAtMs = existed ? before.createdAtMs : write.nowMs;
          entry.now = { bytes, expiresAtMs: write.expiresAtMs, createdAtMs };
          entry.value = write.value;
        } else if (write.kind === 'set_ttl') {
          if (!existed) return { written: true, existed };
          entry.now = { ...before, expiresAtMs: write.expiresAtMs };
        } else {
          if (before === undefined) return { written: true, existed };
          by.entries = -1;
          by.bytes = -before.bytes;
          entry.now = undefined;
          delete entry.value;
        }
        entry.ownerId = row.owner_id;
        entry.updatedAtMs = write.nowMs;
        entry.changed = true;
        entries.set(id, entry);
        size.entries += by.entries;
        size.bytes += by.bytes;
        const grown = growth.get(write.storeId);
        growth.set(write.storeId, {
          entries: by.entries + (grown?.entries ?? 0),
          bytes: by.bytes + (grown?.bytes ?? 0),
          nowMs: write.nowMs,
        });
        return { written: true, existed };
      });
      const rows: DataStoreEntryTable[] = [];
      const gone = new Map<string, string[]>();
      for (const [storeId, keys] of keysOf(known)) {
        for (const key of keys) {
          const entry = entries.get(`${storeId} ${key}`);
          if (entry === undefined || !entry.changed) continue;
          const { now, value, ownerId, updatedAtMs } = entry;
          if (now === undefined) {
            if (entry.wasStored) gone.set(storeId, [...(gone.get(storeId) ?? []), key]);
          } else if (value === undefined) {
            await setExpiry(tx, { storeId, key, expiresAtMs: now.expiresAtMs, nowMs: updatedAtMs });
          } else {
            rows.push({
              store_id: storeId,
              key,
              owner_id: ownerId,
              value,
              expires_at_ms: now.expiresAtMs,
              created_at_ms: now.createdAtMs,
              updated_at_ms: updatedAtMs,
            });
          }
        }
      }
      await deleteEntries(tx, gone);
      await putEntries(store, tx, rows);
      for (const [storeId, by] of growth) await resizeDataStore(tx, storeId, by, by.nowMs);
      return results;
    },
  };
}

function keysOf(writes: readonly EntryWrite[]): Map<string, string[]> {
  return new Map(
    [...Map.groupBy(writes, ({ storeId }) => storeId)].map(([storeId, group]) => [
      storeId,
      [...new Set(group.map(({ key }) => key))],
    ]),
  );
}
