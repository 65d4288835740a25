import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { WaitingRuns } from '#sources/waiting-runs.ts';
import { finished, RunFixture } from '../../../test/support/run-fixture.ts';
import { storeWorkflow } from '../../../test/support/stored-workflows.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { runBacklog } from './run-backlog-store.ts';
import { RunStarter } from './start-run.ts';

forEachStore((stores) => {
  test('requests that wait for their workflow are bounded in number and bytes, and beyond that refused', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    const { store, clock, service } = fixture;
    const full = { node: 'node_1', hasRoom: () => false, leftInStore: () => {}, lanes: { hasOthers: false } };
    const starter = new RunStarter({
      store,
      clock,
      runs: service.runs,
      pool: full as never,
      onRecorded: () => {},
      onArrived: () => {},
      waiting: new WaitingRuns({ store, clock, limits: { jobs: 3, bytes: 1_000 }, count: runBacklog }),
    });
    const isBusy = (error: unknown) => error instanceof CallerError && error.code === 'workflow_busy';
    await fixture.pool.stop(0);
    for (let run = 0; run < 3; run += 1) await starter.start(fixture.trigger());
    await assert.rejects(starter.start(fixture.trigger()), isBusy);
    assert.equal(await starter.hasRoom({ workflowId: 'p_1', ownerId: 'o_1' }, 1), false, 'mails too');
    const large = { workflowId: 'p_2' };
    await starter.start(fixture.trigger('x'.repeat(600), large));
    clock.step(1_000);
    await assert.rejects(starter.start(fixture.trigger('x'.repeat(600), large)), isBusy);
    assert.deepEqual(await runBacklog(store.read, 'p_2', 10), { jobs: 1, bytes: 602 });
    await store.transaction((tx) => tx.updateTable('runs').set({ state: 'waiting' }).execute());
    assert.deepEqual(
      await runBacklog(store.read, 'p_1', 10),
      { jobs: 0, bytes: 0 },
      'what has begun is none',
    );
  });

  test('a run that begins when it is on disk has its place kept from the moment it found one free', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    const { store, clock, service } = fixture;
    const promised: string[] = [];
    let isFull = false;
    const pool = {
      ...{ node: 'node_1', hasRoom: () => !isFull, leftInStore: () => {}, lanes: { hasOthers: false } },
      promise: (id: string) => promised.push(id),
    };
    const handlers = { onRecorded: () => {}, onArrived: () => {} };
    const starter = new RunStarter({ store, clock, runs: service.runs, pool: pool as never, ...handlers });
    const { job } = starter.prepare(fixture.trigger());
    starter.prepare(fixture.trigger(), { inStore: true });
    isFull = true;
    starter.prepare(fixture.trigger());
    assert.deepEqual(promised, [job.id]);
  });

  test('where other nodes are there, a request to a workflow that one of them deleted is refused and leaves nothing', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    const { store, clock, service } = fixture;
    await fixture.pool.stop(0);
    const gone = (error: unknown) => error instanceof CallerError && error.code === 'unknown_endpoint';
    const key = { id: 'k', ownerId: 'o_1', subjectId: 'p_gone', requestDigest: 'digest' };
    for (const hasRoom of [true, false]) {
      const pool = {
        ...{ node: 'node_1', hasRoom: () => hasRoom, hasRoomToStay: () => true, leftInStore: () => {} },
        ...{ run: () => {}, lanes: { hasOthers: true } },
      };
      const starter = new RunStarter({
        ...{
          store,
          clock,
          runs: service.runs,
          pool: pool as never,
          onRecorded: () => {},
          onArrived: () => {},
        },
      });
      const trigger = () => fixture.trigger('{}', { workflowId: 'p_gone' });
      await assert.rejects(starter.start(trigger()), gone);
      await assert.rejects(starter.start(trigger(), key), gone);
      await assert.rejects(starter.startAndAwait(trigger()), gone);
      await assert.rejects(starter.recordOnly(trigger(), key), gone);
    }
    for (const table of ['runs', 'jobs', 'idempotency_keys'] as const)
      assert.deepEqual(await store.read.selectFrom(table).select('id').execute(), [], table);
  });

  test('so is one whose run is over before it was written', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    const { store, service } = fixture;
    Object.defineProperty(fixture.pool.lanes, 'hasOthers', { get: () => true });
    await storeWorkflow(store, { id: 'p_here', ownerId: 'o_1' });
    await service.starter.start(fixture.trigger('{}', { workflowId: 'p_here' }));
    for (const start of ['start', 'startAndAwait'] as const)
      await assert.rejects(service.starter[start](fixture.trigger('{}', { workflowId: 'p_gone' })), {
        code: 'unknown_endpoint',
      });
    const runs = await store.read.selectFrom('runs').select('workflow_id').execute();
    assert.deepEqual(
      runs.map(({ workflow_id }) => workflow_id),
      ['p_here'],
    );
  });

  test('requests that are only recorded are kept like runs: so many of each workflow', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    const { store, service } = fixture;
    for (let run = 0; run < 1_003; run += 1) await service.starter.recordOnly(fixture.trigger());
    await service.pruner.pruneGrown();
    const rows = await store.read.selectFrom('runs').select('id').execute();
    assert.equal(rows.length, 1_000);
  });
});
