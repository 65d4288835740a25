import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { processTime } from '#storage/store-time.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { aheadMs, DueSoon } from './due-soon.ts';
import { insertTimers } from './timer-store.ts';

const start = Date.parse('2026-11-21T10:00:00Z');

/** Timers of owners, each due so many ms after the start. */
async function addTimers(store: Store, due: readonly (readonly [ownerId: string, inMs: number])[]) {
  const rows = due.map(([owner_id, inMs], n) => ({
    ...{ id: `dc_${n}:timer`, subject_id: `dc_${n}`, owner_id, prop: 'timer' },
    ...{ interval_seconds: 3_600, cron: null, timezone: 'UTC', next_at_ms: start + inMs },
    ...{ schedule_changed_at_ms: start, created_at_ms: start, updated_at_ms: start },
  }));
  await store.transaction((tx) => insertTimers(tx, rows));
}

describe('timers that are due soon', () => {
  forEachStore((fixture) => {
    test('their owners are told once each; not those of timers that are due already or later', async () => {
      const { store } = fixture;
      await addTimers(store, [
        ['u_due', 0],
        ['u_1', 1],
        ['u_1', 2],
        ['u_2', aheadMs],
        ['u_later', aheadMs + 1],
      ]);
      const clock = new TestClock(start);
      const told: [owners: string[], part: number][] = [];
      const dueSoon = new DueSoon({
        ...{ store, time: processTime(clock), logger: silentLogger, lookEveryMs: 1 },
        partOfRuns: () => 0.5,
        tell: (owners, part) => told.push([[...owners].sort(), part]),
      });
      dueSoon.start();
      try {
        await waitFor(() => told.length > 0);
        assert.deepEqual(told[0], [['u_1', 'u_2'], 0.5]);
        clock.step(1);
        await waitFor(() => told.at(-1)?.[0].includes('u_later'));
        clock.step(2 * aheadMs);
        await waitFor(() => told.at(-1)?.[0].length === 0);
      } finally {
        await dueSoon.stop();
      }
    });
  });
});
