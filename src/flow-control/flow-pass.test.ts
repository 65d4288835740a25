import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertJobs, jobRow } from '#jobs/job-store.ts';
import { holdRun } from '#sources/hold-run.ts';
import { SourceFlowTarget } from '#sources/source-flow-target.ts';
import { insertSource } from '#sources/source-store.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { passQueue } from './flow-pass.ts';
import { findQueue } from './flow-queue-store.ts';
import type { FlowTarget } from './flow-target.ts';

forEachStore((stores) => {
  test('a run that ended by itself while a later event was to replace it does not count as replaced', async () => {
    const { store } = stores;
    const clock = new TestClock();
    const flow_control = JSON.stringify({ singleton: { mode: 'replace' } });
    await store.transaction((tx) => insertSource(tx, { ...sourceRow('dc_1'), flow_control }, []));
    const arrive = (id: string) =>
      store.transaction((tx) =>
        insertJobs(tx, [
          jobRow(
            holdRun(
              {
                ...{ id, kind: 'run_source', ownerId: 'u_1', lane: 'dc_1' },
                payload: { source_id: 'dc_1', trigger: 'http', event: '{}', hops: 0 },
                runAtMs: clock.now(),
                nowMs: clock.now(),
              },
              flow_control,
            ),
          ),
        ]),
      );
    const target: FlowTarget = new SourceFlowTarget({ store, clock });
    const pass = (more: Partial<FlowTarget> = {}) =>
      passQueue(
        {
          store,
          clock,
          targetOf: () => ({
            isUnfinished: target.isUnfinished,
            find: (tx, id) => target.find(tx, id),
            merge: (tx, rows, options) => target.merge(tx, rows, options),
            keepUnbegun: (tx, subject, ends, nowMs) => target.keepUnbegun(tx, subject, ends, nowMs),
            cancel: (tx, subject, end) => target.cancel(tx, subject, end),
            keepWarning: (tx, id, warning) => target.keepWarning(tx, id, warning),
            ...more,
          }),
        },
        'dc_1',
      );
    await arrive('job_1');
    assert.equal((await pass()).started, 1);
    await arrive('job_2');
    // Between the look at the holders of the key and the lock of the run.
    assert.deepEqual((await pass({ cancel: async () => undefined })).cancelled, []);
    assert.equal((await findQueue(store.read, 'dc_1'))?.replaced, 0);
    await arrive('job_3');
    await pass();
    assert.equal((await findQueue(store.read, 'dc_1'))?.replaced, 1);
  });
});
