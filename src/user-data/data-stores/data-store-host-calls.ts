import { notFound } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { HostCall, HostCallAnswer } from '#runner/runner.ts';
import type { Store } from '#storage/store.ts';
import type { DataStoreEntries } from './data-store-entries.ts';
import { checkKey, checkValue, expiryOf, valueBytesMax } from './data-store-limits.ts';
import { findDataStore } from './data-store-store.ts';
import { hasEntry, listEntries, readEntry, readValues } from './entry-store.ts';
import { clearDataStore, defaultDataStore } from './manage-data-stores.ts';

/** Keys on one page; a page ends earlier where they are long. */
const pageKeysMax = 500;
/** Bytes on one page of keys or entries, but for the first of them. */
const pageBytesMax = valueBytesMax;
/** Owners whose store `default` is remembered. */
const defaultsMax = 10_000;

/**
 * Answers host calls of the kind `data_store`. The owner is that of the run, never one that the code
 * names; stores of others are as unknown as made-up ones. Without `header.store` it is the owner's store `default`.
 * Rejects with CallerErrors, whose message the code gets.
 */
export function dataStoreHostCalls(options: {
  store: Store;
  clock: Clock;
  entries: DataStoreEntries;
}): (ownerId: string, hostCall: HostCall) => Promise<HostCallAnswer> {
  const { store, clock } = options;
  /** Ids of stores named `default`, by owner. */
  const defaults = new Map<string, string>();

  return async (ownerId, hostCall) => {
    const { store: named } = hostCall.header;
    if (named !== undefined && named !== null && named !== '') {
      // PostgreSQL refuses a text with a NUL, and with it the whole batch.
      if (typeof named !== 'string')
        throw new CallerError('invalid_parameter', 'store: expected the id of a data store', {
          parameter: 'store',
        });
      if (named.includes('\0')) throw notFound('data store', named, 'store');
      return answer({ ownerId, storeId: named, isOwn: false }, hostCall);
    }
    const known = defaults.get(ownerId);
    if (known !== undefined) {
      try {
        return await answer({ ownerId, storeId: known, isOwn: false }, hostCall);
      } catch (error) {
        if (!(error instanceof CallerError) || error.code !== 'not_found') throw error;
        // It was removed meanwhile: a new one is made.
        defaults.delete(ownerId);
      }
    }
    const { id } = await defaultDataStore(store, { ownerId, userId: '' }, clock);
    if (defaults.size >= defaultsMax) defaults.clear();
    defaults.set(ownerId, id);
    return answer({ ownerId, storeId: id, isOwn: true }, hostCall);
  };

  /** `isOwn`: it is known already that the store is there and the owner's. */
  async function answer(
    { ownerId, storeId, isOwn }: { ownerId: string; storeId: string; isOwn: boolean },
    { header, body }: HostCall,
  ): Promise<HostCallAnswer> {
    const nowMs = clock.now();
    // Writes check the owner of the store when they write, not before, so that writes that were requested together keep their order.
    switch (header.op) {
      case 'set': {
        const value = checkValue(body.toString('utf8'));
        const entry = { value, expiresAtMs: expiryOf(header.ttl, nowMs) };
        await options.entries.set({ ownerId, storeId, key: checkKey(header.key) }, entry);
        return { header: {} };
      }
      case 'increment': {
        const { amount } = header;
        if (typeof amount !== 'number' || !Number.isFinite(amount))
          throw new CallerError('invalid_parameter', 'amount: expected a number', { parameter: 'amount' });
        const place = { ownerId, storeId, key: checkKey(header.key) };
        return {
          header: {},
          body: Buffer.from(await options.entries.change(place, { op: 'increment', amount })),
        };
      }
      case 'append': {
        const value = checkValue(body.toString('utf8'));
        const place = { ownerId, storeId, key: checkKey(header.key) };
        return {
          header: {},
          body: Buffer.from(await options.entries.change(place, { op: 'append', value })),
        };
      }
      case 'set_ttl':
        await options.entries.setTtl(
          { ownerId, storeId, key: checkKey(header.key) },
          expiryOf(header.ttl, nowMs),
        );
        return { header: {} };
      case 'delete':
        await options.entries.delete({ ownerId, storeId, key: checkKey(header.key) });
        return { header: {} };
    }
    if (!isOwn) {
      const row = await findDataStore(store.read, storeId);
      if (row?.owner_id !== ownerId) throw notFound('data store', storeId, 'store');
    }
    switch (header.op) {
      case 'get': {
        const entry = await readEntry(store.read, storeId, checkKey(header.key), nowMs);
        if (entry === undefined) return { header: { found: false } };
        return { header: { found: true }, body: Buffer.from(entry.value) };
      }
      case 'has':
        return { header: { found: await hasEntry(store.read, storeId, checkKey(header.key), nowMs) } };
      case 'clear':
        await clearDataStore(store, storeId, clock);
        return { header: {} };
      case 'keys':
      case 'entries':
        return pageAnswer(storeId, header.op, header.after, nowMs);
      default:
        throw new CallerError('invalid_parameter', `op: no data store does ${JSON.stringify(header.op)}`, {
          parameter: 'op',
        });
    }
  }

  async function pageAnswer(
    storeId: string,
    op: 'keys' | 'entries',
    after: unknown,
    nowMs: number,
  ): Promise<HostCallAnswer> {
    const found = await listEntries(store.read, storeId, {
      ...(after === undefined || after === null ? {} : { after: checkKey(after, 'after') }),
      // One more, to know whether there is a next page.
      limit: pageKeysMax + 1,
      nowMs,
      valueBytesMax: 0,
    });
    const page: string[] = [];
    let bytes = 0;
    for (const { key, bytes: valueBytes } of found.slice(0, pageKeysMax)) {
      bytes += Buffer.byteLength(JSON.stringify(key)) + 1 + (op === 'entries' ? valueBytes + 3 : 0);
      if (page.length > 0 && bytes > pageBytesMax) break;
      page.push(key);
    }
    const last = page.at(-1);
    const header = page.length < found.length && last !== undefined ? { next: last } : {};
    if (op === 'keys') return { header, body: Buffer.from(JSON.stringify(page)) };
    // Those that were deleted since are left out.
    const values = await readValues(store.read, storeId, page);
    const pairs = page.flatMap((key) => {
      const value = values.get(key);
      return value === undefined ? [] : [`[${JSON.stringify(key)},${value}]`];
    });
    return { header, body: Buffer.from(`[${pairs.join(',')}]`) };
  }
}
