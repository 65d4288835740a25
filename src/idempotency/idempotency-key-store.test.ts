import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { BatchWrite } from '#storage/group-commit.ts';
import { forEachStore } from '../../test/support/stores.ts';
import {
  findKey,
  keptMs,
  keyRow,
  ownersBeyond,
  removeKeysOf,
  removeOldestKeys,
  setAnswer,
  takeKeys,
  writeOnce,
} from './idempotency-key-store.ts';

describe('idempotency keys', () => {
  forEachStore((fixture) => {
    const key = (id: string, { nowMs = 1_000, jobId = `job of ${id}`, ownerId = 'o_1' } = {}) =>
      keyRow(
        { id, ownerId, subjectId: `dc of ${ownerId}`, requestDigest: 'digest' },
        { jobId, nowMs, accepted: false },
      );
    const take = (...rows: ReturnType<typeof key>[]) =>
      fixture.store.transaction(async (tx) => {
        const taken = await takeKeys(tx, rows);
        return rows.map((row) => taken.has(row));
      });
    const ids = async () =>
      (await fixture.store.read.selectFrom('idempotency_keys').select('id').orderBy('id').execute()).map(
        ({ id }) => id,
      );

    /** Inserts an emitter of this id. */
    const insert: BatchWrite<string, void> = {
      name: 'insert',
      async run(tx, names) {
        const rows = names.map((id) => ({ id, owner_id: 'o_1', last_ms: 0, last_seq: 0, dedupe: '' }));
        await tx.insertInto('emitters').values(rows).execute();
        return names.map(() => undefined);
      },
    };
    const inserted = async () =>
      (await fixture.store.read.selectFrom('emitters').select('id').orderBy('id').execute()).map(
        ({ id }) => id,
      );

    test('a key is new once, also within one batch, and again after 24 hours', async () => {
      assert.deepEqual(await take(key('b'), key('a'), key('b', { jobId: 'other' })), [true, true, false]);
      assert.deepEqual(await take(key('a', { nowMs: 1_000 + keptMs - 1 })), [false]);
      const { store } = fixture;
      assert.equal((await findKey(store.read, 'a', 999))?.job_id, 'job of a');
      assert.equal(await findKey(store.read, 'a', 1_000), undefined, 'expired');
      assert.deepEqual(await take(key('a', { nowMs: 1_000 + keptMs, jobId: 'next' })), [true]);
      assert.equal((await findKey(store.read, 'a', 1_000))?.job_id, 'next');
    });

    test('what is written with a key is written exactly when the key is new, many at once', async () => {
      const write = writeOnce(insert);
      const submit = (item: string, id: string) =>
        fixture.store.writes.submit(write, { item, key: key(id, { jobId: item }) });
      assert.deepEqual(await Promise.all([submit('one', 'k'), submit('two', 'k'), submit('three', 'l')]), [
        true,
        false,
        true,
      ]);
      assert.equal(await submit('four', 'k'), false);
      assert.deepEqual(await inserted(), ['one', 'three']);
    });

    test('a write that is refused leaves no key', async () => {
      const write = writeOnce(insert);
      await fixture.store.writes.submit(insert, 'there');
      await assert.rejects(fixture.store.writes.submit(write, { item: 'there', key: key('k') }));
      assert.deepEqual(await ids(), []);
      assert.equal(await fixture.store.writes.submit(write, { item: 'new', key: key('k') }), true);
    });

    test('two transactions at once: the second waits for the first, and finds the key taken', async () => {
      if (fixture.dialect === 'sqlite') return;
      const other = await fixture.open();
      const first = Promise.withResolvers<void>();
      const end = Promise.withResolvers<void>();
      const one = fixture.store.transaction(async (tx) => {
        const taken = await takeKeys(tx, [key('k')]);
        first.resolve();
        await end.promise;
        return taken.size;
      });
      await first.promise;
      const two = other.transaction(async (tx) => (await takeKeys(tx, [key('k', { jobId: 'other' })])).size);
      end.resolve();
      assert.deepEqual(await Promise.all([one, two]), [1, 0]);
    });

    test('the first answer counts, and only that of the job that has the key', async () => {
      await take(key('k'));
      const answerOf = async () => (await findKey(fixture.store.read, 'k', 0))?.mark;
      const set = (jobId: string, answer: string) =>
        fixture.store.transaction((tx) => setAnswer(tx, { id: 'k', jobId }, { answer, bytes: 0 }));
      await set('another job', 'ended');
      assert.equal(await answerOf(), null);
      await set('job of k', 'waits');
      await set('job of k', 'ended');
      assert.equal(await answerOf(), 'waits');
    });

    test('keys go with their source or workflow, and the oldest of an owner who has too many', async () => {
      const { store } = fixture;
      await take(
        ...['c', 'a', 'b'].map((id, index) => key(id, { nowMs: 1_000 + index })),
        key('z', { ownerId: 'o_2' }),
      );
      assert.deepEqual(await ownersBeyond(store.read, 2), [{ ownerId: 'o_1', keys: 3 }]);
      await store.transaction((tx) => removeOldestKeys(tx, 'o_1', 1));
      assert.deepEqual(await ids(), ['a', 'b', 'z']);
      assert.equal(await store.transaction((tx) => removeKeysOf(tx, 'dc of o_1', 2)), false, 'maybe more');
      assert.equal(await store.transaction((tx) => removeKeysOf(tx, 'dc of o_1', 2)), true);
      assert.deepEqual(await ids(), ['z']);
    });
  });
});
