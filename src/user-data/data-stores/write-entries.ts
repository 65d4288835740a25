import { unreachable } from '#lib/assert.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { DataStoreEntryTable, DataStoreTable } from '#storage/tables/workflow-tables.ts';
import { changedValue, type ValueChange } from './change-value.ts';
import { entriesPerOwnerMax, valueBytesMax } from './data-store-limits.ts';
import { lockDataStores, resizeDataStore, sizesOfOwners } from './data-store-store.ts';
import { deleteEntries, putEntries, readHeads, readValues, setExpiry } from './entry-store.ts';

/** One change of an entry, by its store and key; a store of another owner than `ownerId` is unknown. */
export type EntryWrite = { storeId: string; ownerId: string; key: string; nowMs: number } & (
  | { kind: 'set' /** JSON text. */; value: string; expiresAtMs: number | null }
  | { kind: 'set_ttl'; expiresAtMs: number | null }
  | { kind: 'delete' }
  /** Depends on the value that is there: of changes at the same moment none is lost. */
  | {
      kind: 'change';
      change: ValueChange /** About how long the new value will be. */;
      expectedBytes: number;
    }
);

export type EntryWriteResult =
  /** `existed`: there was an entry to change. */
  | { written: true; existed: boolean /** JSON text, after a change. */; value?: string }
  /** The store is gone, or its owner has as many entries or bytes as one may have. */
  | { written: false; reason: 'unknown' | 'too_many' | 'too_large' | 'value_too_large' }
  /** The value is not what the change needs. */
  | { written: false; reason: 'unfit'; expected: string; found: string };

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
    ownerOf: ({ ownerId }) => ownerId,
    bytes: (write) => write.key.length + valueBytesOf(write),
    async run(tx, writes) {
      const stores = await lockDataStores(store, tx, [...new Set(writes.map(({ storeId }) => storeId))]);
      const known = writes.filter((write) => stores.get(write.storeId)?.owner_id === write.ownerId);
      if (known.length === 0) return writes.map(() => ({ written: false, reason: 'unknown' }));
      const sizes = await sizesOfOwners(tx, [...new Set(known.map(({ ownerId }) => ownerId))]);
      const batch = new EntryBatch(stores, sizes, limits.bytesPerOwnerMax);
      for (const head of await readHeads(tx, keysOf(known))) batch.found(head);
      const changes = known.filter(({ kind }) => kind === 'change');
      for (const [storeId, keys] of keysOf(changes))
        for (const [key, value] of await readValues(tx, storeId, keys)) batch.foundValue(storeId, key, value);
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

function valueBytesOf(write: EntryWrite): number {
  if (write.kind === 'set') return write.value.length;
  return write.kind === 'change' ? write.expectedBytes : 0;
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
  /** JSON text, where a write of this batch depends on it. */
  stored?: string;
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

  foundValue(storeId: string, key: string, value: string): void {
    this.#entry(storeId, key).stored = value;
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
        const refused = this.#put(entry, write, { size, existed, value: write.value });
        if (refused !== undefined) return refused;
        break;
      }
      case 'change': {
        const found = existed ? (entry.value ?? entry.stored) : undefined;
        const changed = changedValue(write.change, found);
        if ('expected' in changed)
          return { written: false, reason: 'unfit', ...changed, found: beginningOf(found ?? 'null') };
        if (Buffer.byteLength(changed.value) > valueBytesMax)
          return { written: false, reason: 'value_too_large' };
        const refused = this.#put(entry, write, { size, existed, value: changed.value });
        if (refused !== undefined) return refused;
        entry.changedBy = write;
        return { written: true, existed, value: changed.value };
      }
      case 'set_ttl':
        if (!existed) return { written: true, existed };
        entry.now = { ...before, expiresAtMs: write.expiresAtMs };
        break;
      case 'delete':
        if (before === undefined) return { written: true, existed };
        entry.now = undefined;
        delete entry.value;
        delete entry.stored;
        this.#grow(write, size, { entries: -1, bytes: -before.bytes });
        break;
      default:
        unreachable(write);
    }
    entry.changedBy = write;
    return { written: true, existed };
  }

  /** Gives an entry a value; what is returned says why it cannot have it. A time to live ends unless the write has one. */
  #put(
    entry: Entry,
    write: EntryWrite,
    { size, existed, value }: { size: Size; existed: boolean; value: string },
  ): EntryWriteResult | undefined {
    const before = entry.now;
    const bytes = Buffer.byteLength(write.key) + Buffer.byteLength(value);
    const by = { entries: before === undefined ? 1 : 0, bytes: bytes - (before?.bytes ?? 0) };
    if (by.entries > 0 && size.entries >= entriesPerOwnerMax) return { written: false, reason: 'too_many' };
    // What gets smaller is always taken.
    if (by.bytes > 0 && size.bytes + by.bytes > this.#bytesMax)
      return { written: false, reason: 'too_large' };
    const createdAtMs = existed ? (before?.createdAtMs ?? write.nowMs) : write.nowMs;
    entry.now = { bytes, expiresAtMs: write.kind === 'set' ? write.expiresAtMs : null, createdAtMs };
    entry.value = value;
    this.#grow(write, size, by);
    return undefined;
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

/** A text for a message. The ellipsis says that it was cut: secrets are looked for in what is left of it. */
function beginningOf(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
