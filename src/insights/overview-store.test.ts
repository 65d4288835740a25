import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type { RunState, RunTable } from '#storage/tables/workflow-tables.ts';
import { storeDelivery } from '../../test/support/stored-deliveries.ts';
import { storeWorkflow } from '../../test/support/stored-workflows.ts';
import { forEachStore } from '../../test/support/stores.ts';
import {
  countDeadLetters,
  namesOf,
  quarantinedRuns,
  waitingDeliveries,
  waitingJobs,
} from './overview-store.ts';

const ownerId = 'o_1';

forEachStore((fixture) => {
  test('what waits is counted for its owner, with the oldest of it', async () => {
    const { store } = fixture;
    const job = (id: string, values: Partial<JobTable>): JobTable => ({
      ...{ id, kind: 'run_source', owner_id: ownerId, lane: null, state: 'queued', attempts: 0 },
      ...{ run_at_ms: 0, losses: 0, blames: 0, alone: 0 },
      ...{ lease_node: null, payload: '{}', error: null, created_at_ms: 1, updated_at_ms: 1 },
      ...values,
    });
    await store.transaction((tx) =>
      tx
        .insertInto('jobs')
        .values([
          job('job_late', { run_at_ms: 500 }),
          job('job_due', { run_at_ms: 900 }),
          job('job_later', { run_at_ms: 1_001 }),
          job('job_running', { run_at_ms: 100, state: 'running' }),
          job('job_of_others', { run_at_ms: 100, owner_id: 'o_2' }),
        ])
        .execute(),
    );
    assert.deepEqual(await waitingJobs(store.read, ownerId, 1_000), { count: 2, oldestAtMs: 500 });
    assert.deepEqual(await waitingJobs(store.read, 'o_3', 1_000), { count: 0, oldestAtMs: null });
    await storeDelivery(store, { listener_id: 'wh_1', state: 'queued', created_at_ms: 700 });
    await storeDelivery(store, { listener_id: 'wh_1', state: 'queued', created_at_ms: 300 });
    await storeDelivery(store, { listener_id: 'wh_1', state: 'delivered', created_at_ms: 100 });
    await storeDelivery(store, { listener_id: 'wh_2', state: 'queued', created_at_ms: 50, owner_id: 'o_2' });
    assert.deepEqual(await waitingDeliveries(store.read, ownerId), { count: 2, oldestAtMs: 300 });
  });

  test('cancelled and skipped deliveries do not count as dead letters', async () => {
    const { store } = fixture;
    for (const state of [
      'failed',
      'blocked',
      'dropped',
      'expired',
      'cancelled',
      'skipped',
      'delivered',
      'queued',
    ] as const) {
      await storeDelivery(store, { listener_id: 'wh_1', state, created_at_ms: 1 });
    }
    await storeDelivery(store, { listener_id: 'wh_2', state: 'failed', created_at_ms: 1, owner_id: 'o_2' });
    assert.equal(await countDeadLetters(store.read, ownerId), 4);
  });

  test('quarantined runs are named, with their workflow', async () => {
    const { store } = fixture;
    const workflowId = await storeWorkflow(store);
    const run = (id: string, state: RunState): RunTable => ({
      ...{ id, owner_id: ownerId, workflow_id: workflowId, deployment_id: 'd_1', state, emitter_id: null },
      ...{ source_type: 'SDK', event: '{}', trace_id: id, token: 't', hops: 0, no_store: 0, replay_of: null },
      ...{ wait_kind: null, wait_until_ms: null, position: 0, resumption: null, failures: 0, error: null },
      ...{
        reason: 'took its process down',
        flow_warning: null,
        created_at_ms: 1,
        started_at_ms: 2,
        ended_at_ms: 3,
      },
    });
    await store.transaction((tx) =>
      tx
        .insertInto('runs')
        .values([run('run_bad', 'quarantined'), run('run_good', 'succeeded')])
        .execute(),
    );
    assert.deepEqual(await quarantinedRuns(store.read, ownerId), [
      { id: 'run_bad', name: workflowId, reason: 'took its process down', sinceMs: 3, workflowId },
    ]);
    const names = await namesOf(store.read, [workflowId, 'dc_gone']);
    assert.deepEqual([...names], [[workflowId, workflowId]]);
  });
});
