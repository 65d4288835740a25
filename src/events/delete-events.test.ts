import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimJobs } from '#jobs/claim-store.ts';
import { LaneLeases } from '#jobs/lane-leases.ts';
import { placesForAny } from '../../test/support/claim-places.ts';
import { emitUnheard } from '../../test/support/no-subscribers.ts';
import { readEvents } from '../../test/support/stored-events.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { deleteEventsHandler, requestEventDeletion } from './delete-events.ts';
import { formatEventId } from './event-id.ts';
import { insertEmitter } from './event-store.ts';

const nowMs = 1_800_000_000_000;

forEachStore((fixture) => {
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
    const jobs = await claimJobs(store, {
      node: 'n1',
      lanes: new LaneLeases({ node: 'n1', store }),
      kinds: ['delete_events'],
      limit: 1,
      ...placesForAny(1),
      runningByLane: new Map(),
      nowMs,
    });
    for (const job of jobs)
      await deleteEventsHandler({ store, node: 'n1' }).run(job, new AbortController().signal);
    const left = await readEvents(store.read, { emitterId: 'dc_1', channel: '', limit: 100 });
    assert.deepEqual(
      left.map(({ event }) => Number(event)),
      Array.from({ length: 40 }, (_, n) => 279 - n),
    );
  });
});
