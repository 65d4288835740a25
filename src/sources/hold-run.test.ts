import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SourceTicks, tickJobId } from '#schedule/source-ticks.ts';
import type { DueTick } from '#schedule/tick-target.ts';
import { noPlaces } from '../../test/support/no-places.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { holdTicks } from './hold-run.ts';
import { insertSource } from './source-store.ts';

const nowMs = 1_700_000_000_000;

/** A tick of the timer of a source that is due now. */
function tickOf(sourceId: string): DueTick {
  const timer = {
    ...{ id: `${sourceId}:timer`, subject_id: sourceId, owner_id: 'u_1', prop: 'timer' },
    ...{ interval_seconds: 60, cron: null, timezone: 'UTC', next_at_ms: nowMs },
    ...{ schedule_changed_at_ms: nowMs, created_at_ms: nowMs, updated_at_ms: nowMs },
  };
  return { timer, schedule: { intervalSeconds: 60 } } as unknown as DueTick;
}

forEachStore((stores) => {
  test('ticks of a source with flow control are held back, those of others are due at once', async () => {
    const { store } = stores;
    const flow_control = JSON.stringify({
      throttle: { limit: 1, seconds: 60, key: '{{event.timezone_configured}}' },
      batch: { max_events: 2, max_seconds: 60 },
    });
    await store.transaction(async (tx) => {
      await insertSource(tx, { ...sourceRow('dc_held'), flow_control }, []);
      await insertSource(tx, sourceRow('dc_free'), []);
    });
    const heldOf: string[] = [];
    const ticks = new SourceTicks({
      ...{ store, pool: noPlaces(), hold: holdTicks },
      onHeld: (sourceId) => heldOf.push(sourceId),
    });
    const fire = () =>
      store.transaction((tx) => ticks.fire(tx, [tickOf('dc_held'), tickOf('dc_free')], nowMs));
    const { outcomes, committed } = await fire();
    assert.deepEqual(
      outcomes.map(({ kind }) => kind),
      ['fired', 'fired'],
    );
    committed();
    assert.deepEqual(heldOf, ['dc_held']);
    const jobs = await store.read
      .selectFrom('jobs')
      .select(['id', 'lane', 'payload'])
      .orderBy('id')
      .execute();
    assert.deepEqual(
      jobs.map(({ id, lane }) => [id, lane]),
      [
        [tickJobId('dc_free:timer'), 'dc_free'],
        [tickJobId('dc_held:timer'), 'dc_held+'],
      ],
    );
    // Ticks are not put into batches.
    const { flow } = JSON.parse(jobs[1]?.payload ?? '{}');
    assert.deepEqual([typeof flow.throttle, flow.batch, flow.repeats], ['string', undefined, true]);
    assert.deepEqual(
      (await fire()).outcomes.map(({ kind }) => kind),
      ['skipped', 'skipped'],
      'the ticks before them wait',
    );
  });
});
