import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CompiledQuery } from 'kysely';
import type { Store, Tx } from '#storage/store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { forgetFailures, forgetOutcomes, type Outcome, OutcomeRecorder } from './outcome-store.ts';

const minuteMs = 60_000;

function outcome(atMs: number, failure: string | null, more: Partial<Outcome> = {}): Outcome {
  return { subjectId: 'dc_1', ownerId: 'o_1', failure, atMs, version: '1', ...more };
}

forEachStore((fixture) => {
  /** Records outcomes in transactions of their own, and answers how many statements each of them took. */
  async function statements(recorder: OutcomeRecorder, seen: CompiledQuery[], outcomes: Outcome[]) {
    const before = seen.length;
    await fixture.store.transaction((tx) => recorder.record(tx, outcomes));
    return seen.length - before;
  }

  /** A store that counts what it is given to do. */
  function counted({ hasOthers = false } = {}): { recorder: OutcomeRecorder; seen: CompiledQuery[] } {
    const { store } = fixture;
    const seen: CompiledQuery[] = [];
    const defer: Store['defer'] = (tx: Tx, query) => {
      seen.push(query);
      return store.defer(tx, query);
    };
    return { recorder: new OutcomeRecorder({ ...store, defer }, () => hasOthers), seen };
  }

  const rowOf = (id = 'dc_1') =>
    fixture.store.read.selectFrom('health').selectAll().where('subject_id', '=', id).executeTakeFirst();

  test('failures are counted from the first one after the last success; the next success ends them', async () => {
    const { recorder, seen } = counted();
    await statements(recorder, seen, [outcome(1_000, null)]);
    assert.deepEqual(await rowOf(), {
      ...{ subject_id: 'dc_1', owner_id: 'o_1' },
      ...{ failing: 0, since_ms: 1_000, failures: 0, reason: null },
    });
    await statements(recorder, seen, [outcome(2_000, 'first'), outcome(2_001, 'sec\0ond')]);
    await statements(recorder, seen, [outcome(3_000, 'third')]);
    const failing = await rowOf();
    assert.deepEqual(failing && { ...failing, subject_id: '', owner_id: '' }, {
      ...{ subject_id: '', owner_id: '' },
      ...{ failing: 1, since_ms: 2_000, failures: 3, reason: 'third' },
    });
    await statements(recorder, seen, [outcome(4_000, 'fourth'), outcome(4_001, null)]);
    const well = await rowOf();
    assert.equal(well?.failing, 0);
    assert.equal(well?.since_ms, 4_001);
    assert.equal(well?.failures, 0);
    assert.equal(well?.reason, null);
  });

  test('a success of what is known to be healthy takes no statement for a time; unless what it relies on may not have been stored', async () => {
    const { recorder, seen } = counted();
    assert.equal(await statements(recorder, seen, [outcome(1_000, null)]), 1);
    assert.equal(await statements(recorder, seen, [outcome(1_500, null), outcome(1_600, null)]), 0);
    // Another version has yet to prove itself, whatever was deleted meanwhile.
    await fixture.store.transaction((tx) => forgetOutcomes(tx, 'dc_1'));
    assert.equal(await statements(recorder, seen, [outcome(1_700, null, { version: '2' })]), 1);
    assert.equal((await rowOf())?.since_ms, 1_700);
    assert.equal(await statements(recorder, seen, [outcome(1_900, null, { version: '2' })]), 0);
    const later = outcome(1_900 + minuteMs, null, { version: '2' });
    assert.equal(await statements(recorder, seen, [later]), 1);
  });

  test('a success is written when the transaction that recorded the one before it has failed', async () => {
    const { recorder, seen } = counted();
    await statements(recorder, seen, [outcome(1_000, 'broken')]);
    const lost = fixture.store.transaction(async (tx) => {
      await recorder.record(tx, [outcome(2_000, null)]);
      throw new Error('the disk is full');
    });
    await assert.rejects(lost, /the disk is full/);
    assert.equal((await rowOf())?.failing, 1);
    assert.equal(await statements(recorder, seen, [outcome(2_001, null)]), 1);
    assert.equal((await rowOf())?.failing, 0);
    assert.equal(await statements(recorder, seen, [outcome(2_002, null)]), 0);
  });

  test('a success ends the failure that another node recorded, however short before this node recorded a success', async () => {
    const { recorder, seen } = counted({ hasOthers: true });
    const other = new OutcomeRecorder(fixture.store, () => true);
    const many = (atMs: number) =>
      ['dc_1', 'dc_2', 'dc_3'].map((subjectId) => outcome(atMs, null, { subjectId }));
    assert.equal(await statements(recorder, seen, many(1_000)), 1);
    const broken = ['dc_1', 'dc_3'].map((subjectId) => outcome(1_800, 'broken', { subjectId }));
    await fixture.store.transaction((tx) => other.record(tx, broken));
    assert.equal(await statements(recorder, seen, many(1_900)), 1);
    for (const [id, sinceMs] of [
      ['dc_1', 1_900],
      ['dc_2', 1_000],
      ['dc_3', 1_900],
    ] as const) {
      assert.equal((await rowOf(id))?.failing, 0, id);
      assert.equal((await rowOf(id))?.since_ms, sinceMs, id);
    }
    assert.equal(await statements(recorder, seen, many(2_000)), 0, 'all are well');
    const both = [outcome(2_100, null), outcome(2_101, 'broken')];
    assert.equal(await statements(recorder, seen, both), 1);
    assert.equal((await rowOf())?.failing, 1, 'the last one counts');
  });

  test('outcomes of many are one statement; after a failure a success is written', async () => {
    const { recorder, seen } = counted();
    const many = Array.from({ length: 50 }, (_, at) =>
      outcome(1_000 + at, at % 2 === 0 ? null : 'broken', { subjectId: `dc_${at % 10}` }),
    );
    assert.equal(await statements(recorder, seen, many), 1);
    assert.equal((await rowOf('dc_2'))?.failing, 0);
    assert.equal((await rowOf('dc_3'))?.failures, 5);
    assert.equal(await statements(recorder, seen, [outcome(2_000, null, { subjectId: 'dc_3' })]), 1);
    assert.equal((await rowOf('dc_3'))?.failing, 0);
  });

  test('failures are forgotten alone, or with everything', async () => {
    const { recorder, seen } = counted();
    await statements(recorder, seen, [outcome(1, null), outcome(1, 'broken', { subjectId: 'dc_2' })]);
    await fixture.store.transaction(async (tx) => {
      await forgetFailures(tx, 'dc_1');
      await forgetFailures(tx, 'dc_2');
    });
    assert.equal((await rowOf('dc_1'))?.failing, 0);
    assert.equal(await rowOf('dc_2'), undefined);
    await fixture.store.transaction((tx) => forgetOutcomes(tx, 'dc_1'));
    assert.equal(await rowOf('dc_1'), undefined);
  });
});
