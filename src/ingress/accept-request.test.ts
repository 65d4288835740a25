import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { JobRegistry } from '#jobs/job-registry.ts';
import { type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import { WorkerPool } from '#jobs/worker-pool.ts';
import { systemClock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import { unknownEndpoint } from '#sources/endpoint-errors.ts';
import type { ReplyWaiter } from '#sources/reply-waiter.ts';
import { type BatchWrite, GroupCommit } from '#storage/group-commit.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { RequestAcceptor } from './accept-request.ts';

const endpoint = {
  kind: 'source' as const,
  flowControl: null,
  sourceId: 'dc_1',
  ownerId: 'o_1',
  lane: 'dc_1',
  customResponse: true,
};
const reply = { status: 200, headers: {}, body: Buffer.from('done') };

describe('accepting a request', () => {
  forEachStore((fixture) => {
    /** An acceptor on a store whose commits wait for `gate`, with `run` in the place of the component. */
    async function withAcceptor(
      run: (job: LeasedJob, waiter: ReplyWaiter | undefined, writes: GroupCommit) => Promise<void>,
      use: (parts: { acceptor: RequestAcceptor; gate: PromiseWithResolvers<void> }) => Promise<void>,
      { replyTimeoutMs = 60_000 } = {},
    ): Promise<void> {
      const gate = Promise.withResolvers<void>();
      gate.promise.catch(() => {});
      const writes = new GroupCommit(async (work) => {
        await gate.promise;
        return fixture.store.transaction(work);
      });
      const store = { ...fixture.store, writes };
      const waiters = new Map<string, ReplyWaiter>();
      const handler = {
        run: (job: LeasedJob) => run(job, waiters.get(job.id), writes),
        quarantined: async () => {},
      };
      const pool = new WorkerPool({
        node: 'n1',
        store,
        jobs: new JobRegistry({
          run_source: handler,
          delete_events: handler,
          deliver_scheduled_event: handler,
          fan_out_event: handler,
          change_deliveries: handler,
          fan_out_apphook: handler,
          queue_replay: handler,
          run_workflow: handler,
          delete_workflow: handler,
          send_from_run: handler,
        }),
        clock: systemClock,
        logger: silentLogger,
        claims: false,
      });
      const runs = {
        awaitReply: (id: string, waiter: ReplyWaiter) => void waiters.set(id, waiter),
        storedAnywhere: () => {},
        stopAwaiting: (id: string) => void waiters.delete(id),
      };
      const acceptor = new RequestAcceptor({
        store,
        pool,
        runs,
        clock: systemClock,
        replyTimeoutMs,
        onHeld: () => {},
      });
      try {
        await fixture.store.transaction((tx) =>
          tx.insertInto('sources').values(sourceRow(endpoint.sourceId)).execute(),
        );
        await pool.lanes.take([endpoint.lane]);
        await use({ acceptor, gate });
      } finally {
        gate.resolve();
        await pool.stop(1_000);
      }
    }

    const jobs = () => fixture.store.read.selectFrom('jobs').select(['lane', 'state']).execute();

    test('no answer leaves before the request is on disk, however early the component replied', async () => {
      const end = Promise.withResolvers<void>();
      let replied = false;
      await withAcceptor(
        async (_job, waiter) => {
          waiter?.respond(reply);
          replied = true;
          await end.promise;
        },
        async ({ acceptor, gate }) => {
          let answered = false;
          const answer = acceptor.acceptAndAwait(endpoint, '{}').then((given) => {
            answered = true;
            return given;
          });
          await waitFor(() => replied);
          // Longer than the row is held back for a run that ends soon.
          await new Promise((resolve) => setTimeout(resolve, 20));
          assert.equal(answered, false);
          assert.deepEqual(await jobs(), []);
          gate.resolve();
          assert.equal((await answer)?.reply, reply);
          assert.deepEqual(
            (await jobs()).map((row) => ({ ...row })),
            [{ lane: 'dc_1', state: 'running' }],
          );
          end.resolve();
        },
      );
    });

    test('a run that is over before its request was written is stored in its place, and answered when it is', async () => {
      const note: BatchWrite<string, void> = {
        name: 'note',
        run: async (tx, ids) => {
          await tx
            .insertInto('emitters')
            .values(ids.map((id) => ({ id, owner_id: 'o_1', last_ms: 0, last_seq: 0, dedupe: '{}' })))
            .execute();
          return ids.map(() => undefined);
        },
      };
      const cancelled: boolean[] = [];
      await withAcceptor(
        async (job, waiter, writes) => {
          waiter?.respond(reply);
          cancelled.push(job.unpersisted?.cancelWrite() === true);
          const settled = writes.submit(note, 'what it caused');
          job.unpersisted?.settledBy(settled);
          await settled;
        },
        async ({ acceptor, gate }) => {
          let answered = false;
          const answer = acceptor.acceptAndAwait(endpoint, '{}').then(() => {
            answered = true;
          });
          await waitFor(() => cancelled.length === 1);
          await new Promise(setImmediate);
          assert.deepEqual([cancelled, answered], [[true], false]);
          gate.resolve();
          await answer;
          const emitters = await fixture.store.read.selectFrom('emitters').select('id').execute();
          assert.deepEqual(
            emitters.map(({ id }) => id),
            ['what it caused'],
          );
          assert.deepEqual(await jobs(), []);
        },
      );
    });

    test('a request with a key runs once its key is on disk, and not at all when the key was taken', async () => {
      const jobsRun: string[] = [];
      const key = { id: 'k', ownerId: 'o_1', subjectId: 'dc_1', requestDigest: 'digest' };
      await withAcceptor(
        async (job, waiter) => {
          jobsRun.push(job.id);
          waiter?.respond(reply);
        },
        async ({ acceptor, gate }) => {
          const first = acceptor.acceptAndAwait(endpoint, '{}', key);
          const second = acceptor.acceptAndAwait(endpoint, '{}', key);
          // Longer than the row of a request without a key is held back.
          await new Promise((resolve) => setTimeout(resolve, 20));
          assert.deepEqual(jobsRun, []);
          gate.resolve();
          assert.equal((await first)?.reply, reply);
          assert.equal(await second, undefined);
          assert.equal(await acceptor.accept(endpoint, '{}', key), false);
          assert.equal(jobsRun.length, 1);
          assert.equal((await jobs()).length, 1);
        },
      );
    });

    test('a request to a source that another node deleted is refused, and leaves neither a job nor its key', async (t) => {
      if (fixture.dialect === 'sqlite') return t.skip('SQLite has one node');
      const key = { id: 'k', ownerId: 'o_1', subjectId: 'dc_1', requestDigest: 'digest' };
      const gone = { code: 'unknown_endpoint' };
      await withAcceptor(
        async (job) => job.unpersisted?.write(),
        async ({ acceptor, gate }) => {
          gate.resolve();
          await fixture.store.transaction((tx) => tx.deleteFrom('sources').execute());
          await assert.rejects(acceptor.accept(endpoint, '{}'), gone);
          await assert.rejects(acceptor.accept(endpoint, '{}', key), gone);
          await assert.rejects(acceptor.acceptAndAwait(endpoint, '{}'), gone);
          const elsewhere = { ...endpoint, lane: 'of another node' };
          await assert.rejects(acceptor.accept(elsewhere, '{}'), gone);
          await assert.rejects(acceptor.acceptAndAwait(elsewhere, '{}', key), gone);
          assert.deepEqual(await jobs(), []);
          const keys = await fixture.store.read.selectFrom('idempotency_keys').select('id').execute();
          assert.deepEqual(keys, []);
        },
      );
    });

    test('a request whose source turns out to be gone before it was written is refused', async () => {
      await withAcceptor(
        async (job) => {
          assert.equal(job.unpersisted?.refuse(unknownEndpoint()), true);
        },
        async ({ acceptor, gate }) => {
          gate.resolve();
          await assert.rejects(acceptor.accept(endpoint, '{}'), { code: 'unknown_endpoint' });
          assert.deepEqual(await jobs(), []);
        },
      );
    });

    test('a caller whose run has not begun in time learns that it waits', async () => {
      const end = Promise.withResolvers<void>();
      await withAcceptor(
        () => end.promise,
        async ({ acceptor, gate }) => {
          gate.resolve();
          const given = await acceptor.acceptAndAwait(endpoint, '{}');
          assert.deepEqual([given?.reply, given?.waits], [undefined, true]);
          end.resolve();
        },
        { replyTimeoutMs: 1 },
      );
    });

    test('a caller whose run ended without a reply learns that', async () => {
      await withAcceptor(
        async (_job, waiter) => waiter?.ended('it has no reply'),
        async ({ acceptor, gate }) => {
          gate.resolve();
          const given = await acceptor.acceptAndAwait(endpoint, '{}');
          assert.deepEqual([given?.reply, given?.waits], [undefined, false]);
        },
      );
    });

    test('when the store refuses the request the caller learns it, whatever the component replied', async () => {
      await withAcceptor(
        async (_job, waiter) => waiter?.respond(reply),
        async ({ acceptor, gate }) => {
          gate.reject(new UnavailableError('storage_full', 'full'));
          await assert.rejects(acceptor.acceptAndAwait(endpoint, '{}'), { code: 'storage_full' });
          assert.deepEqual(await jobs(), []);
        },
      );
    });

    test('a store that failed is asked before anything runs again', async () => {
      let runs = 0;
      await withAcceptor(
        async (job) => {
          runs += 1;
          await job.unpersisted?.write();
          await fixture.store.transaction((tx) => settleJobs(fixture.store, tx, { node: 'n1', jobs: [job] }));
        },
        async ({ acceptor, gate }) => {
          gate.reject(new UnavailableError('store_unavailable', 'gone'));
          await assert.rejects(acceptor.accept(endpoint, '{}'));
          assert.equal(runs, 1);
          await assert.rejects(acceptor.accept(endpoint, '{}'));
          assert.equal(runs, 1, 'what would be refused does not run');
        },
      );
    });
  });
});
