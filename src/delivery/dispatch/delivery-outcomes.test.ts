import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OutcomeRecorder } from '#health/outcome-store.ts';
import { jobRow } from '#jobs/job-store.ts';
import { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { DeliveryFixture } from '../../../test/support/delivery-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { type DeliveryEnd, DeliveryOutcomes } from './delivery-outcomes.ts';

forEachStore((fixture) => {
  /** Three deliveries to a source that were sent, oldest first; each is in `stored` when its outcome is. */
  async function threeEnds(stored: DeliveryEnd[]): Promise<[DeliveryEnd, DeliveryEnd, DeliveryEnd]> {
    // It sends nothing: only its rows are used.
    await using delivery = new DeliveryFixture(fixture.store);
    await delivery.emitter();
    await delivery.subscribe('dc_2');
    await delivery.emit(['1', '2', '3']);
    const nowMs = delivery.clock.now();
    await fixture.store.transaction((tx) =>
      tx.updateTable('deliveries').set({ lease_node: 'n_1' }).execute(),
    );
    const held = await fixture.store.read.selectFrom('deliveries').selectAll().orderBy('id').execute();
    const ends = held.map(({ id, emit_id, owner_id: ownerId, listener_id: listenerId }) => {
      const end: DeliveryEnd = {
        ...{ ownerId, listenerId },
        row: {
          ...{ id, emit_id, state: 'delivered', reason: null, run_at_ms: nowMs },
          ...{ attempts: 1, attempt_log: '[]', status: null, latency_ms: 0 },
          ...{ has_payload: 0, ended_at_ms: nowMs },
        },
        handover: {
          job: jobRow(
            {
              ...{ id: `job_${id}`, kind: 'run_source', ownerId, lane: listenerId, runAtMs: nowMs, nowMs },
              payload: { source_id: listenerId, trigger: 'event', event: '{}', hops: 1 },
            },
            'n_1',
          ),
          stored: () => stored.push(end),
        },
      };
      return end;
    });
    const [first, second, third] = ends;
    assert.ok(first !== undefined && second !== undefined && third !== undefined);
    return [first, second, third];
  }

  const outcomesOf = (store: Store): DeliveryOutcomes =>
    new DeliveryOutcomes({
      ...{ store, node: 'n_1', logger: silentLogger },
      outcomes: new OutcomeRecorder(store, () => false),
      onSettled: () => {},
      onUnsaved: () => {},
    });

  test('what could not be stored for a source is stored before what comes after it', async () => {
    const stored: DeliveryEnd[] = [];
    const ends = await threeEnds(stored);
    const [first, ...rest] = ends;
    let isAway = true;
    const { defer } = fixture.store;
    const outcomes: DeliveryOutcomes = outcomesOf({
      ...fixture.store,
      defer: (tx, query) => {
        if (!isAway) return defer(tx, query);
        isAway = false;
        // They are in the next batch, which the store takes.
        for (const end of rest) outcomes.add(end);
        throw new UnavailableError('store_unavailable', 'away for a moment');
      },
    });
    outcomes.add(first);
    await waitFor(() => stored.length === 3);
    assert.deepEqual(stored, ends);
    assert.deepEqual([outcomes.pending, outcomes.unsaved], [0, 0]);
  });

  test('what was stored by a commit whose outcome was lost is run, before what comes after it', async (t) => {
    const stored: DeliveryEnd[] = [];
    const ends = await threeEnds(stored);
    const [first, ...rest] = ends;
    const outcomes = outcomesOf(fixture.store);
    const { writes } = fixture.store;
    const submit = writes.submitLazily.bind(writes);
    const isLost = async (...call: Parameters<typeof submit>): Promise<never> => {
      await submit(...call);
      for (const end of rest) outcomes.add(end);
      throw new UnavailableError('outcome_unknown', 'the connection was lost during the commit');
    };
    t.mock.method(writes, 'submitLazily', isLost, { times: 1 });
    outcomes.add(first);
    await waitFor(() => stored.length === 3);
    assert.deepEqual(stored, ends);
  });

  test('what is refused at once, while an older one waits to be written, is stored behind it', async (t) => {
    const stored: DeliveryEnd[] = [];
    const ends = await threeEnds(stored);
    const [first, second, third] = ends;
    const outcomes = outcomesOf(fixture.store);
    outcomes.add(first);
    const full = () => Promise.reject(new UnavailableError('overloaded', 'too many writes are waiting'));
    t.mock.method(fixture.store.writes, 'submitLazily', full, { times: 1 });
    outcomes.add(second);
    outcomes.add(third);
    await waitFor(() => stored.length === 3);
    assert.deepEqual(stored, ends);
  });
});
