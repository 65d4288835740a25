import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { insertSource, pageOfSources } from '#sources/source-store.ts';
import { migrations } from '#storage/migrate.ts';
import { healthMigration } from '#storage/migrations/0014-health.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { storeDelivery } from '../../test/support/stored-deliveries.ts';
import { storeRun, storeWorkflow } from '../../test/support/stored-workflows.ts';
import { createStoreLocation, type Dialect, forEachStore } from '../../test/support/stores.ts';
import type { HealthKind, HealthState } from './health.ts';
import { countHealth, healthOf, troubledObjects } from './health-store.ts';
import { type Outcome, OutcomeRecorder } from './outcome-store.ts';

const nowMs = 10_000_000;
const ownerId = 'o_1';

forEachStore((fixture) => {
  const record = (subjectId: string, failure: string | null, more: Partial<Outcome> = {}) =>
    fixture.store.transaction((tx) =>
      new OutcomeRecorder(fixture.store, () => false).record(tx, [
        { subjectId, ownerId, failure, atMs: 5_000_000, ...more },
      ]),
    );

  const storeSource = (id: string, more: object = {}) =>
    fixture.store.transaction((tx) => insertSource(tx, { ...sourceRow(id, { ownerId }), ...more }, []));

  const storeJob = (id: string, more: object) =>
    fixture.store.transaction((tx) =>
      tx
        .insertInto('jobs')
        .values({
          ...{ id, kind: 'run_source', owner_id: ownerId, lane: null, state: 'queued', attempts: 0 },
          ...{ losses: 0, blames: 0, alone: 0 },
          ...{ run_at_ms: nowMs, lease_node: null, payload: '{}', error: null, created_at_ms: 7_000_000 },
          ...{ updated_at_ms: 1, ...more },
        })
        .execute(),
    );

  const storeWebhook = (id: string, more: object = {}) =>
    fixture.store.transaction((tx) =>
      tx
        .insertInto('webhooks')
        .values({
          ...{ id, owner_id: ownerId, user_id: 'u_1', name: null, description: null, secret: 'sealed' },
          ...{ url: 'https://example.com', old_secret: null, old_secret_until_ms: null, state: 'active' },
          ...{ disabled_reason: null, disabled_at_ms: null, failing_since_ms: null, removed_records: 0 },
          ...{ created_at_ms: 1, updated_at_ms: 1, ...more },
        })
        .execute(),
    );

  const health = async (kind: HealthKind, id: string) =>
    (await healthOf(fixture.store.read, kind, [id], nowMs)).get(id);

  test('a source is untested, healthy, failing, waiting or paused by what happened last', async () => {
    await storeSource('dc_1');
    assert.deepEqual(await health('source', 'dc_1'), {
      ...{ state: 'untested', since: null, failures: 0, waiting: 0 },
      reason: 'it has not run since its code and props are these',
    });
    await record('dc_1', null);
    assert.deepEqual(await health('source', 'dc_1'), {
      ...{ state: 'healthy', since: 5_000, reason: null, failures: 0, waiting: 0 },
    });
    // One that was just put into the queue is under way; one that is to be tried again, or is overdue, waits.
    await storeJob('job_1', { lane: 'dc_1' });
    assert.equal((await health('source', 'dc_1'))?.state, 'healthy');
    await storeJob('job_2', { lane: 'dc_1', attempts: 1, run_at_ms: nowMs + 5_000 });
    await storeJob('job_3', { lane: 'dc_1*', run_at_ms: nowMs - 61_000, created_at_ms: 6_000_000 });
    assert.deepEqual(await health('source', 'dc_1'), {
      ...{ state: 'waiting', since: 6_000, failures: 0, waiting: 2 },
      reason: '2 runs wait to begin or to be tried again',
    });
    await record('dc_1', 'TypeError: x is not a function');
    const failing = await health('source', 'dc_1');
    assert.equal(failing?.state, 'failing');
    assert.equal(failing?.reason, 'TypeError: x is not a function');
    assert.equal(failing?.failures, 1);
    await storeSource('dc_2', { state: 'inactive' });
    await record('dc_2', 'broken');
    const paused = await health('source', 'dc_2');
    assert.equal(paused?.state, 'paused');
    assert.equal(paused?.reason, 'it is inactive');
  });

  test('a workflow waits with runs that cannot begin or are tried again, not with those that only pause', async () => {
    await storeWorkflow(fixture.store, { id: 'p_1', ownerId });
    assert.equal((await health('workflow', 'p_1'))?.state, 'untested');
    await storeRun(fixture.store, {
      workflow_id: 'p_1',
      state: 'waiting',
      wait_kind: 'suspend',
      created_at_ms: 1,
    });
    const suspended = await health('workflow', 'p_1');
    assert.deepEqual(
      [suspended?.state, suspended?.waiting, suspended?.reason],
      ['waiting', 1, '1 run is suspended until its resume URL is called'],
    );
    for (const [id, kind] of [
      ['p_2', 'delay'],
      ['p_3', 'rerun'],
      ['p_4', 'retry'],
      ['p_5', 'branches'],
    ] as const) {
      await storeWorkflow(fixture.store, { id, ownerId });
      await storeRun(fixture.store, { workflow_id: id, state: 'waiting', wait_kind: kind, created_at_ms: 1 });
    }
    const reasonOf = async (id: string) => (await health('workflow', id))?.reason;
    assert.equal(await reasonOf('p_2'), '1 run is delayed by a step');
    assert.equal(await reasonOf('p_3'), '1 run waits for a step to run again');
    assert.equal(await reasonOf('p_4'), '1 run waits to be tried again');
    assert.equal(
      await reasonOf('p_5'),
      '1 run waits in branches: each for a time, or for a request to its resume URL',
    );
    await storeRun(fixture.store, { workflow_id: 'p_2', state: 'queued', created_at_ms: 2 });
    assert.equal(await reasonOf('p_2'), '2 runs wait: to begin, to be tried again, or as a step said');
    await record('p_1', null);
    assert.equal((await health('workflow', 'p_1'))?.state, 'healthy');
    await storeRun(fixture.store, { workflow_id: 'p_1', state: 'queued', created_at_ms: nowMs - 1 });
    assert.equal((await health('workflow', 'p_1'))?.state, 'healthy');
    await storeRun(fixture.store, { workflow_id: 'p_1', state: 'queued', created_at_ms: nowMs - 61_000 });
    await storeRun(fixture.store, {
      workflow_id: 'p_1',
      state: 'waiting',
      wait_kind: 'retry',
      created_at_ms: 3_000_000,
    });
    const waiting = await health('workflow', 'p_1');
    assert.equal(waiting?.state, 'waiting');
    assert.equal(waiting?.waiting, 2);
    assert.equal(waiting?.since, 3_000);
  });

  test('a webhook says what waits for it, and why it is paused or disabled', async () => {
    await storeWebhook('wh_1');
    const listener_id = 'wh_1';
    await storeDelivery(fixture.store, {
      listener_id,
      state: 'queued',
      created_at_ms: 2_000_000,
      attempts: 1,
      run_at_ms: nowMs + 1_000,
    });
    assert.deepEqual(await health('webhook', 'wh_1'), {
      ...{ state: 'waiting', since: 2_000, failures: 0, waiting: 1 },
      reason: '1 delivery waits for another attempt',
    });
    await record('wh_1', 'the receiver answered 500, expected 2xx');
    const failing = await health('webhook', 'wh_1');
    assert.equal(failing?.state, 'failing');
    assert.equal(failing?.waiting, 1);
    await storeWebhook('wh_2', { state: 'paused' });
    await storeDelivery(fixture.store, { listener_id: 'wh_2', state: 'held', created_at_ms: 1 });
    assert.deepEqual(await health('webhook', 'wh_2'), {
      ...{ state: 'paused', since: null, reason: '1 delivery is held', failures: 0, waiting: 1 },
    });
    const disabled = {
      state: 'disabled',
      disabled_reason: 'only_failures',
      disabled_at_ms: 4_000_000,
    };
    await storeWebhook('wh_3', disabled);
    await record('wh_3', 'ECONNREFUSED');
    const gone = await health('webhook', 'wh_3');
    assert.equal(gone?.state, 'disabled');
    assert.equal(gone?.since, 4_000);
    assert.equal(gone?.reason, 'all deliveries failed for 5 days; the last one: ECONNREFUSED');
  });

  test('lists are filtered by the same states, and only what needs attention is named', async () => {
    for (const id of ['dc_new', 'dc_well', 'dc_bad', 'dc_off']) {
      await storeSource(id, { state: id === 'dc_off' ? 'inactive' : 'active' });
    }
    await storeSource('dc_other', { owner_id: 'o_2' });
    await record('dc_well', null);
    await record('dc_bad', 'broken');
    await record('dc_other', 'broken', { ownerId: 'o_2' });
    const inState = async (state: HealthState) => {
      const page = await pageOfSources(
        fixture.store.read,
        ownerId,
        { limit: 10 },
        { health: { state, nowMs } },
      );
      assert.equal(page.totalCount, page.rows.length);
      return page.rows.map(({ id }) => id);
    };
    assert.deepEqual(await inState('failing'), ['dc_bad']);
    assert.deepEqual(await inState('healthy'), ['dc_well']);
    assert.deepEqual(await inState('untested'), ['dc_new']);
    assert.deepEqual(await inState('paused'), ['dc_off']);
    assert.deepEqual(await inState('waiting'), []);
    const { read } = fixture.store;
    assert.deepEqual(await countHealth(read, 'source', ownerId, nowMs), {
      ...{ healthy: 1, failing: 1, paused: 1, untested: 1 },
    });
    const troubled = await troubledObjects(read, 'source', { ownerId, nowMs, limit: 5 });
    assert.deepEqual(
      troubled.map(({ id }) => id),
      ['dc_bad'],
    );
    for (const kind of ['workflow', 'webhook', 'account'] as const) {
      assert.deepEqual(await countHealth(read, kind, ownerId, nowMs), {});
    }
  });

  test('an upgraded store goes by what it kept: the last runs, and the webhooks that fail', async () => {
    const place = await createStoreLocation(fixture.dialect as Dialect);
    try {
      const before = await place.open({ migrations: migrations.filter((one) => one !== healthMigration) });
      await storeWorkflow(before, { id: 'p_1', ownerId });
      await storeRun(before, { workflow_id: 'p_1', state: 'succeeded', created_at_ms: 1_000 });
      await storeRun(before, { workflow_id: 'p_1', state: 'failed', created_at_ms: 2_000_000 });
      await storeRun(before, { workflow_id: 'p_1', state: 'cancelled', created_at_ms: 3_000_000 });
      await before.transaction((tx) =>
        sql`insert into webhooks (id, owner_id, user_id, url, secret, state, failing_since_ms, removed_records, created_at_ms, updated_at_ms)
        values ('wh_1', 'o_1', 'u_1', 'https://example.com', 'sealed', 'active', 4000000, 0, 1, 1)`.execute(
          tx,
        ),
      );
      await before.close();
      const after = await place.open();
      const [workflow, webhook] = [
        (await healthOf(after.read, 'workflow', ['p_1'], nowMs)).get('p_1'),
        (await healthOf(after.read, 'webhook', ['wh_1'], nowMs)).get('wh_1'),
      ];
      await after.close();
      assert.equal(workflow?.state, 'failing');
      assert.equal(workflow?.since, 2_000);
      assert.equal(webhook?.state, 'failing');
      assert.equal(webhook?.since, 4_000);
    } finally {
      await place.remove();
    }
  });
});
