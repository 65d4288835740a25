import { unreachable } from '#lib/assert.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { DataStoreEntryTable, DataStoreTable } from '#storage/tables/workflow-tables.ts';
import { entriesPerOwnerMax } from './data-store-limits.ts';
import { lockDataStores, resizeDataStore, sizesOfOwners } from './data-store-store.ts';
import { deleteEntries, putEntries, readHeads, setExpiry } from './entry-store.ts';

/** One change of an entry, by its store and key; a store of another owner than `ownerId` is unknown. */
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

/**
 * Writes entries of data stores: for many callers in one transaction, in a constant number of statements for `set` and
 * `delete`, in the order of the requests. What a store holds is counted in the same transaction, so that a
 * bound costs no count of rows. On PostgreSQL two stores of one owner that grow at the same moment may pass the
 * bound by what one batch brings.
 */
export function writeEntries(
  store: Dialect & Pick<Store, 'defer'>,
  limits: { bytesPerOwnerMax: number },
): BatchWrite<EntryWrite, EntryWriteResult> {
  return {
    name: 'write-data-store-entries',
    bytes: (write) => write.key.length + (write.kind === 'set' ? write.value.length : 0),
    async run(tx, writes) {
      const stores = await lockDataStores(store, tx, [...new Set(writes.map(({ storeId }) => storeId))]);
      const known = writes.filter((write) => stores.get(write.storeId)?.owner_id === write.ownerId);
      if (known.length === 0) return writes.map(() => ({ written: false, reason: 'unknown' }));
      const sizes = await sizesOfOwners(tx, [...new Set(known.map(({ ownerId }) => ownerId))]);
      const batch = new EntryBatch(stores, sizes, limits.bytesPerOwnerMax);
      for (const head of await readHeads(tx, keysOf(known))) batch.found(head);
      const results = writes.map((write) => batch.apply(write));
      const { rows, gone, expiries } = batch.changes();
      await deleteEntries(tx, gone);
      await putEntries(store, tx, rows);
      for (const expiry of expiries) await setExpiry(tx, expiry);
      for (const [storeId, by] of batch.growth) await resizeDataStore(tx, storeId, by, by.nowMs);
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

interface Size {
  entries: number;
  bytes: number;
}

interface Entry {
  storeId: string;
  key: string;
  /** undefined: there is none. */
  now: { bytes: number; expiresAtMs: number | null; createdAtMs: number } | undefined;
  wasStored: boolean;
  /** JSON text, when a write of this batch set it. */
  value?: string;
  /** The last write that changed it. */
  changedBy?: EntryWrite;
}

/** Entries as the writes of a batch change them, one after the other. Pure: nothing is stored here. */
class EntryBatch {
  readonly #stores: ReadonlyMap<string, DataStoreTable>;
  readonly #sizes: ReadonlyMap<string, Size>;
  readonly #bytesMax: number;
  readonly #entries = new Map<string, Entry>();
  /** By how much each store has grown. */
  readonly growth = new Map<string, Size & { nowMs: number }>();

  /** `sizes`: of all stores of each owner; they grow with the batch. */
  constructor(
    stores: ReadonlyMap<string, DataStoreTable>,
    sizes: ReadonlyMap<string, Size>,
    bytesMax: number,
  ) {
    this.#stores = stores;
    this.#sizes = sizes;
    this.#bytesMax = bytesMax;
  }

  found(head: {
    store_id: string;
    key: string;
    bytes: number;
    expires_at_ms: number | null;
    created_at_ms: number;
  }): void {
    const entry = this.#entry(head.store_id, head.key);
    entry.wasStored = true;
    entry.now = {
      bytes: head.bytes,
      expiresAtMs: head.expires_at_ms,
      createdAtMs: head.created_at_ms,
    };
  }

  apply(write: EntryWrite): EntryWriteResult {
    const size = this.#sizes.get(write.ownerId);
    if (this.#stores.get(write.storeId)?.owner_id !== write.ownerId || size === undefined)
      return { written: false, reason: 'unknown' };
    const entry = this.#entry(write.storeId, write.key);
    const before = entry.now;
    // An expired entry is still stored, but invisible.
    const existed = before !== undefined && (before.expiresAtMs === null || before.expiresAtMs > write.nowMs);
    switch (write.kind) {
      case 'set': {
        const bytes = Buffer.byteLength(write.key) + Buffer.byteLength(write.value);
        const by = { entries: before === undefined ? 1 : 0, bytes: bytes - (before?.bytes ?? 0) };
        if (by.entries > 0 && size.entries >= entriesPerOwnerMax)
          return { written: false, reason: 'too_many' };
        // What gets smaller is always taken.
        if (by.bytes > 0 && size.bytes + by.bytes > this.#bytesMax)
          return { written: false, reason: 'too_large' };
        const createdAtMs = existed ? before.createdAtMs : write.nowMs;
        entry.now = { bytes, expiresAtMs: write.expiresAtMs, createdAtMs };
        entry.value = write.value;
        this.#grow(write, size, by);
        break;
      }
      case 'set_ttl':
        if (!existed) return { written: true, existed };
        entry.now = { ...before, expiresAtMs: write.expiresAtMs };
        break;
      case 'delete':
        if (before === undefined) return { written: true, existed };
        entry.now = undefined;
        delete entry.value;
        this.#grow(write, size, { entries: -1, bytes: -before.bytes });
        break;
      default:
        unreachable(write);
    }
    entry.changedBy = write;
    return { written: true, existed };
  }

  /** What there is to store after all of them. */
  changes(): {
    rows: DataStoreEntryTable[];
    gone: Map<string, string[]>;
    expiries: { storeId: string; key: string; expiresAtMs: number | null; nowMs: number }[];
  } {
    const rows: DataStoreEntryTable[] = [];
    const gone = new Map<string, string[]>();
    const expiries = [];
    for (const { storeId, key, now, value, wasStored, changedBy } of this.#entries.values()) {
      if (changedBy === undefined) continue;
      const { ownerId, nowMs } = changedBy;
      if (now === undefined) {
        if (wasStored) gone.set(storeId, [...(gone.get(storeId) ?? []), key]);
      } else if (value === undefined) {
        expiries.push({ storeId, key, expiresAtMs: now.expiresAtMs, nowMs });
      } else {
        rows.push({
          store_id: storeId,
          key,
          owner_id: ownerId,
          value,
          expires_at_ms: now.expiresAtMs,
          created_at_ms: now.createdAtMs,
          updated_at_ms: nowMs,
        });
      }
    }
    return { rows, gone, expiries };
  }

  #entry(storeId: string, key: string): Entry {
    const id = `${storeId} ${key}`;
    const entry = this.#entries.get(id) ?? { storeId, key, now: undefined, wasStored: false };
    this.#entries.set(id, entry);
    return entry;
  }

  #grow({ storeId, nowMs }: EntryWrite, size: Size, by: Size): void {
    size.entries += by.entries;
    size.bytes += by.bytes;
    const grown = this.growth.get(storeId);
    this.growth.set(storeId, {
      entries: by.entries + (grown?.entries ?? 0),
      bytes: by.bytes + (grown?.bytes ?? 0),
      nowMs,
    });
  }
}
