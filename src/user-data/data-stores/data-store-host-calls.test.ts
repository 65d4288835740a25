import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { DataStoreEntries } from './data-store-entries.ts';
import { dataStoreHostCalls } from './data-store-host-calls.ts';
import { findDataStore } from './data-store-store.ts';
import { EntryPruner } from './entry-pruner.ts';
import { createDataStore, defaultDataStore, removeDataStore } from './manage-data-stores.ts';

const owner = { ownerId: 'o_1', userId: 'u_1' };

forEachStore((fixture) => {
  const setUp = async (bytesPerOwnerMax = 100_000_000) => {
    const { store } = fixture;
    const clock = new TestClock();
    const entries = new DataStoreEntries({ store, clock, bytesPerOwnerMax });
    const answer = dataStoreHostCalls({ store, clock, entries });
    const { id } = await createDataStore(store, { ...owner, name: 'mine' }, clock);
    const hostCall = (op: string, more: Record<string, unknown> = {}, body = '') =>
      answer('o_1', {
        kind: 'data_store',
        header: { store: id, op, ...more },
        body: Buffer.from(body),
      });
    const get = async (key: string) => {
      const { header, body } = await hostCall('get', { key });
      return header.found === true ? JSON.parse(Buffer.from(body ?? []).toString()) : undefined;
    };
    const list = async (op: 'keys' | 'entries') => {
      const found: unknown[] = [];
      let pages = 0;
      for (let after: unknown; ; ) {
        const { header, body } = await hostCall(op, { after });
        found.push(...(JSON.parse(Buffer.from(body ?? []).toString()) as unknown[]));
        pages += 1;
        after = header.next;
        if (after === undefined) return { found, pages };
      }
    };
    /** What is counted in the store, which has to be what is in it. */
    const size = async () => {
      const row = await findDataStore(store.read, id);
      const [stored] = await store.read
        .selectFrom('data_store_entries')
        .select(({ fn }) => [fn.countAll<number>().as('entries')])
        .where('store_id', '=', id)
        .execute();
      assert.equal(row?.entries, Number(stored?.entries));
      return { entries: row?.entries, bytes: row?.bytes };
    };
    return { store, clock, answer, hostCall, get, list, size, id };
  };

  test('what is set is got, changed, seen and deleted', async () => {
    const { hostCall, get, size } = await setUp();
    assert.deepEqual((await hostCall('get', { key: 'a' })).header, { found: false });
    await hostCall('set', { key: 'a' }, '{"n":1,"text":"\\u0000é"}');
    assert.deepEqual(await get('a'), { n: 1, text: '\0é' });
    await hostCall('set', { key: 'a' }, 'null');
    assert.equal(await get('a'), null);
    assert.deepEqual((await hostCall('has', { key: 'a' })).header, { found: true });
    assert.deepEqual(await size(), { entries: 1, bytes: 5 });
    await hostCall('delete', { key: 'a' });
    await hostCall('delete', { key: 'a' });
    assert.deepEqual((await hostCall('has', { key: 'a' })).header, { found: false });
    assert.deepEqual(await size(), { entries: 0, bytes: 0 });
  });

  test('writes of one key at the same moment happen in the order in which they were asked for', async () => {
    const { hostCall, get, size } = await setUp();
    await Promise.all([
      hostCall('set', { key: 'k' }, '1'),
      hostCall('delete', { key: 'k' }),
      hostCall('set', { key: 'k', ttl: 5 }, '"two"'),
      hostCall('set_ttl', { key: 'k', ttl: null }),
      hostCall('set', { key: 'other' }, '[]'),
      hostCall('set', { key: 'gone' }, '1'),
      hostCall('delete', { key: 'gone' }),
    ]);
    assert.equal(await get('k'), 'two');
    assert.deepEqual(await size(), { entries: 2, bytes: 1 + 5 + 5 + 2 });
  });

  test('of changes at the same moment, through whichever door, none is lost', async () => {
    const { store, clock, hostCall, get, size, id } = await setUp();
    // As of another node: it has no memory in common with the first.
    const other = new DataStoreEntries({ store, clock, bytesPerOwnerMax: 100_000_000 });
    const place = (key: string) => ({ ownerId: 'o_1', storeId: id, key });
    const sums = await Promise.all(
      Array.from({ length: 50 }, async (_, n) => {
        if (n % 2 === 0)
          return JSON.parse(await other.change(place('n'), { op: 'increment', amount: 2 })) as number;
        const { body } = await hostCall('increment', { key: 'n', amount: 2 });
        return JSON.parse(Buffer.from(body ?? []).toString()) as number;
      }),
    );
    assert.equal(await get('n'), 100);
    assert.equal(new Set(sums).size, 50, 'each sees a sum of its own');
    await Promise.all([1, 2, 3].map((n) => hostCall('append', { key: 'list' }, `{"n":${n}}`)));
    assert.deepEqual((await get('list')).length, 3);
    await hostCall('set', { key: 'text', ttl: 5 }, '"a"');
    await hostCall('append', { key: 'text' }, '"b"');
    clock.step(5_000);
    assert.equal(await get('text'), 'ab', 'the time to live has ended');
    await hostCall('set', { key: 'short', ttl: 1 }, '7');
    clock.step(1_000);
    await hostCall('increment', { key: 'short', amount: 1 });
    assert.equal(await get('short'), 1, 'what is over counts as nothing');
    await Promise.all([
      hostCall('set', { key: 'both' }, '1'),
      hostCall('increment', { key: 'both', amount: 1 }),
      hostCall('delete', { key: 'both' }),
      hostCall('increment', { key: 'both', amount: 5 }),
    ]);
    assert.equal(await get('both'), 5);
    await assert.rejects(hostCall('increment', { key: 'text', amount: 1 }), {
      code: 'invalid_parameter',
      message: 'text: found "ab", expected a number',
    });
    await assert.rejects(hostCall('append', { key: 'n' }, '1'), /n: found 100, expected an array/);
    await assert.rejects(hostCall('increment', { key: 'n', amount: 'x' }), /amount: expected a number/);
    assert.equal((await size()).entries, 5);
  });

  test('an entry is no longer visible when its ttl is over, and is pruned', async () => {
    const { store, clock, hostCall, get, list, size } = await setUp();
    await hostCall('set', { key: 'short', ttl: 10 }, '1');
    await hostCall('set', { key: 'long', ttl: 10 }, '2');
    await hostCall('set', { key: 'stays' }, '3');
    await hostCall('set_ttl', { key: 'long', ttl: 20 });
    await hostCall('set_ttl', { key: 'nobody', ttl: 20 });
    clock.step(9_999);
    assert.equal(await get('short'), 1);
    clock.step(1);
    assert.equal(await get('short'), undefined);
    assert.deepEqual((await hostCall('has', { key: 'short' })).header, { found: false });
    assert.deepEqual((await list('keys')).found, ['long', 'stays']);
    // A ttl does not bring back what is over.
    await hostCall('set_ttl', { key: 'short', ttl: 100 });
    assert.equal(await get('short'), undefined);
    assert.equal((await size()).entries, 3);
    await new EntryPruner({ store, clock, logger: silentLogger }).prune();
    assert.equal((await size()).entries, 2);
    await hostCall('set_ttl', { key: 'long', ttl: null });
    clock.step(86_400_000);
    assert.equal(await get('long'), 2);
  });

  test('keys and entries come in pages, ordered by key, however long they are', async () => {
    const { hostCall, list, size } = await setUp();
    const keys = Array.from({ length: 1_100 }, (_, n) => `key ${String(n).padStart(5, '0')}`);
    await Promise.all(keys.map((key, n) => hostCall('set', { key }, String(n))));
    assert.deepEqual(await list('keys'), { found: keys, pages: 3 });
    assert.deepEqual(
      (await list('entries')).found,
      keys.map((key, n) => [key, n]),
    );
    await hostCall('clear');
    assert.deepEqual(await size(), { entries: 0, bytes: 0 });
    const large = JSON.stringify('x'.repeat(700_000));
    for (const key of ['a', 'b', 'c']) await hostCall('set', { key }, large);
    const { found, pages } = await list('entries');
    assert.deepEqual([found.length, pages], [3, 3]);
  });

  test('keys, values, ttls, operations and amounts that cannot be are refused, naming the parameter', async () => {
    const { hostCall, size } = await setUp(1_000);
    const refused = async (asked: Promise<unknown>, code: string, parameter: string) =>
      assert.rejects(asked, { code, details: { parameter } });
    for (const key of [undefined, 7, '', 'x'.repeat(513), 'a\0b', '\ud800']) {
      await refused(hostCall('set', { key }, '1'), 'invalid_parameter', 'key');
    }
    await hostCall('set', { key: 'x'.repeat(512) }, '1');
    await refused(hostCall('set', { key: 'a' }, '{'), 'invalid_parameter', 'value');
    await refused(
      hostCall('set', { key: 'a' }, JSON.stringify('x'.repeat(1_000_000))),
      'invalid_parameter',
      'value',
    );
    for (const ttl of [0, -1, '5', Number.POSITIVE_INFINITY]) {
      await refused(hostCall('set', { key: 'a', ttl }, '1'), 'invalid_parameter', 'ttl');
    }
    await refused(hostCall('explode'), 'invalid_parameter', 'op');
    await refused(hostCall('set', { key: 'a' }, JSON.stringify('x'.repeat(600))), 'data_store_full', 'key');
    assert.deepEqual(await size(), { entries: 1, bytes: 513 });
    // What replaces something larger is taken.
    await hostCall('set', { key: 'x'.repeat(512) }, '2');
  });

  test('a store of another owner is as unknown as a made-up one', async () => {
    const { answer, hostCall, id } = await setUp();
    await hostCall('set', { key: 'secret' }, '1');
    for (const [ownerId, store] of [
      ['o_2', id],
      ['o_1', 'ds_nobody'],
      ['o_1', 'ds_\0\ud800'],
    ] as const) {
      for (const op of ['get', 'set', 'delete', 'clear', 'keys']) {
        const asked = answer(ownerId, {
          kind: 'data_store',
          header: { store, op, key: 'secret' },
          body: Buffer.from('2'),
        });
        await assert.rejects(asked, { code: 'not_found', message: `no data store ${JSON.stringify(store)}` });
      }
    }
    assert.equal((await hostCall('get', { key: 'secret' })).header.found, true);
  });

  test('what is no id of a store is refused by name, whatever code sends', async () => {
    const { answer } = await setUp();
    for (const store of [['ds_1'], { toString: 1, length: 3 }, 1, true])
      await assert.rejects(
        answer('o_1', { kind: 'data_store', header: { store, op: 'get', key: 'a' }, body: Buffer.of() }),
        {
          ...{ code: 'invalid_parameter', message: 'store: expected the id of a data store' },
        },
      );
  });

  test('without a store it is the one named default, made when it is first used, one for each owner', async () => {
    const { store, clock, answer } = await setUp();
    const hostCall = (ownerId: string, header: Record<string, unknown>) =>
      answer(ownerId, { kind: 'data_store', header, body: Buffer.from('"of mine"') });
    await Promise.all(['a', 'b', 'c'].map((key) => hostCall('o_1', { op: 'set', key })));
    assert.equal((await hostCall('o_2', { op: 'get', key: 'a' })).header.found, false);
    const { id } = await defaultDataStore(store, owner, clock);
    assert.equal((await hostCall('o_1', { op: 'has', key: 'b', store: id })).header.found, true);
    await removeDataStore(store, id, clock);
    assert.equal((await hostCall('o_1', { op: 'has', key: 'b' })).header.found, false, 'a new one');
    await hostCall('o_1', { op: 'set', key: 'b' });
    assert.equal((await hostCall('o_1', { op: 'has', key: 'b' })).header.found, true);
  });

  test('a store that was removed takes everything with it', async () => {
    const { store, clock, hostCall, id } = await setUp();
    await hostCall('set', { key: 'a' }, '1');
    await removeDataStore(store, id, clock);
    const left = await store.read.selectFrom('data_store_entries').select('key').execute();
    assert.deepEqual(left, []);
    await assert.rejects(hostCall('set', { key: 'a' }, '1'), { code: 'not_found' });
  });

  test('whatever is asked for at the same moment leaves what a map would hold, and counts it', async () => {
    const { hostCall, list, size } = await setUp();
    const model = new Map<string, number>();
    const asked: Promise<unknown>[] = [];
    for (let n = 0; n < 600; n += 1) {
      // All of a few keys, again and again, in an order that is the same each time.
      const key = `key ${(n * 7919) % 13}`;
      if ((n * 104_729) % 5 === 0) {
        asked.push(hostCall('delete', { key }));
        model.delete(key);
      } else if ((n * 104_729) % 5 === 1) {
        asked.push(hostCall('set_ttl', { key, ttl: 60 }));
      } else {
        asked.push(hostCall('set', { key }, String(n)));
        model.set(key, n);
      }
    }
    await Promise.all(asked);
    const expected = [...model].sort(([a], [b]) => (a < b ? -1 : 1));
    const { found } = await list('entries');
    assert.deepEqual(
      (found as [string, number][]).sort(([a], [b]) => (a < b ? -1 : 1)),
      expected,
    );
    const bytes = expected.reduce((sum, [key, value]) => sum + key.length + String(value).length, 0);
    assert.deepEqual(await size(), { entries: expected.length, bytes });
  });
});
