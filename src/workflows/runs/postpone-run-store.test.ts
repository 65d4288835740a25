import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobRow } from '#jobs/job-store.ts';
import { heldJobsQuery } from '#jobs/run-job-store.ts';
import { finished, RunFixture } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { postponeRuns } from './postpone-run-store.ts';

const nowMs = 1_800_000_000_000;

forEachStore((stores) => {
  /** A run that `node_1` holds, in its first attempt. */
  const heldRun = async () => {
    await using fixture = new RunFixture(stores.store, { steps: { a: finished() } });
    const { run } = fixture.service.starter.prepare(fixture.trigger(), { inStore: true });
    const payload = { run_id: run.id, workflow_id: run.workflow_id };
    const job = { id: run.id, kind: 'run_workflow', ownerId: run.owner_id, payload, runAtMs: nowMs } as const;
    await stores.store.transaction(async (tx) => {
      await tx
        .insertInto('runs')
        .values({ ...run, state: 'running' })
        .execute();
      await tx
        .insertInto('jobs')
        .values(jobRow({ ...job, nowMs }, 'node_1'))
        .execute();
    });
    return run.id;
  };

  test('the job of a run is held by the node that it is leased to, and by no other one', async () => {
    const id = await heldRun();
    const heldBy = (node: string) =>
      stores.store.transaction(
        async (tx) => (await tx.executeQuery(heldJobsQuery(stores.store, tx, { node, ids: [id] }))).rows,
      );
    assert.deepEqual(await heldBy('node_2'), []);
    assert.deepEqual(await heldBy('node_1'), [{ id, attempts: 1 }]);
  });

  test('a throttle puts off a run only on the node, and in the attempt, that holds it', async () => {
    const id = await heldRun();
    const postpone = async (node: string, attempts: number) => {
      const job = { id, attempts, runAtMs: nowMs + 1_000 };
      await stores.store.transaction((tx) => postponeRuns(tx, node, [job], nowMs));
      const columns = ['jobs.state', 'jobs.lease_node', 'runs.state as run'] as const;
      return stores.store.read
        .selectFrom('jobs')
        .innerJoin('runs', 'runs.id', 'jobs.id')
        .select(columns)
        .executeTakeFirstOrThrow();
    };
    const held = { state: 'running', lease_node: 'node_1', run: 'running' };
    assert.deepEqual(await postpone('node_2', 1), held);
    assert.deepEqual(await postpone('node_1', 2), held);
    assert.deepEqual(await postpone('node_1', 1), { state: 'queued', lease_node: null, run: 'queued' });
  });
});
