import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { insertEmitter } from '#events/event-store.ts';
import { OutcomeRecorder } from '#health/outcome-store.ts';
import { insertJobs, jobRow } from '#jobs/job-store.ts';
import { releaseLanes, takeLanes } from '#jobs/lane-lease-store.ts';
import { systemClock } from '#lib/clock.ts';
import { usageOf } from '#metering/invocation-usage.ts';
import { noSubscribers } from '../../test/support/no-subscribers.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { type InvocationEnd, settleInvocations } from './settle-invocation.ts';

const node = 'n1';

describe('settling invocations', () => {
  forEachStore((fixture) => {
    const end = (
      sourceId: string,
      jobId: string,
      options: { isStale?: () => boolean } = {},
    ): InvocationEnd => ({
      job: { id: jobId, attempts: 1 },
      sourceId,
      emission: { emitterId: sourceId, hops: 0, events: [{ channel: '', event: JSON.stringify(jobId) }] },
      dbSets: {},
      usage: usageOf('o_1', Date.now(), { invocations: 1, computeMs: 1, memoryMb: 256 }),
      isStale: options.isStale ?? (() => false),
    });
    const hold = (...jobs: { id: string; lane: string }[]) =>
      fixture.store.transaction((tx) =>
        insertJobs(
          tx,
          jobs.map(({ id, lane }) =>
            jobRow(
              {
                id,
                kind: 'run_source',
                ownerId: 'o_1',
                lane,
                payload: { source_id: lane, trigger: 'http', hops: 0 },
                runAtMs: 0,
                nowMs: 0,
              },
              node,
            ),
          ),
        ),
      );

    test('of one batch: what was computed from an outcome that is not kept is not kept either; other sources are', async () => {
      await fixture.store.transaction(async (tx) => {
        for (const id of ['dc_1', 'dc_2']) await insertEmitter(tx, { id, ownerId: 'o_1' });
      });
      await hold({ id: 'next', lane: 'dc_1' }, { id: 'other', lane: 'dc_2' });
      const settle = settleInvocations({
        store: fixture.store,
        node,
        router: noSubscribers,
        outcomes: new OutcomeRecorder(fixture.store, () => false),
        clock: systemClock,
      });
      const { writes } = fixture.store;
      let lost = false;
      const [first, next, other] = await Promise.all([
        writes.submit(settle, end('dc_1', 'never stored')).then((result) => {
          lost = !result.settled;
          return result;
        }),
        writes.submit(settle, end('dc_1', 'next', { isStale: () => lost })),
        writes.submit(settle, end('dc_2', 'other')),
      ]);
      assert.deepEqual(first, { settled: false, reason: 'taken' });
      assert.deepEqual(next, { settled: false, reason: 'stale' });
      assert.equal(other.settled, true);
      const events = await fixture.store.read.selectFrom('events').select('event').execute();
      assert.deepEqual(
        events.map(({ event }) => event),
        ['"other"'],
      );
      const jobs = await fixture.store.read.selectFrom('jobs').select(['id', 'state']).execute();
      assert.deepEqual(
        jobs.map((row) => ({ ...row })),
        [{ id: 'next', state: 'running' }],
        'it can run again',
      );
    });

    test('events beyond what the owner may emit are refused with an error in the logs, and the source is failing', async () => {
      const { store } = fixture;
      await store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'o_1' }));
      let left = 1;
      const settle = settleInvocations({
        ...{ store, node, router: noSubscribers, clock: systemClock },
        outcomes: new OutcomeRecorder(store, () => false),
        allowance: {
          eventsLeft: () => left,
          emitted: (_ownerId, events) => {
            left -= events;
          },
          refuseEvents: () => 'quota used up: 1 events a day',
        },
      });
      const { job: _job, ...hook } = end('dc_1', 'none');
      const events = [1, 2, 3].map((n) => ({ channel: '', event: String(n) }));
      const run = { failure: null, revision: '1' };
      await store.writes.submit(settle, { ...hook, run, emission: { ...hook.emission, events } });
      const sentence = '2 event(s) were refused: quota used up: 1 events a day';
      const stored = await store.read
        .selectFrom('events')
        .select(['channel', 'event'])
        .orderBy('seq')
        .execute();
      assert.deepEqual(
        stored.map(({ channel, event }) => [channel, channel === '' ? event : JSON.parse(event).message]),
        [
          ['', '1'],
          ['$logs', sentence],
        ],
      );
      const health = await store.read.selectFrom('health').select(['failing', 'reason']).execute();
      assert.deepEqual(
        health.map((row) => [row.failing, row.reason]),
        [[1, sentence]],
      );
      const usage = await store.read.selectFrom('usage_days').select('events').execute();
      assert.deepEqual(
        usage.map((row) => row.events),
        [1],
      );
    });

    if (fixture.dialect === 'postgres')
      test('nothing of a run is kept whose node has lost the turn of the source, and its job stays', async () => {
        await fixture.store.transaction((tx) => insertEmitter(tx, { id: 'dc_1', ownerId: 'o_1' }));
        await hold({ id: 'with a row', lane: 'dc_1' });
        const settle = settleInvocations({
          store: fixture.store,
          node,
          router: noSubscribers,
          outcomes: new OutcomeRecorder(fixture.store, () => false),
          clock: systemClock,
        });
        const { job: _job, ...withoutRow } = end('dc_1', 'without a row');
        const ends = [end('dc_1', 'with a row'), withoutRow].map((given) => ({ ...given, lane: 'dc_1' }));
        const submit = () => Promise.all(ends.map((given) => fixture.store.writes.submit(settle, given)));
        await fixture.store.transaction((tx) => takeLanes(tx, 'another', ['dc_1']));
        const taken = { settled: false, reason: 'taken' };
        assert.deepEqual(await submit(), [taken, taken]);
        const left = await fixture.store.read.selectFrom('jobs').select(['id', 'state']).execute();
        assert.deepEqual(left, [{ id: 'with a row', state: 'running' }]);
        assert.deepEqual(await fixture.store.read.selectFrom('events').select('event').execute(), []);
        await fixture.store.transaction((tx) => releaseLanes(tx, 'another'));
        await fixture.store.transaction((tx) => takeLanes(tx, node, ['dc_1']));
        assert.deepEqual(
          (await submit()).map(({ settled }) => settled),
          [true, true],
        );
      });
  });
});
