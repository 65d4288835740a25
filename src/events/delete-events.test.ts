import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimJobs } from '#jobs/claim-store.ts';
import { insertJobs, jobRow, type LeasedJob } from '#jobs/job-store.ts';
import { LaneLeases } from '#jobs/lane-leases.ts';
import { sharedLane } from '#jobs/shared-lane.ts';
import { RemovalTurns } from '#storage/removal-turns.ts';
import type { Store } from '#storage/store.ts';
import { placesForAny } from '../../test/support/claim-places.ts';
import { emitUnheard } from '../../test/support/no-subscribers.ts';
import { readEvents } from '../../test/support/stored-events.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { deleteEventsHandler, removeEmitter, requestEventDeletion } from './delete-events.ts';
import { formatEventId } from './event-id.ts';
import { insertEmitter } from './event-store.ts';

const nowMs = 1_800_000_000_000;

const claim = (store: Store) =>
  claimJobs(store, {
    node: 'n1',
    lanes: new LaneLeases({ node: 'n1', store }),
    kinds: ['delete_events'],
    limit: 1,
    ...placesForAny(1),
    runningByLane: new Map(),
    nowMs,
  });

async function carryOut(store: Store, jobs: readonly LeasedJob[]): Promise<void> {
  const handler = deleteEventsHandler({ store, removals: new RemovalTurns(store), node: 'n1' });
  for (const job of jobs) await handler.run(job, new AbortController().signal);
}

forEachStore((fixture) => {
  test('what waits for an emitter is removed with it: some in its transaction, the rest soon after, and nothing of others', async () => {
    const { store } = fixture;
    const waiting = (lane: string, count: number) =>
      Array.from({ length: count }, (_, n) => {
        const payload = { run_id: `${lane}${n}`, workflow_id: 'p_1' };
        const row = { id: `${lane}${n}`, kind: 'run_workflow' as const, ownerId: 'o_1', lane, payload };
        return jobRow({ ...row, runAtMs: nowMs, nowMs });
      });
    const idsLeft = async () => {
      const rows = await store.read
        .selectFrom('jobs')
        .select('id')
        .where('kind', '=', 'run_workflow')
        .execute();
      return rows.map(({ id }) => id);
    };
    await store.transaction(async (tx) => {
      await insertEmitter(tx, { id: 'p_1', ownerId: 'o_1' });
      await insertJobs(tx, [
        ...waiting('p_1', 5),
        ...waiting(sharedLane('p_1'), 4_500),
        ...waiting('p_2', 1),
      ]);
    });
    await store.transaction((tx) => removeEmitter(store, tx, { id: 'p_1', ownerId: 'o_1' }, nowMs));
    assert.equal((await idsLeft()).length, 2_506, 'one batch went immediately');
    await carryOut(store, await claim(store));
    assert.deepEqual(await idsLeft(), ['p_20']);
    assert.deepEqual(await claim(store), [], 'the removal is done');
  });

  test('deleting the newest events brings none back that were too old to be seen before', async () => {
    const { store } = fixture;
    await store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'o_1' }));
    const events = Array.from({ length: 340 }, (_, n) => ({ channel: '', event: String(n) }));
    const stored = await store.transaction(async (tx) => {
      const [result] = await emitUnheard(store, tx, [{ emitterId: 'dc_1', hops: 0, events }], nowMs);
      return result?.accepted === true ? result.stored : [];
    });
    const [from] = stored.slice(-60);
    assert.ok(from !== undefined);
    const startId = formatEventId(from);
    await requestEventDeletion(store, { emitterId: 'dc_1', ownerId: 'o_1', channel: '', startId }, nowMs);
    await carryOut(store, await claim(store));
    const left = await readEvents(store.read, { emitterId: 'dc_1', channel: '', limit: 100 });
    assert.deepEqual(
      left.map(({ event }) => Number(event)),
      Array.from({ length: 40 }, (_, n) => 279 - n),
    );
  });
});
