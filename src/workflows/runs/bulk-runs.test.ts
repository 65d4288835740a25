import assert from 'node:assert/strict';
import { test } from 'node:test';
import { must } from '#lib/assert.ts';
import { finished, RunFixture } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { BulkRuns } from './bulk-runs.ts';
import type { RunManager } from './manage-runs.ts';
import { findRun } from './run-store.ts';

forEachStore((stores) => {
  const suspend = { flow: { kind: 'suspend', ms: 3_600_000 } } as const;

  test('cancelling all runs does not count as failed those that ended meanwhile', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished({}, suspend) } });
    const ids = [await fixture.start(), await fixture.start(), await fixture.start()];
    for (const id of ids) await fixture.until(id, 'waiting');
    const { manager } = fixture.service;
    // As when the second run was called by the first.
    const takesAnotherAlong: Pick<RunManager, 'cancel'> = {
      async cancel(run, reason) {
        await manager.cancel(run, reason);
        const second = must(await findRun(stores.store.read, ids[1] ?? ''), 'the second run');
        if (run.id === ids[0]) await manager.cancel(second, reason);
      },
    };
    const bulk = new BulkRuns({
      store: stores.store,
      manager: takesAnotherAlong as RunManager,
      repeater: undefined as never,
      starter: fixture.service.starter,
    });
    const wanted = { workflowId: 'p_1', states: ['queued', 'running', 'waiting'], limit: 10 } as const;
    const { done, failed, failures } = await bulk.apply('cancel', wanted);
    assert.deepEqual({ done, failed, failures }, { done: 2, failed: 0, failures: [] });
  });

  test('a run that follows one that a user cancels learns that, and nothing is an error of the service', async () => {
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: async () => {
          begun.resolve();
          await gate.promise;
          return finished();
        },
      },
    });
    const following = fixture.service.starter.startAndFollow(fixture.trigger({}));
    await begun.promise;
    const [run] = await waitFor(async () => {
      const rows = await stores.store.read.selectFrom('runs').selectAll().execute();
      return rows.length === 1 && rows;
    });
    await fixture.service.manager.cancel(must(run, 'the run'), 'cancelled by a person');
    gate.resolve();
    assert.equal((await following).state, 'cancelled');
  });
});
