import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { DataStoreEntries } from '#user-data/data-stores/data-store-entries.ts';
import { dataStoreHostCalls } from '#user-data/data-stores/data-store-host-calls.ts';
import { createDataStore } from '#user-data/data-stores/manage-data-stores.ts';
import { type ActionFixture, startActionFixture } from '../../test/support/action-fixture.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';

forEachStore((fixture) => {
  let actions: ActionFixture;
  let clock: TestClock;
  let storeId: string;
  let answer: ReturnType<typeof dataStoreHostCalls>;

  before(async () => {
    actions = await startActionFixture();
  });
  after(() => actions?.close());
  beforeEach(async () => {
    const { store } = fixture;
    clock = new TestClock();
    const entries = new DataStoreEntries({ store, clock, bytesPerOwnerMax: 1_000_000 });
    answer = dataStoreHostCalls({ store, clock, entries });
    storeId = (await createDataStore(store, { ownerId: 'o_1', userId: 'u_1', name: 'mine' }, clock)).id;
  });

  const outcomeOf = (name: string, props: Record<string, unknown> = {}) =>
    actions.run(
      `data_stores-${name}`,
      { dataStore: storeId, ...props },
      { onHostCall: (hostCall) => answer('o_1', hostCall) },
    );

  /** What the action returned, after it finished. */
  const run = async (name: string, props: Record<string, unknown> = {}) => {
    const { ret, error, exports } = await outcomeOf(name, props);
    assert.equal(error, undefined);
    assert.equal(typeof exports.$summary, 'string');
    return ret;
  };
  const get = (key: string) => run('get-record-or-create', { key });

  const values: [given: unknown, stored: unknown][] = [
    ['text', 'text'],
    ['5', '5'],
    [5, 5],
    ['[]', []],
    ['{"n": {"m": 1}}', { n: { m: 1 } }],
    ['{not json', '{not json'],
    [false, false],
    [null, null],
    ['', ''],
  ];
  for (const [given, stored] of values) {
    test(`add-update-record stores ${JSON.stringify(given)} as ${JSON.stringify(stored)}`, async () => {
      assert.deepEqual(await run('add-update-record', { key: 'k', value: given }), {
        key: 'k',
        value: stored,
        ttl: null,
      });
      assert.deepEqual(await get('k'), stored);
    });
  }

  test('get-record-or-create returns what is there, creates what is not, or returns nothing', async () => {
    assert.equal(await get('k'), undefined);
    const created = { key: 'k', addRecordIfNotFound: 'Yes', value: '[]' };
    assert.deepEqual(await run('get-record-or-create', created), []);
    assert.deepEqual(await run('get-record-or-create', { ...created, value: 'other' }), []);
    assert.deepEqual(await get('k'), []);
  });

  test('has-key-or-create says whether the key was there, and whether it is new', async () => {
    const found = { existingKeyFound: true, newKeyCreated: false };
    assert.deepEqual(await run('has-key-or-create', { key: 'k' }), {
      existingKeyFound: false,
      newKeyCreated: false,
    });
    const created = { key: 'k', addRecordIfNotFound: 'Yes', value: true };
    assert.deepEqual(await run('has-key-or-create', created), {
      existingKeyFound: false,
      newKeyCreated: true,
      value: true,
    });
    assert.deepEqual(await run('has-key-or-create', created), found);
    assert.deepEqual(await run('has-key-or-create', { key: 'k' }), found);
  });

  test('several records are set, listed, searched, counted and compared', async () => {
    const all = { name: 'Ada', 'order-1': { n: 1 }, 'Order-2': [2] };
    assert.deepEqual(await run('add-update-multiple-records', { data: { ...all, 'Order-2': '[2]' } }), all);
    assert.deepEqual(await run('get-all-records'), all);
    assert.deepEqual(await run('list-records'), all);
    assert.deepEqual(await run('list-records', { keys: ['name', 'none'] }), { name: 'Ada' });
    assert.deepEqual(await run('list-records', { keys: ['name'], returnType: 'array' }), [
      { key: 'name', value: 'Ada' },
    ]);
    assert.deepEqual(((await run('list-keys')) as string[]).sort(), Object.keys(all).sort());
    assert.deepEqual(((await run('search-keys', { query: 'order-' })) as string[]).sort(), [
      'Order-2',
      'order-1',
    ]);
    assert.equal(await run('count-records'), 3);
    const other = await createDataStore(
      fixture.store,
      { ownerId: 'o_1', userId: 'u_1', name: 'other' },
      clock,
    );
    await run('add-update-multiple-records', { dataStore: other.id, data: { name: 'Bob', more: 1 } });
    assert.deepEqual(await run('get-difference', { dataStoreA: storeId, dataStoreB: other.id }), {
      'order-1': { n: 1 },
      'Order-2': [2],
      more: 1,
    });
  });

  test('records are deleted, one or all', async () => {
    await run('add-update-multiple-records', { data: { a: 1, b: 2, c: 3 } });
    assert.equal(await run('delete-single-record', { key: 'a' }), 1);
    assert.equal(await run('delete-single-record', { key: 'a' }), undefined);
    assert.equal(await run('count-records'), 2);
    await run('delete-all-records');
    assert.deepEqual(await run('list-keys'), []);
  });

  test('append-to-record makes an array, adds to it, and adds text to text', async () => {
    assert.deepEqual(await run('append-to-record', { key: 'list', value: '{"n": 1}' }), [{ n: 1 }]);
    assert.deepEqual(await run('append-to-record', { key: 'list', value: 'b' }), [{ n: 1 }, 'b']);
    assert.deepEqual(await get('list'), [{ n: 1 }, 'b']);
    await run('add-update-record', { key: 'text', value: 'a' });
    assert.equal(await run('append-to-record', { key: 'text', value: 'b' }), 'ab');
  });

  test('increment-value counts up and down', async () => {
    assert.equal(await run('increment-value', { key: 'n' }), 1);
    assert.equal(await run('increment-value', { key: 'n', amount: '1.5' }), 2.5);
    assert.equal(await run('increment-value', { key: 'n', amount: -1 }), 1.5);
    assert.equal(await get('n'), 1.5);
  });

  test('records expire after their time to live, which update-ttl changes', async () => {
    for (const key of ['a', 'b', 'c', 'd'])
      await run('add-update-record', { key, value: key, ttl: key === 'd' ? 0 : 60 });
    await run('update-ttl', { key: 'b', ttl: 3600 });
    await run('update-ttl', { key: 'c', ttlOption: '0', ttl: 5 });
    assert.deepEqual(await run('update-ttl', { key: 'none', ttlOption: '86400' }), {
      key: 'none',
      ttl: 86_400,
      updated: false,
    });
    clock.step(61_000);
    assert.deepEqual(await run('list-keys'), ['b', 'c', 'd']);
    clock.step(3_600_000);
    assert.deepEqual(await run('list-keys'), ['c', 'd']);
  });

  const mistakes: [name: string, props: Record<string, unknown>, message: RegExp][] = [
    ['add-update-record', { key: '', value: 1 }, /^key: found nothing, expected text that is not empty$/],
    [
      'add-update-record',
      { key: 'k' },
      /^value: found nothing, expected text, a number, an object or an array$/,
    ],
    [
      'add-update-record',
      { key: 'k', value: 1, ttl: 'soon' },
      /^ttl: found "soon", expected a number of seconds$/,
    ],
    [
      'add-update-multiple-records',
      { data: [1] },
      /^data: found an array, expected an object of keys and values$/,
    ],
    ['increment-value', { key: 'text' }, /^text: found "a", expected a number$/],
    ['increment-value', { key: 'n', amount: 'x' }, /^amount: found "x", expected a number$/],
    ['append-to-record', { key: 'text', value: 1 }, /^text: found "a", expected (an array|text)/],
    ['list-records', { keys: 'name' }, /^keys: found "name", expected an array of keys$/],
    ['list-records', { keys: [''] }, /^keys\[0\]: found nothing/],
  ];
  for (const [name, props, message] of mistakes) {
    test(`${name} says what is wrong with ${JSON.stringify(props)}`, async () => {
      await run('add-update-record', { key: 'text', value: 'a' });
      const { error } = await outcomeOf(name, props);
      assert.equal(error?.name, 'ConfigurationError');
      assert.match(error?.message ?? '', message);
    });
  }

  test('the store of another owner is none', async () => {
    const theirs = await createDataStore(fixture.store, { ownerId: 'o_2', userId: 'u_2', name: 'x' }, clock);
    const { error } = await outcomeOf('list-keys', { dataStore: theirs.id });
    assert.match(error?.message ?? '', /no data store "ds_/);
  });
});
