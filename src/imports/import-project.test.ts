import assert from 'node:assert/strict';
import { test } from 'node:test';
import { disableUserRow, insertUser } from '#identity/user-store.ts';
import { insertJobs, jobRow, type LeasedJob } from '#jobs/job-store.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { type ImportOptions, importProjectHandler } from './import-project.ts';
import { findImport, findSealedImport, insertImport } from './import-store.ts';

forEachStore((fixture) => {
  for (const [what, ownerId, expected] of [
    ['was disabled', undefined, 'is disabled: import again as another one'],
    ['left the workspace', 'o_Left', 'may no longer change things of this workspace'],
  ] as const)
    test(`an import whose user ${what} since fails and says so, and its job is over`, async () => {
      const { store } = fixture;
      const nowMs = systemClock.now();
      const id = 'imp_Late';
      await store.transaction(async (tx) => {
        const user = await insertUser(
          tx,
          { username: 'late', email: 'late@example.com', isAdmin: false },
          nowMs,
        );
        if (ownerId === undefined) await disableUserRow(tx, user.id, { nowMs, reason: null });
        await insertImport(tx, {
          ...{
            id,
            owner_id: ownerId ?? user.id,
            user_id: user.id,
            key_id: 'key_1',
            project_id: '',
            activate: 0,
          },
          ...{ format: 'bundle', state: 'waiting', sealed: 'never opened', summary: '{}', workflows: 1 },
          ...{ error: null, undo_node: null, created_at_ms: nowMs, updated_at_ms: nowMs },
        });
        const job = { id: 'job_1', kind: 'import_project', ownerId: user.id, runAtMs: nowMs, nowMs } as const;
        await insertJobs(tx, [jobRow({ ...job, payload: { import_id: id } }, 'node')]);
      });
      const options: Pick<ImportOptions, 'store' | 'node' | 'clock' | 'logger'> = {
        ...{ store, node: 'node', clock: systemClock, logger: silentLogger },
      };
      const leased = { id: 'job_1', attempts: 1, payload: { import_id: id } } as LeasedJob;
      await importProjectHandler(options as ImportOptions).run(leased, new AbortController().signal);
      const row = await findImport(store.read, id);
      assert.deepEqual([row?.state, row?.error], ['failed', `the user who started the import ${expected}`]);
      assert.deepEqual(await store.read.selectFrom('jobs').select('id').execute(), []);
    });

  test('an import without answers ends, and its project is removed; one that was answered is left to its own job', async () => {
    const { store } = fixture;
    const nowMs = systemClock.now();
    for (const [id, state, after] of [
      ['imp_Asking', 'asking', 'failed'],
      ['imp_Answered', 'running', 'running'],
    ] as const) {
      await store.transaction(async (tx) => {
        await insertImport(tx, {
          ...{ id, owner_id: 'u_1', user_id: 'u_1', key_id: 'key_1', project_id: '', activate: 0 },
          ...{ format: 'bundle', state, sealed: 'never opened', summary: '{}', workflows: 1 },
          ...{ error: null, undo_node: null, created_at_ms: nowMs, updated_at_ms: nowMs },
        });
        const job = { id, kind: 'import_project', ownerId: 'u_1', runAtMs: nowMs, nowMs } as const;
        await insertJobs(tx, [jobRow({ ...job, payload: { import_id: id, expires: true } }, 'node')]);
      });
      const options = { store, node: 'node', clock: systemClock, logger: silentLogger };
      const leased = { id, attempts: 1, payload: { import_id: id, expires: true } } as LeasedJob;
      await importProjectHandler(options as unknown as ImportOptions).run(
        leased,
        new AbortController().signal,
      );
      const row = await findSealedImport(store.read, id);
      assert.deepEqual([row?.state, row?.sealed === null], [after, after === 'failed']);
      if (after === 'failed') assert.match(row?.error ?? '', /no answers came within 24 hours/);
    }
    assert.deepEqual(await store.read.selectFrom('jobs').select('id').execute(), []);
  });
});
