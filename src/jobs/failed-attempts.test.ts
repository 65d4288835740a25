import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { UnavailableError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { FailedAttempts } from './failed-attempts.ts';
import { insertJobs, jobRow, type LeasedJob, leasedHere } from './job-store.ts';

const node = 'n_1';
const lane = 'dc_1';
/** Longer than every pause between tries. */
const longMs = 80_000;

describe('attempts that failed without a fault of their jobs', () => {
  forEachStore((fixture) => {
    let clock: TestClock;
    let failed: FailedAttempts;

    beforeEach(() => {
      clock = new TestClock();
      const quarantine = { notify: async () => assert.fail('no job is to blame') };
      failed = new FailedAttempts({ node, store: fixture.store, clock, quarantine });
    });

    /** Stores a job of the lane that this node is working on. */
    async function insert(id: string): Promise<LeasedJob> {
      const payload = { source_id: lane, trigger: 'http' as const, hops: 0 };
      const job = { id, kind: 'run_source' as const, ownerId: 'o_1', lane, payload };
      const nowMs = clock.now();
      await fixture.store.transaction((tx) =>
        insertJobs(tx, [jobRow({ ...job, runAtMs: nowMs, nowMs }, node)]),
      );
      return leasedHere({ ...job, runAtMs: nowMs, nowMs }, 0);
    }

    /** Fails attempts of all these jobs, in this order, and answers which have kept their places. */
    async function fail(...jobs: LeasedJob[]): Promise<string[]> {
      const { store } = fixture;
      await store.transaction((tx) =>
        tx.updateTable('jobs').set({ state: 'running', lease_node: node, attempts: 1 }).execute(),
      );
      for (const job of jobs) failed.add(job, new UnavailableError('store_unavailable', 'gone for long'));
      assert.equal(failed.rests(lane), true, 'nothing of the lane runs before that is stored');
      await failed.requeue();
      const rows = await store.read
        .selectFrom('jobs')
        .select(['id', 'state', 'attempts', 'run_at_ms', 'created_at_ms'])
        .orderBy('id')
        .execute();
      for (const { state, attempts } of rows) assert.deepEqual([state, attempts], ['queued', 0]);
      return rows.filter((row) => row.run_at_ms === row.created_at_ms).map(({ id }) => id);
    }

    test('the first pause is a second or a little more, also for a job that is an hour old', async () => {
      const job = await insert('a');
      clock.step(3_600_000);
      await fail(job);
      clock.step(999);
      assert.equal(failed.rests(lane), true);
      clock.step(251);
      assert.equal(failed.rests(lane), false);
    });

    test('a job keeps its place for five tries; then it comes when it can, and its lane no longer rests for it', async () => {
      const job = await insert('a');
      for (let tries = 0; tries < 5; tries += 1) {
        assert.deepEqual(await fail(job), ['a']);
        assert.equal(failed.rests(lane), true);
        clock.step(longMs);
        assert.equal(failed.rests(lane), false);
      }
      assert.deepEqual(await fail(job), []);
      assert.equal(failed.rests(lane), false);
    });

    test('jobs that wait for one before them lose no tries of their own, and keep their order when it has lost its place', async () => {
      const [first, second, third] = [await insert('a'), await insert('b'), await insert('c')];
      for (let tries = 0; tries < 5; tries += 1) {
        assert.deepEqual(await fail(first, second, third), ['a', 'b', 'c']);
        clock.step(longMs);
      }
      for (let tries = 0; tries < 5; tries += 1) {
        assert.deepEqual(await fail(first, second, third), ['b', 'c'], `try ${tries} of the second`);
        assert.equal(failed.rests(lane), true);
        clock.step(longMs);
      }
      assert.deepEqual(await fail(second, third, first), ['c']);
    });

    test('the lane rests from the moment in which an attempt fails, while it is stored, and not when it was never accepted', async () => {
      const [first, second] = [await insert('a'), await insert('b')];
      const gone = new UnavailableError('store_unavailable', 'gone');
      failed.begin(second, gone);
      assert.deepEqual([failed.rests(lane), failed.rests('dc_2'), [...failed.ids()]], [true, false, []]);
      failed.isOver(second);
      assert.equal(failed.rests(lane), false);
      const isAsked = Promise.withResolvers<void>();
      const answers = Promise.withResolvers<void>();
      const store: Store = {
        ...fixture.store,
        transaction: async (work) => {
          isAsked.resolve();
          await answers.promise;
          return fixture.store.transaction(work);
        },
      };
      const silent = new FailedAttempts({ node, store, clock, quarantine: { notify: async () => {} } });
      silent.begin(first, gone);
      silent.add(first, gone);
      silent.isOver(first);
      const stored = silent.requeue();
      await isAsked.promise;
      assert.deepEqual([silent.rests(lane), [...silent.ids()]], [true, ['a']]);
      answers.resolve();
      await stored;
      assert.deepEqual([silent.rests(lane), [...silent.ids()]], [true, []]);
    });

    test('lanes whose rest has ended are named once more', async () => {
      await fail(await insert('a'));
      assert.deepEqual(failed.takeResting(), [lane]);
      clock.step(longMs);
      assert.deepEqual(failed.takeResting(), [lane]);
      assert.deepEqual(failed.takeResting(), []);
    });
  });
});
