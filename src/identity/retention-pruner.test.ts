import assert from 'node:assert/strict';
import { test } from 'node:test';
import { removeAccountAuditOf } from '#accounts/account-audit-store.ts';
import { auditPruner } from '#audit/audit-pruner.ts';
import { removeAuditRecordsOf } from '#audit/audit-store.ts';
import { DeliveryPruner, removeDeliveriesBefore } from '#delivery/prune-deliveries.ts';
import { removeEventsBefore } from '#events/event-store.ts';
import { EventPruner } from '#events/prune-events.ts';
import { silentLogger } from '#lib/logger.ts';
import { FileContents, RowContent } from '#user-data/files/file-content.ts';
import { insertChunk, insertFile, retireFilesBefore } from '#user-data/files/file-store.ts';
import { FilePruner } from '#user-data/files/prune-files.ts';
import { removeVariableAuditOf } from '#user-data/variables/variable-store.ts';
import { removeRunsBefore, runsToPrune } from '#workflows/runs/forget-run-store.ts';
import { storeDelivery } from '../../test/support/stored-deliveries.ts';
import { storeRun, storeWorkflow } from '../../test/support/stored-workflows.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { RetentionPruner } from './retention-pruner.ts';
import { putRetention } from './retention-store.ts';

const dayMs = 86_400_000;
const nowMs = Date.UTC(2027, 0, 31, 12);
const ago = (days: number) => nowMs - days * dayMs;

forEachStore((fixture) => {
  /** Workflow `p_<owner>` of a workspace, with a run, an event and an audit record of each of these ages in days. */
  const fill = async (ownerId: string, ages: readonly number[]) => {
    const { store } = fixture;
    const workflowId = await storeWorkflow(store, { id: `p_${ownerId}`, ownerId });
    for (const age of ages) {
      const at = ago(age);
      await storeRun(store, {
        ...{ workflow_id: workflowId, owner_id: ownerId, state: 'succeeded', created_at_ms: at },
      });
      await store.transaction(async (tx) => {
        const text = {
          given_id: null,
          summary: null,
          ts_ms: null,
          deliver_channel: null,
          deliver_at_ms: null,
        };
        await tx
          .insertInto('events')
          .values({
            ...{
              emitter_id: workflowId,
              channel: '',
              ms: at,
              seq: 0,
              owner_id: ownerId,
              hops: 0,
              event: '1',
            },
            ...{ emit_id: `${ownerId}${age}`, ...text },
          })
          .execute();
        const by = {
          actor_kind: 'user',
          user_id: 'u_1',
          key_id: null,
          session: null,
          address: null,
        } as const;
        await tx
          .insertInto('audit_records')
          .values({
            ...{ id: `aud_${ownerId}_${age}`, owner_id: ownerId, ...by, operation: 'x', object_kind: null },
            ...{
              object_id: null,
              status: 200,
              before: null,
              after: null,
              parameters: '{}',
              request_id: null,
            },
            created_at_ms: at,
          })
          .execute();
      });
    }
    return workflowId;
  };
  const kept = async (ownerId: string) => {
    const { read } = fixture.store;
    const count = async (table: 'runs' | 'events' | 'audit_records' | 'deliveries') =>
      (await read.selectFrom(table).select('owner_id').where('owner_id', '=', ownerId).execute()).length;
    return {
      runs: await count('runs'),
      events: await count('events'),
      audit: await count('audit_records'),
      deliveries: await count('deliveries'),
    };
  };
  const set = (ownerId: string, changes: Parameters<typeof putRetention>[2]) =>
    fixture.store.transaction((tx) => putRetention(tx, ownerId, changes, nowMs));
  const options = () => ({ store: fixture.store, clock: new TestClock(nowMs), logger: silentLogger });
  const pruner = () =>
    new RetentionPruner({
      ...options(),
      removals: {
        events: [removeEventsBefore],
        runs: [removeRunsBefore],
        deliveries: [removeDeliveriesBefore],
        audit: [removeAuditRecordsOf, removeVariableAuditOf, removeAccountAuditOf],
        files: [retireFilesBefore],
      },
    });

  test('what is older than the days of a workspace is removed, of each kind, and nothing of others', async () => {
    const ages = [0.5, 3, 6, 20];
    const workflow = await fill('o_short', ages);
    await fill('o_other', ages);
    for (const age of ages)
      await storeDelivery(fixture.store, {
        ...{ owner_id: 'o_short', listener_id: workflow, state: 'delivered' },
        ...{ created_at_ms: ago(age), ended_at_ms: ago(age) },
      });
    await set('o_short', { events_days: 1, runs_days: 5, deliveries_days: 10 });
    await pruner().prune();
    assert.deepEqual(await kept('o_short'), { events: 1, runs: 2, deliveries: 3, audit: 4 });
    assert.deepEqual(await kept('o_other'), { events: 4, runs: 4, deliveries: 0, audit: 4 });
    await set('o_short', { audit_days: 4 });
    await pruner().prune();
    assert.equal((await kept('o_short')).audit, 2);
  });

  test('more rows than fit into one transaction are removed in several', async () => {
    const workflow = await storeWorkflow(fixture.store, { id: 'p_many', ownerId: 'o_many' });
    for (let count = 0; count < 450; count += 1)
      await storeDelivery(fixture.store, {
        ...{ owner_id: 'o_many', listener_id: workflow, state: 'delivered' },
        ...{ created_at_ms: ago(9), ended_at_ms: ago(9) },
      });
    await set('o_many', { deliveries_days: 5 });
    await pruner().prune();
    assert.equal((await kept('o_many')).deliveries, 0);
  });

  test('under a legal hold nothing is removed, neither for its age nor for its number', async () => {
    const { store } = fixture;
    const ages = [...Array.from({ length: 130 }, (_, at) => at / 100), 400];
    const workflow = await fill('o_held', ages);
    for (let count = 0; count < 3; count += 1)
      await storeDelivery(store, {
        ...{ owner_id: 'o_held', listener_id: workflow, state: 'delivered' },
        ...{ created_at_ms: ago(60), ended_at_ms: ago(60) },
      });
    await set('o_held', { events_days: 1, runs_days: 1, deliveries_days: 1, audit_days: 1, legal_hold: 1 });
    const all = await kept('o_held');
    const round = async () => {
      await pruner().prune();
      await auditPruner({ ...options(), daysKept: 365 }).prune();
      await new DeliveryPruner({ ...options(), kept: { delivered: 1, dead: 1 } }).sweep();
      const events = new EventPruner(options());
      events.start();
      await events.swept();
      await events.pruneGrown(0);
      await events.stop();
      return runsToPrune(store.read, workflow, { keep: 2, limit: 10 });
    };
    assert.deepEqual(await round(), []);
    assert.deepEqual(await kept('o_held'), all);
    await set('o_held', { legal_hold: 0, events_days: null, runs_days: null });
    assert.equal((await round()).length, 10);
    const { events, audit, deliveries } = await kept('o_held');
    assert.deepEqual([events, audit, deliveries], [100, 101, 0]);
  });

  test('files older than the days of a workspace go with their content; a legal hold keeps those that expired, too', async () => {
    const { store } = fixture;
    const put = (ownerId: string, age: number, expiresAtMs: number | null = null) =>
      store.transaction(async (tx) => {
        const id = `file_${ownerId}_${age}`;
        const times = { created_at_ms: ago(age), updated_at_ms: ago(age), expires_at_ms: expiresAtMs };
        const content = { content_type: 'text/plain', size: 1, sha256: '', complete: 1 };
        await insertFile(tx, {
          id,
          owner_id: ownerId,
          folder: 'files',
          path: `${age}`,
          ...content,
          ...times,
          content_in: 'store',
        });
        await insertChunk(tx, { file_id: id, number: 0, owner_id: ownerId, bytes: Buffer.from('x') });
      });
    for (const age of [1, 5, 20]) for (const ownerId of ['o_short', 'o_usual']) await put(ownerId, age);
    for (const age of [5, 20]) await put('o_held', age);
    await put('o_held', 2, ago(1));
    await put('o_usual', 2, ago(1));
    await set('o_short', { files_days: 10 });
    await set('o_held', { files_days: 10, legal_hold: 1 });
    const left = async () => {
      await pruner().prune();
      await new FilePruner({ ...options(), contents: new FileContents(new RowContent(store)) }).prune();
      const of = async (ownerId: string) => {
        const files = store.read.selectFrom('files').select('id').where('owner_id', '=', ownerId);
        const chunks = store.read.selectFrom('file_chunks').select('file_id').where('owner_id', '=', ownerId);
        return [(await files.execute()).length, (await chunks.execute()).length];
      };
      return { short: await of('o_short'), usual: await of('o_usual'), held: await of('o_held') };
    };
    assert.deepEqual(await left(), { short: [2, 2], usual: [3, 3], held: [3, 3] });
    await set('o_held', { legal_hold: 0 });
    assert.deepEqual(await left(), { short: [2, 2], usual: [3, 3], held: [1, 1] });
  });

  test('days of its own that are more than those of the instance hold too', async () => {
    const { store } = fixture;
    const workflow = await fill('o_long', [10, 400]);
    await fill('o_usual', [10, 400]);
    await storeDelivery(store, {
      ...{ owner_id: 'o_long', listener_id: workflow, state: 'delivered' },
      ...{ created_at_ms: ago(60), ended_at_ms: ago(60) },
    });
    await set('o_long', { audit_days: 500, deliveries_days: 90 });
    await auditPruner({ ...options(), daysKept: 365 }).prune();
    await new DeliveryPruner(options()).sweep();
    await pruner().prune();
    const { audit, deliveries } = await kept('o_long');
    assert.deepEqual([audit, deliveries, (await kept('o_usual')).audit], [2, 1, 1]);
  });
});
