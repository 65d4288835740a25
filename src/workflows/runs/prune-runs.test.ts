import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { finished, RunFixture, threw } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { RunPruner } from './prune-runs.ts';

forEachStore((stores) => {
  const prune = async (keep: number) => {
    const pruner = new RunPruner({ store: stores.store, logger: silentLogger, keep });
    pruner.ended('p_1');
    await pruner.pruneGrown();
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

  test('exactly as many ended runs are kept as were asked for, however they ended', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      runsKept: 3,
      steps: {
        a: ({ steps }) => {
          const { event } = steps.trigger as { event: string };
          if (event === 'fails') return threw('Error', 'no');
          return finished({}, event === 'waits' ? { flow: { kind: 'suspend', ms: 3_600_000 } } : {});
        },
        b: finished(),
      },
    });
    const { service } = fixture;
    const ids: string[] = [];
    const ends: Record<string, () => Promise<string>> = {
      succeeded: () => fixture.start(),
      failed: () => fixture.start('fails'),
      cancelled: async () => {
        const id = await fixture.start('waits');
        await service.manager.cancel(await fixture.until(id, 'waiting'), 'by a test');
        return id;
      },
      quarantined: async () => {
        const { run, job } = service.starter.prepare(fixture.trigger(), { inStore: true });
        await stores.store.transaction((tx) => tx.insertInto('runs').values(run).execute());
        const payload = { run_id: run.id, workflow_id: 'p_1' };
        await service.runs.quarantined({
          ...{ id: job.id, kind: 'run_workflow', ownerId: 'u_1', lane: 'p_1', attempts: 3, payload },
          ...{ bytes: 0, createdAtMs: 0 },
        });
        return run.id;
      },
      not_triggered: async () => (await service.starter.recordOnly(fixture.trigger())).runId,
    };
    for (const state of ['succeeded', 'succeeded', 'succeeded', ...Object.keys(ends), 'succeeded']) {
      const id = await ends[state]?.();
      assert.ok(id);
      ids.push(id);
      await fixture.until(id, state);
      await waitFor(() => fixture.pool.runningCount() === 0);
      await service.pruner.pruneGrown();
      assert.deepEqual(await runIds(), ids.slice(-3), state);
      fixture.clock.step(1);
    }
  });

  test('what gathered before a start is found by it, of every workflow', async () => {
    await using fixture = await RunFixture.start(stores.store, { runsKept: 2, steps: { a: finished() } });
    for (const workflowId of ['p_1', 'p_2'])
      for (let run = 0; run < 4; run += 1) {
        await fixture.service.starter.recordOnly(fixture.trigger({}, { workflowId }));
        fixture.clock.step(1);
      }
    const pruner = new RunPruner({ store: stores.store, logger: silentLogger, keep: 2 });
    pruner.start();
    await waitFor(async () => (await runIds()).length === 4);
    await pruner.stop();
    await pruner.stop();
    const kept = await stores.store.read.selectFrom('runs').select('workflow_id').execute();
    assert.deepEqual(kept.map(({ workflow_id }) => workflow_id).sort(), ['p_1', 'p_1', 'p_2', 'p_2']);
  });

  test('what could not be removed is tried again', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    for (let run = 0; run < 2; run += 1) await fixture.service.starter.recordOnly(fixture.trigger());
    let isAway = true;
    const writes = {
      submitLazily: async (...args: Parameters<typeof stores.store.writes.submitLazily>) => {
        if (isAway) throw new Error('the store is away');
        return stores.store.writes.submitLazily(...args);
      },
    };
    const store = { ...stores.store, writes } as unknown as typeof stores.store;
    const pruner = new RunPruner({ store, logger: silentLogger, keep: 1 });
    pruner.ended('p_1');
    await pruner.pruneGrown();
    assert.equal((await runIds()).length, 2);
    isAway = false;
    await pruner.pruneGrown();
    assert.equal((await runIds()).length, 1);
  });
});
