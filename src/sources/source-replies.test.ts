import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { insertJobs, jobRow } from '#jobs/job-store.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { SourceReplies } from './source-replies.ts';

describe('the reply of a run on another node', () => {
  forEachStore((fixture) => {
    test('a caller whose job is gone without a reply gets an error, and is not left waiting', async () => {
      const replies = new SourceReplies({
        ...{ store: fixture.store, node: 'node_1', clock: systemClock, logger: silentLogger },
        ...{ pollMs: 10, goneMs: 0 },
      });
      const nowMs = systemClock.now();
      const job = (id: string) =>
        jobRow({
          ...{ id, kind: 'delete_events', ownerId: 'o_1', payload: { emitter_id: id } },
          ...{ runAtMs: nowMs + 3_600_000, nowMs },
        });
      await fixture.store.transaction((tx) => insertJobs(tx, [job('job_there')]));
      const ended: string[] = [];
      const gone = new Promise<string>((resolve) => {
        for (const id of ['job_gone', 'job_there', 'job_not_stored_yet'])
          replies.await(id, {
            started: () => {},
            respond: () => {},
            ended: (reason) => {
              ended.push(id);
              resolve(reason);
            },
            interrupted: () => {},
          });
      });
      replies.stored('job_gone');
      replies.stored('job_there');
      try {
        assert.equal(await gone, 'nothing of the run is left');
        assert.deepEqual(new Set(ended), new Set(['job_gone']));
      } finally {
        replies.stop();
      }
    });
  });
});
