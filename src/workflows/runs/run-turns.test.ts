import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultWorkflowSettings } from '#workflows/definitions/workflow-definition.ts';
import { finished, RunFixture } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

forEachStore((stores) => {
  const event = { sourceType: 'COMPONENT' } as const;
  const succeeded = async () =>
    (await stores.store.read.selectFrom('runs').select('id').where('state', '=', 'succeeded').execute())
      .length;

  /** Runs that wait in the store, as deliveries leave them. */
  const queue = async (fixture: RunFixture, count: number) => {
    const prepared = Array.from({ length: count }, (_, n) =>
      fixture.service.starter.prepare(fixture.trigger({ n }, event), { inStore: true }),
    );
    await stores.store.transaction(async (tx) => {
      for (const { run, job } of prepared) {
        await tx.insertInto('runs').values(run).execute();
        await tx.insertInto('jobs').values(job).execute();
      }
    });
    fixture.pool.poke();
    return prepared.map(({ run }) => run.id);
  };

  test('runs that a throttle of 0 holds continue when the workflow is deployed without it', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished() },
      settings: { throttle: { limit: 0, seconds: 60 } },
    });
    const [runId = ''] = await queue(fixture, 3);
    await waitFor(async () => {
      const jobs = await stores.store.read.selectFrom('jobs').select('run_at_ms').execute();
      return jobs.length === 3 && jobs.every((job) => job.run_at_ms > fixture.clock.now());
    });
    fixture.settings = defaultWorkflowSettings;
    fixture.pass(60_000);
    await fixture.until(runId, 'succeeded');
    await waitFor(async () => (await succeeded()) === 3);
  });

  test('a window that was begun before a restart, or on another node, is counted on for all that come at once', async () => {
    const options = { steps: { a: finished() }, settings: { throttle: { limit: 3, seconds: 60 } } };
    await using first = await RunFixture.start(stores.store, options);
    await queue(first, 2);
    await waitFor(async () => (await succeeded()) === 2);
    await first.pool.stop(0);
    await using second = new RunFixture(stores.store, { ...options, node: 'node_2', clock: first.clock });
    await second.pool.start();
    await queue(second, 5);
    await waitFor(async () => {
      const jobs = await stores.store.read.selectFrom('jobs').select('run_at_ms').execute();
      return jobs.length === 4 && jobs.every((job) => job.run_at_ms > second.clock.now());
    });
    assert.equal(await succeeded(), 3);
    second.pass(60_000);
    await waitFor(async () => (await succeeded()) === 6);
    second.pass(60_000);
    await waitFor(async () => (await succeeded()) === 7);
  });

  test('a run that had begun before its node was lost is not throttled again', async () => {
    const hanging = Promise.withResolvers<never>();
    const settings = { throttle: { limit: 1, seconds: 3_600 } };
    let isHanging = true;
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: () => (isHanging ? hanging.promise : finished()) },
      settings,
    });
    const [runId = ''] = await queue(fixture, 1);
    await waitFor(() => fixture.calls.length === 1);
    await fixture.until(runId, 'running');
    isHanging = false;
    await stores.store.transaction((tx) =>
      tx.updateTable('jobs').set({ state: 'queued', lease_node: null }).where('id', '=', runId).execute(),
    );
    fixture.pool.poke();
    await fixture.until(runId, 'succeeded');
    hanging.reject(new Error('over'));
    await waitFor(() => fixture.pool.runningCount() === 0);
  });

  test('with a greater concurrency those that wait begin before those that come', async () => {
    const order: number[] = [];
    const gates = Array.from({ length: 4 }, () => Promise.withResolvers<void>());
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: async ({ steps }) => {
          const n = Number((steps.trigger?.event as { n: number } | undefined)?.n);
          order.push(n);
          await gates[n]?.promise;
          return finished();
        },
      },
      settings: { concurrency: 1 },
    });
    await queue(fixture, 3);
    await waitFor(() => fixture.pool.runningCount() === 3 && order.length === 1);
    fixture.settings = { ...defaultWorkflowSettings, concurrency: 3 };
    await fixture.start({ n: 3 }, event);
    await waitFor(() => order.length === 3);
    assert.deepEqual(order, [0, 1, 2]);
    for (const gate of gates) gate.resolve();
    await waitFor(async () => (await succeeded()) === 4);
  });
});
