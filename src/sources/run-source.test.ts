import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertJobs, jobRow, leasedHere } from '#jobs/job-store.ts';
import { UnavailableError } from '#lib/errors.ts';
import { DeployerFixture, finished, me } from '../../test/support/deployer-fixture.ts';
import { forEachStore } from '../../test/support/stores.ts';

forEachStore((fixture) => {
  test('a run whose turn comes while an earlier run of its source is to be tried again calls no code', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component({ hooks: [] });
    const { source } = await parts.deployer.create({ component_id: component.id }, me);
    const payload = { source_id: source.id, trigger: 'http' as const, hops: 0 };
    const runOf = (id: string) => {
      const job = { id, kind: 'run_source' as const, ownerId: source.owner_id, lane: source.id, payload };
      return parts.runs.run(leasedHere({ ...job, runAtMs: 0, nowMs: 0 }, 0), new AbortController().signal);
    };
    const ended = Promise.withResolvers<void>();
    parts.answer = async () => {
      await ended.promise;
      throw new UnavailableError('store_unavailable', 'the test says so');
    };
    const first = runOf('first');
    const second = runOf('second');
    ended.resolve();
    await assert.rejects(first, { code: 'store_unavailable' });
    await assert.rejects(second, { code: 'overloaded' });
    assert.deepEqual(parts.calls, ['run']);
    parts.restingLanes.clear();
    await assert.rejects(runOf('first'), { code: 'store_unavailable' });
    assert.deepEqual(parts.calls, ['run', 'run']);
  });

  test('a run that has ended after its source was removed is dropped, and not tried again', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component({ hooks: [] });
    const { source } = await parts.deployer.create({ component_id: component.id }, me);
    const payload = { source_id: source.id, trigger: 'http' as const, hops: 0 };
    await fixture.store.transaction((tx) => tx.updateTable('sources').set({ concurrency: 2 }).execute());
    const runs: Promise<void>[] = [];
    const bothRun = Promise.withResolvers<void>();
    parts.answer = async () => {
      if (parts.calls.length === 1) {
        await bothRun.promise;
        await parts.deployer.remove(source.id, { ignoreHookErrors: false });
      } else {
        bothRun.resolve();
        await runs[0];
      }
      return finished;
    };
    for (const id of ['first', 'second']) {
      const job = { id, kind: 'run_source' as const, ownerId: source.owner_id, lane: source.id, payload };
      const leased = leasedHere({ ...job, runAtMs: 0, nowMs: 0 }, 0);
      await fixture.store.transaction((tx) =>
        insertJobs(tx, [jobRow({ ...job, runAtMs: 0, nowMs: 0 }, 'node_test')]),
      );
      runs.push(parts.runs.run(leased, new AbortController().signal));
    }
    await Promise.all(runs);
    assert.deepEqual(parts.calls, ['run', 'run']);
    assert.deepEqual(await fixture.store.read.selectFrom('jobs').select('id').execute(), []);
  });
});
