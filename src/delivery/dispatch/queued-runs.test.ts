import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertNewJobs } from '#jobs/job-store.ts';
import type { Store } from '#storage/store.ts';
import type { RunState } from '#storage/tables/workflow-tables.ts';
import { insertRuns } from '#workflows/runs/run-store.ts';
import { RecordedRuns } from '../../../test/support/stored-workflows.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { QueuedRuns } from './queued-runs.ts';

const clock = new TestClock();
const request = { bytes: 10, queueSize: 3, concurrency: 0 };

async function storeRun(store: Store, options: { state?: RunState; sourceType?: 'HTTP' | 'COMPONENT' } = {}) {
  const { run, job } = new RecordedRuns(clock).prepare({
    workflowId: 'p_1',
    ownerId: 'o_1',
    deploymentId: 'd_1',
    flowControl: null,
    emitterId: 'dc_1',
    sourceType: options.sourceType ?? 'COMPONENT',
    event: '"12345678"',
    hops: 1,
  });
  await store.transaction(async (tx) => {
    await insertRuns(store, tx, [{ ...run, state: options.state ?? run.state }]);
    await insertNewJobs(store, tx, [job]);
  });
}

forEachStore((fixture) => {
  test('places are those that the store leaves and that no run was given, each of many that ask at once', async () => {
    await storeRun(fixture.store);
    const queued = new QueuedRuns({ store: fixture.store, clock });
    const places = await Promise.all(Array.from({ length: 5 }, () => queued.admit('p_1', request)));
    assert.equal(places.filter((place) => place !== undefined).length, 2);
    assert.ok((await queued.admit('p_2', request)) !== undefined);
  });

  test('a place that was not used, or whose run has begun, is there again', async () => {
    const queued = new QueuedRuns({ store: fixture.store, clock });
    const places = [];
    for (let n = 0; n < 3; n += 1) places.push(await queued.admit('p_1', request));
    assert.equal(await queued.admit('p_1', request), undefined);
    places[0]?.settled();
    places[0]?.settled();
    assert.ok((await queued.admit('p_1', request)) !== undefined);
    assert.equal(await queued.admit('p_1', request), undefined);
  });

  test('runs that were not started by events, that run, wait for something or have ended take no place', async () => {
    await storeRun(fixture.store, { sourceType: 'HTTP' });
    for (const state of ['running', 'waiting'] as const) await storeRun(fixture.store, { state });
    const queued = new QueuedRuns({ store: fixture.store, clock });
    const places = await Promise.all(Array.from({ length: 5 }, () => queued.admit('p_1', request)));
    assert.equal(places.filter((place) => place !== undefined).length, 3);
  });

  test('while fewer run than may, as many more may be queued', async () => {
    await storeRun(fixture.store, { state: 'running' });
    const queued = new QueuedRuns({ store: fixture.store, clock });
    const asked = Array.from({ length: 9 }, () => queued.admit('p_1', { ...request, concurrency: 3 }));
    assert.equal((await Promise.all(asked)).filter((place) => place !== undefined).length, 5);
  });

  test('the events of what waits have a bound in bytes; one that is larger than that waits alone', async () => {
    const queued = new QueuedRuns({ store: fixture.store, clock, bytesMax: 25 });
    const large = await queued.admit('p_1', { ...request, bytes: 26 });
    assert.ok(large !== undefined);
    assert.equal(await queued.admit('p_1', request), undefined);
    large.settled();
    await storeRun(fixture.store);
    assert.ok((await queued.admit('p_1', request)) !== undefined);
    assert.equal(await queued.admit('p_1', request), undefined);
  });
});
