import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { finished, RunFixture } from '../../test/support/run-fixture.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { RunPruner } from './prune-runs.ts';

forEachStore((stores) => {
  const prune = async (keep: number) => {
    const pruner = new RunPruner({ store: stores.store, logger: silentLogger, keep });
    pruner.ended('p_1');
    await pruner.pruneGrown(1);
  };
  const runIds = async () =>
    (await stores.store.read.selectFrom('runs').select('id').orderBy('id').execute()).map(({ id }) => id);

  test('what a pruned run has still to send stays until it was sent', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: finished(
          {},
          {
            sends: [
              { kind: 'http', payload: '{}' },
              { kind: 'emit', payload: '{"event":1}' },
            ],
          },
        ),
      },
    });
    for (let run = 0; run < 3; run += 1) await fixture.until(await fixture.start(), 'succeeded');
    await prune(1);
    assert.equal((await runIds()).length, 1);
    const sends = await stores.store.read.selectFrom('run_sends').select(['kind', 'state']).execute();
    assert.deepEqual(sends.map(({ kind, state }) => `${kind} ${state}`).sort(), [
      'emit sent',
      'http queued',
      'http queued',
      'http queued',
    ]);
  });

  test('runs that wait do not count: as many ended ones are kept as were asked for, the newest', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: ({ steps }) =>
          finished({}, steps.trigger?.event === 'waits' ? { flow: { kind: 'delay', ms: 3_600_000 } } : {}),
        b: finished(),
      },
    });
    const ids: string[] = [];
    for (const event of ['ends', 'ends', 'waits', 'ends', 'waits', 'waits']) {
      const id = await fixture.start(event);
      await fixture.until(id, 'succeeded', 'waiting');
      ids.push(id);
      fixture.clock.step(1);
    }
    await waitFor(() => fixture.pool.runningCount() === 0);
    await prune(2);
    assert.deepEqual(await runIds(), ids.slice(1));
  });
});
