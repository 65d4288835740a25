import assert from 'node:assert/strict';
import { describe, mock, test } from 'node:test';
import { pino } from 'pino';
import { must } from '#lib/assert.ts';
import { type Clock, systemClock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import { type Logger, silentLogger } from '#lib/logger.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store, Tx } from '#storage/store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { patienceMs, waitFor, within } from '../../test/support/wait-for.ts';
import { EarlierJobFirst } from './failed-attempts.ts';
import { type JobHandler, JobRegistry } from './job-registry.ts';
import { insertJobs, jobRow, type LeasedJob, settleJobs } from './job-store.ts';
import { registerNode, releaseNode } from './node-store.ts';
import { reservedMax, runningMax, runningPerLaneMax } from './pool-places.ts';
import type { SolitudeTimes } from './solitude.ts';
import { pollMs, WorkerPool } from './worker-pool.ts';

function job(
  id: string,
  options: { lane?: string; leaseNode?: string; runAtMs?: number; ownerId?: string } = {},
) {
  const nowMs = Date.now();
  return jobRow(
    {
      id,
      kind: 'run_source',
      ownerId: options.ownerId ?? 'o_1',
      payload: { source_id: 'dc_1', trigger: 'http', hops: 0 },
      runAtMs: options.runAtMs ?? nowMs,
      nowMs,
      ...(options.lane === undefined ? {} : { lane: options.lane }),
    },
    options.leaseNode,
  );
}

const leasedHere: Omit<LeasedJob, 'id'> = {
  kind: 'run_source',
  ownerId: 'o_1',
  lane: null,
  attempts: 1,
  payload: { source_id: 'dc_1', trigger: 'http', hops: 0 },
  bytes: 48,
  createdAtMs: 0,
};

describe('the worker pool', () => {
  forEachStore((fixture) => {
    interface PoolOptions {
      store?: Store;
      quarantined?: JobHandler['quarantined'];
      claims?: boolean;
      clock?: Clock;
      solitude?: SolitudeTimes;
      logger?: Logger;
      shares?: NonNullable<ConstructorParameters<typeof WorkerPool>[0]['shares']>;
    }

    /** A pool whose jobs are done by `run`. */
    function makePool(run: JobHandler['run'], options: PoolOptions = {}): WorkerPool {
      const handler: JobHandler = { run, quarantined: options.quarantined ?? (async () => {}) };
      return new WorkerPool({
        node: newTimeOrderedId(Date.now()),
        store: options.store ?? fixture.store,
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
        clock: options.clock ?? systemClock,
        logger: options.logger ?? silentLogger,
        claims: options.claims ?? true,
        ...(options.solitude === undefined ? {} : { solitude: options.solitude }),
        ...(options.shares === undefined ? {} : { shares: options.shares }),
      });
    }

    /** The same, started, and stopped at the end of `use`. */
    async function withPool<T>(
      run: JobHandler['run'],
      use: (pool: WorkerPool) => Promise<T>,
      options: PoolOptions = {},
    ): Promise<T> {
      const pool = makePool(run, options);
      await pool.start();
      try {
        return await use(pool);
      } finally {
        await pool.stop(0);
      }
    }

    /** A pool's own look at the store does not come during `work`: work done then was notified. */
    async function withoutPolls(work: () => Promise<void>): Promise<void> {
      const start = setTimeout;
      const later = (callback: () => void, ms?: number) => start(callback, ms === pollMs ? 3_600_000 : ms);
      const sleeps = mock.method(globalThis, 'setTimeout', later as typeof setTimeout);
      try {
        await work();
      } finally {
        sleeps.mock.restore();
      }
    }

    const insert = (...rows: ReturnType<typeof job>[]) =>
      fixture.store.transaction((tx) => insertJobs(tx, rows));
    /** In batches, as handlers do it: hundreds of commits, one after another, take long on a busy disk. */
    const settling: BatchWrite<{ node: string; job: LeasedJob }, boolean> = {
      name: 'settle-test-jobs',
      run: async (tx, items) => {
        const held = new Set<string>();
        for (const [node, group] of Map.groupBy(items, (item) => item.node)) {
          const jobs = group.map(({ job: done }) => done);
          for (const id of await settleJobs(fixture.store, tx, { node, jobs })) held.add(id);
        }
        return items.map(({ job: done }) => held.has(done.id));
      },
    };
    /** True when the node still held the job. */
    const settle = (node: string, done: LeasedJob) =>
      fixture.store.writes.submit(settling, { node, job: done });
    const blameOf = async (id: string) => ({
      ...(await fixture.store.read
        .selectFrom('jobs')
        .select(['losses', 'blames', 'alone'])
        .where('id', '=', id)
        .executeTakeFirst()),
    });
    const stored = async (id: string) => {
      const found = await fixture.store.read
        .selectFrom('jobs')
        .select(['state', 'attempts', 'lease_node', 'run_at_ms', 'error'])
        .where((where) => where.or([where('id', '=', id), where('id', 'like', `${id}~%`)]))
        .executeTakeFirst();
      return found === undefined ? undefined : { ...found };
    };
    const jobsLeft = async () => (await fixture.store.read.selectFrom('jobs').select('id').execute()).length;

    test('jobs that wait at the start are done, and new ones as soon as it is poked', async () => {
      await insert(job('before'));
      const done: string[] = [];
      let pool: WorkerPool | undefined;
      await withoutPolls(() =>
        withPool(
          async (leased) => {
            await settle(pool?.node ?? '', leased);
            done.push(leased.id);
          },
          async (started) => {
            pool = started;
            await waitFor(() => done.length === 1);
            await insert(job('after'));
            started.poke();
            await waitFor(() => done.length === 2, { what: 'the poke to be enough' });
            assert.deepEqual(done, ['before', 'after']);
            await waitFor(() => started.runningCount() === 0);
            assert.equal(await jobsLeft(), 0);
          },
        ),
      );
    });

    test('a pool that has not started claims nothing, also when it is poked', async () => {
      let looks = 0;
      const clock: Clock = {
        ...systemClock,
        now: () => {
          looks += 1;
          return Date.now();
        },
      };
      const pool = makePool(async () => {}, { clock });
      const before = looks;
      pool.poke();
      assert.equal(looks, before, 'a look at the store begins with the time');
      await pool.start();
      await waitFor(() => looks > before);
      await pool.stop(0);
    });

    test('what comes after a job that is on its way to the store goes there too, also when a claim has found nothing yet', async () => {
      const done: string[] = [];
      let pool: WorkerPool | undefined;
      const run = async (leased: LeasedJob) => {
        await settle(must(pool, 'the pool').node, leased);
        done.push(leased.id);
      };
      await withPool(run, async (made) => {
        pool = made;
        await made.lanes.take(['dc_1']);
        await waitFor(() => made.hasRoom('dc_1', 'o_1'));
        const arrived = made.goesToStore('dc_1', 'o_1');
        // The look that finds this one began after it was said.
        await insert(job('other', { ownerId: 'o_2' }));
        made.poke();
        await waitFor(() => done.includes('other') && made.runningCount() === 0);
        assert.equal(made.hasRoom('dc_1', 'o_1'), false);
        await insert(job('a', { lane: 'dc_1' }));
        arrived();
        assert.equal(made.hasRoom('dc_1', 'o_1'), false, 'no claim has seen it');
        await waitFor(() => done.includes('a') && made.hasRoom('dc_1', 'o_1'));
      });
    });

    test('a job is done when its time comes, without a poke', async () => {
      const started = Promise.withResolvers<number>();
      const runAtMs = Date.now() + 300;
      await insert(job('later', { runAtMs }));
      await withPool(
        async () => started.resolve(Date.now()),
        async () => {
          const at = await within(started.promise, patienceMs, 'the job');
          assert.ok(at >= runAtMs, `ran ${runAtMs - at} ms too early`);
        },
      );
    });

    test('a handler that fails is tried again after a pause of at least a second, and counted', async () => {
      const starts: number[] = [];
      const clock = new TestClock();
      await insert(job('flaky', { runAtMs: clock.now() }));
      let node = '';
      await withPool(
        async (leased) => {
          starts.push(leased.attempts);
          if (leased.attempts === 1) throw new Error('first time unlucky');
          await settle(node, leased);
        },
        async (pool) => {
          node = pool.node;
          const again = await waitFor(async () => {
            const found = await stored('flaky');
            return found?.error === 'first time unlucky' && found;
          });
          assert.deepEqual([again.attempts, starts], [1, [1]]);
          const pauseMs = again.run_at_ms - clock.now();
          assert.ok(pauseMs >= 1_000, `${pauseMs} ms`);
          clock.step(pauseMs);
          pool.poke();
          await waitFor(async () => (await jobsLeft()) === 0);
          assert.deepEqual(starts, [1, 2]);
        },
        { clock },
      );
    });

    test('a handler that throws before its first await is only a failed attempt too', async () => {
      await insert(job('a'), job('b'));
      const ran: string[] = [];
      await withPool(
        ((leased: LeasedJob) => {
          ran.push(leased.id);
          throw new Error('at once');
        }) as unknown as JobHandler['run'],
        async () => {
          await waitFor(
            async () => (await stored('a'))?.error === 'at once' && (await stored('b'))?.error === 'at once',
          );
          assert.deepEqual(ran.sort(), ['a', 'b']);
          assert.equal((await stored('a'))?.state, 'queued');
        },
      );
    });

    test('a store that was away is not counted against the job', async () => {
      await insert(job('a'));
      await withPool(
        async () => {
          throw new UnavailableError('store_unavailable', 'gone for a moment');
        },
        async () => {
          await waitFor(async () => (await stored('a'))?.error !== null);
          const { attempts, state } = (await stored('a')) ?? {};
          assert.deepEqual({ attempts, state }, { attempts: 0, state: 'queued' });
        },
      );
    });

    test('a job that the store kept from its end runs before those of its lane that come after it', async () => {
      const clock = new TestClock();
      await insert(job('a', { lane: 'dc_1' }));
      const begun: string[] = [];
      let pool: WorkerPool | undefined;
      const run = async (done: LeasedJob) => {
        begun.push(done.id);
        if (begun.length === 1) throw new UnavailableError('store_unavailable', 'gone for a moment');
        await settle(must(pool, 'the pool').node, done);
      };
      const use = async (made: WorkerPool) => {
        pool = made;
        await waitFor(async () => (await stored('a'))?.error !== null && made.rests('dc_1'));
        assert.equal(made.hasRoom('dc_1', 'o_1'), false);
        assert.equal(made.hasTurn('dc_1'), false);
        await insert(job('b', { lane: 'dc_1' }), job('c', { lane: 'dc_2' }));
        made.poke();
        await waitFor(() => begun.length === 2);
        assert.deepEqual(begun, ['a', 'c']);
        clock.step(2_000);
        made.poke();
        await waitFor(() => begun.length === 4);
        assert.deepEqual(begun, ['a', 'c', 'a', 'b']);
        await waitFor(() => made.hasRoom('dc_1', 'o_1'));
      };
      await withPool(run, use, { clock });
    });

    test('of a lane only the job that failed is logged as failed, not those that wait for it', async () => {
      const logged: string[] = [];
      const logger = pino({}, { write: (line) => void logged.push(JSON.parse(line).job) });
      await insert(job('a'), job('b'));
      const run = async ({ id }: LeasedJob) => {
        if (id === 'a') throw new UnavailableError('store_unavailable', 'gone for a moment');
        throw new EarlierJobFirst('the first comes first');
      };
      const use = async () => {
        await waitFor(async () => (await stored('a'))?.error !== null && (await stored('b'))?.error !== null);
        assert.deepEqual(
          logged.filter((id) => id !== undefined),
          ['a'],
        );
      };
      await withPool(run, use, { logger, clock: new TestClock() });
    });

    test('when the rest of a lane is over, what comes for it waits behind what is in the store', async () => {
      const clock = new TestClock();
      await insert(job('a', { lane: 'dc_1' }));
      const begun: string[] = [];
      const run = async ({ id }: LeasedJob) => {
        begun.push(id);
        throw new UnavailableError('store_unavailable', 'gone for a moment');
      };
      const use = async (pool: WorkerPool) => {
        await waitFor(async () => (await stored('a'))?.error !== null && pool.rests('dc_1'));
        await insert(job('c', { lane: 'dc_2' }));
        pool.poke();
        await waitFor(() => begun.includes('c'));
        clock.step(2_000);
        assert.deepEqual([pool.hasTurn('dc_1'), pool.hasRoom('dc_1', 'o_1')], [true, false]);
      };
      await withoutPolls(() => withPool(run, use, { clock }));
    });

    test('a full pool does not look again and again for a lane whose rest has ended', async () => {
      await insert(job('a', { lane: 'dc_1' }));
      const clock = new TestClock();
      let looks = 0;
      const store = {
        ...fixture.store,
        get read() {
          looks += 1;
          return fixture.store.read;
        },
      };
      const run = async ({ id }: LeasedJob) => {
        if (id === 'a') throw new UnavailableError('store_unavailable', 'gone for a moment');
        await new Promise(() => {});
      };
      const use = async (pool: WorkerPool) => {
        await waitFor(async () => (await stored('a'))?.error !== null && pool.rests('dc_1'));
        for (let n = 0; n < runningMax + reservedMax; n += 1) pool.run({ ...leasedHere, id: `j${n}` });
        clock.step(2_000);
        const before = looks;
        pool.poke();
        await waitFor(() => looks > before);
        const first = looks;
        const sinceMs = performance.now();
        await waitFor(() => performance.now() - sinceMs > pollMs / 2);
        const polls = Math.ceil((performance.now() - sinceMs) / pollMs);
        assert.ok(looks - first <= 10 * polls, `${looks - first} looks in the time of ${polls} polls`);
      };
      await withPool(run, use, { clock, store });
    });

    test('the third failure puts a job in quarantine and reports it to its handler', async () => {
      await insert({ ...job('bad'), attempts: 2, blames: 2 }, { ...job('worse'), attempts: 2, blames: 2 });
      const told: string[] = [];
      await withPool(
        async () => {
          throw new Error('always');
        },
        async () => {
          await waitFor(() => told.length === 2);
          const { state, attempts, error } = (await stored('bad')) ?? {};
          assert.deepEqual(
            { state, attempts, error },
            { state: 'quarantined', attempts: 3, error: 'always' },
          );
          assert.equal((await stored('worse'))?.state, 'quarantined');
        },
        {
          quarantined: async ({ id }) => {
            told.push(id);
            throw new Error('and cannot even be told');
          },
        },
      );
    });

    test('many jobs that fail together all go back into the queue', async () => {
      const ids = Array.from({ length: 60 }, (_, index) => `j${index}`);
      // Its time stands still: on a busy machine the first ones would be tried again before the last ones have failed.
      const clock = new TestClock();
      await insert(...ids.map((id) => job(id, { runAtMs: clock.now() })));
      await withPool(
        async () => {
          throw new Error('all of them');
        },
        async () => {
          await waitFor(async () => {
            const rows = await fixture.store.read.selectFrom('jobs').select(['state', 'attempts']).execute();
            return rows.every(({ state, attempts }) => state === 'queued' && attempts === 1);
          });
        },
        { clock },
      );
    });

    test('a lane takes its bound of jobs here, in order; hasRoom says when; the rest follows', async () => {
      const inLane = runningPerLaneMax + 20;
      const ids = Array.from({ length: inLane }, (_, index) => `j${String(index).padStart(3, '0')}`);
      const created = Date.now();
      await insert(
        ...ids.map((id, index) => ({ ...job(id, { lane: 'dc_1' }), created_at_ms: created + index })),
      );
      const started: LeasedJob[] = [];
      const gate = Promise.withResolvers<void>();
      let node = '';
      await withPool(
        async (leased) => {
          started.push(leased);
          await gate.promise;
          await settle(node, leased);
        },
        async (pool) => {
          node = pool.node;
          await pool.lanes.take(['dc_2']);
          await waitFor(() => pool.hasRoom('dc_2', 'o_1'));
          await waitFor(() => started.length === runningPerLaneMax);
          assert.equal(pool.hasRoom('dc_1', 'o_1'), false);
          assert.equal(pool.hasRoom('dc_2', 'o_1'), true);
          // Something else gets through while the lane is full; when it has, the lane's rest was passed over.
          await insert(job('other', { lane: 'dc_2' }));
          pool.poke();
          await waitFor(() => started.some(({ id }) => id === 'other'));
          assert.equal(started.length, runningPerLaneMax + 1);
          gate.resolve();
          await waitFor(() => started.length === inLane + 1);
          assert.deepEqual(
            started.map(({ id }) => id).filter((id) => id !== 'other'),
            ids,
          );
          await waitFor(async () => (await jobsLeft()) === 0);
          await waitFor(() => pool.hasRoom('dc_1', 'o_1'));
        },
      );
    });

    test('a pool that is full to its bound takes the rest as it empties', async () => {
      const total = runningMax + 100;
      await insert(...Array.from({ length: total }, (_, index) => job(`j${index}`)));
      let started = 0;
      let most = 0;
      const gate = Promise.withResolvers<void>();
      await withPool(
        async () => {
          started += 1;
          await gate.promise;
        },
        async (pool) => {
          await waitFor(() => {
            most = Math.max(most, pool.runningCount());
            return started === runningMax;
          });
          assert.equal(pool.hasRoom('any', 'o_1'), false);
          gate.resolve();
          await waitFor(() => started === total);
          assert.ok(most <= runningMax);
        },
      );
    });

    test('a lane that drains while a claim finds it full is claimed for again at once', async () => {
      const count = runningPerLaneMax + 50;
      await insert(...Array.from({ length: count }, (_, n) => job(`j${n}`, { lane: 'dc_1' })));
      const gate = Promise.withResolvers<void>();
      let started = 0;
      let done = 0;
      let pool: WorkerPool | undefined;
      let held = false;
      const store: Store = Object.create(fixture.store, {
        transaction: {
          value: async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
            const result = await fixture.store.transaction(work);
            // The claim that found the lane full, and nothing else to do: before it is heard, all of the lane ends.
            if (started === runningPerLaneMax && !held) {
              held = true;
              gate.resolve();
              await waitFor(() => pool?.runningCount() === 0);
            }
            return result;
          },
        },
      });
      await withoutPolls(() =>
        withPool(
          async (leased) => {
            started += 1;
            await gate.promise;
            await settle(pool?.node ?? '', leased);
            done += 1;
          },
          async (itself) => {
            pool = itself;
            await waitFor(() => held);
            await waitFor(() => done === count, { what: 'the lane to be enough of a poke' });
          },
          { store },
        ),
      );
    });

    test('lanes of slow sources, each with a backlog, leave room for the others', async () => {
      const lanes = Array.from({ length: 70 }, (_, index) => `slow${index}`);
      const rows = lanes.flatMap((lane) =>
        // All lanes together have more than the pool takes.
        Array.from({ length: 40 }, (_, index) => job(`${lane}-${index}`, { lane })),
      );
      await insert(...rows);
      const gate = Promise.withResolvers<void>();
      const started = new Set<string | null>();
      await withPool(
        async (leased) => {
          started.add(leased.lane);
          await gate.promise;
        },
        async (pool) => {
          await waitFor(() => lanes.every((lane) => started.has(lane)));
          await pool.lanes.take(['another']);
          await waitFor(() => pool.hasRoom('another', 'o_1'));
          await insert(job('tick', { lane: 'another' }), job('of no lane'));
          pool.poke();
          await waitFor(() => started.has('another') && started.has(null));
          gate.resolve();
        },
      );
    });

    test('an owner whose runs sleep in every place, with thousands more due, leaves room for the first run of another', async () => {
      const lanes = Array.from({ length: 500 }, (_, n) => `greedy${n}`);
      await insert(
        ...lanes.flatMap((lane) => Array.from({ length: 10 }, (_, n) => job(`${lane}-${n}`, { lane }))),
        ...Array.from({ length: 2_500 }, (_, n) => job(`of no lane ${n}`)),
      );
      let claims = 0;
      const store: Store = Object.create(fixture.store, {
        takeTurn: {
          value: (tx: Tx, what: Parameters<Store['takeTurn']>[1]) => {
            claims += 1;
            return fixture.store.takeTurn(tx, what);
          },
        },
      });
      const started = new Set<string>();
      const delayed: string[] = [];
      const refused: string[] = [];
      const shares = {
        delayed: (ownerId: string) => void delayed.push(ownerId),
        refused: (ownerId: string) => void refused.push(ownerId),
      };
      const gate = Promise.withResolvers<void>();
      let claimsBefore = 0;
      let pool: WorkerPool | undefined;
      await withPool(
        async (leased) => {
          started.add(leased.id);
          if (leased.id === 'b0') claimsBefore = claims;
          if (leased.ownerId === 'o_1') await gate.promise;
          else await settle(pool?.node ?? '', leased);
        },
        async (itself) => {
          pool = itself;
          await waitFor(() => started.size === runningMax, { what: 'all places to be taken' });
          await waitFor(() => !itself.hasRoom('greedy1', 'o_1'));
          assert.equal(itself.hasRoomToStay('greedy1', 'o_1', 1_000), false);
          itself.refusedToStay('o_1');
          assert.equal(itself.hasRoomToStay('other', 'o_2', 1_000), true);
          const others = Array.from({ length: 200 }, (_, n) => `b${n}`);
          await insert(...others.map((id) => job(id, { lane: 'other', ownerId: 'o_2' })));
          claims = 0;
          itself.poke();
          await waitFor(() => started.has('b0'), { what: 'the first run of the other owner' });
          assert.ok(claimsBefore <= 3, `${claimsBefore} claims`);
          await waitFor(() => others.every((id) => started.has(id)), { what: 'all of its runs' });
          assert.equal(started.size, runningMax + others.length, 'none of the first owner meanwhile');
          assert.ok(delayed.includes('o_1'));
          assert.deepEqual(new Set(refused), new Set(['o_1']));
          gate.resolve();
        },
        { store, shares },
      );
    });

    test('what has to stay in this process may wait for a full lane, up to its own bound', async () => {
      await withPool(
        () => new Promise(() => {}),
        async (pool) => {
          for (let index = 0; index < runningPerLaneMax; index += 1) {
            pool.run({ ...leasedHere, id: `j${index}`, lane: 'dc_1' });
          }
          assert.equal(pool.hasRoom('dc_1', 'o_1'), false);
          for (let index = 0; index < 3; index += 1) {
            assert.equal(pool.hasRoomToStay('dc_1', 'o_1', 3), true);
            pool.run({ ...leasedHere, id: `s${index}`, lane: 'dc_1', staysHere: true });
          }
          assert.equal(pool.hasRoomToStay('dc_1', 'o_1', 3), false);
        },
      );
    });

    test('what stays here never keeps what waits in the store, such as a tick, from its turn', async () => {
      const gate = Promise.withResolvers<void>();
      const started: string[] = [];
      await withPool(
        async ({ id }) => {
          started.push(id);
          await gate.promise;
        },
        async (pool) => {
          for (let index = 0; index < runningPerLaneMax + 10; index += 1) {
            pool.run({ ...leasedHere, id: `s${index}`, lane: 'dc_1', staysHere: true });
          }
          await insert(job('tick', { lane: 'dc_1' }));
          pool.poke();
          await waitFor(() => started.includes('tick'));
          gate.resolve();
        },
      );
    });

    test('a new job goes behind those of its lane that wait in the store', async () => {
      await withPool(
        () => new Promise(() => {}),
        async (pool) => {
          await pool.lanes.take(['dc_1', 'dc_2']);
          await waitFor(() => pool.hasRoom('dc_1', 'o_1') && pool.hasRoom('dc_2', 'o_1'));
          for (let index = 0; index < runningPerLaneMax; index += 1) {
            pool.run({ ...leasedHere, id: `j${index}`, lane: 'dc_1' });
          }
          pool.leftInStore('dc_1', 'o_1');
          assert.equal(pool.hasRoom('dc_1', 'o_1'), false);
          assert.equal(pool.hasRoom('dc_2', 'o_1'), true);
        },
      );
    });

    test('payloads of many megabytes fill the pool before its count does', async () => {
      await withPool(
        () => new Promise(() => {}),
        async (pool) => {
          pool.run({ ...leasedHere, id: 'huge', bytes: 300 * 1024 * 1024 });
          assert.equal(pool.hasRoom('any', 'o_1'), false);
        },
      );
    });

    test('a pool that does not claim runs what it is given, and nothing else', async () => {
      await insert(job('waiting'));
      const ran: string[] = [];
      let node = '';
      await withPool(
        async (leased) => {
          ran.push(leased.id);
          await settle(node, leased);
        },
        async (pool) => {
          node = pool.node;
          const row = job('own', { leaseNode: node });
          await insert(row);
          pool.poke();
          pool.run({ ...leasedHere, id: row.id });
          await waitFor(async () => (await jobsLeft()) === 1);
          assert.deepEqual(ran, ['own']);
        },
        { claims: false },
      );
    });

    if (fixture.dialect === 'postgres')
      test('takes a lane that no node has for requests that came to it, with others, and asks once where another node has it', async () => {
        const idle = async () => {};
        await withPool(idle, async (one) => {
          await one.takeIfFree('dc_1', 'o_1');
          assert.equal(one.lanes.owns('dc_1'), true);
          await withPool(idle, async (two) => {
            const asked = mock.method(two.lanes, 'take');
            await Promise.all([two.takeIfFree('dc_1', 'o_1'), two.takeIfFree('dc_1', 'o_1')]);
            await two.takeIfFree('dc_1', 'o_1');
            assert.equal(two.lanes.owns('dc_1'), false);
            assert.equal(asked.mock.callCount(), 1);
            const many = Array.from({ length: 40 }, (_, n) => `dc_many_${n}`);
            await Promise.all(many.map((lane) => two.takeIfFree(lane, 'o_1')));
            assert.ok(many.every((lane) => two.lanes.owns(lane)));
            assert.ok(asked.mock.callCount() <= 3, `${asked.mock.callCount()} transactions`);
          });
          // A node that runs nothing takes no turns, and one that has no room takes none either.
          const ingress = async (pool: WorkerPool) => {
            await pool.takeIfFree('dc_2', 'o_1');
            assert.equal(pool.lanes.owns('dc_2'), false);
          };
          await withPool(idle, ingress, { claims: false });
        });
      });

    if (fixture.dialect === 'postgres')
      test('who gets the turn of a lane begins with what waits in the store, and goes through it while there are others', async () => {
        const others = await fixture.open();
        await others.transaction((tx) =>
          registerNode(tx, 'another', { nowMs: Date.now(), leaseMs: 3_600_000 }),
        );
        await withPool(
          async () => {},
          async (pool) => {
            await pool.lanes.take(['dc_1']);
            assert.equal(pool.lanes.owns('dc_1'), true);
            assert.equal(pool.hasRoom('dc_1', 'o_1'), false, 'older ones may wait');
            assert.equal(pool.hasTurn('dc_1'), false, 'the other node may take requests for it');
          },
        );
        await others.transaction((tx) => releaseNode(tx, 'another', 0));
        await withPool(
          async () => {},
          async (pool) => {
            await pool.lanes.take(['dc_1']);
            assert.equal(pool.hasTurn('dc_1'), true, 'it is alone');
            await waitFor(() => pool.hasRoom('dc_1', 'o_1'));
          },
        );
      });

    test('jobs that were lost with their nodes run one at a time and alone; what comes meanwhile begins afterwards', async () => {
      await insert(job('running'), job('s1'), job('s2'));
      const suspects = ['s1', 's2'];
      await fixture.store.transaction((tx) =>
        tx.updateTable('jobs').set({ losses: 2 }).where('id', 'in', suspects).execute(),
      );
      const gates = new Map(
        ['running', ...suspects, 'new'].map((id) => [id, Promise.withResolvers<void>()] as const),
      );
      const begun: string[] = [];
      let node = '';
      await withPool(
        async (leased) => {
          begun.push(leased.id);
          await gates.get(leased.id)?.promise;
          await settle(node, leased);
        },
        async (pool) => {
          node = pool.node;
          await waitFor(() => begun.includes('running'));
          await waitFor(() => !pool.hasRoom('any', 'o_1'));
          assert.deepEqual(begun, ['running'], 'what runs already is waited for');
          gates.get('running')?.resolve();
          await waitFor(() => begun.includes('s1'));
          assert.equal((await blameOf('s1')).alone, 1);
          const row = job('new', { leaseNode: node });
          await insert(row, job('in the store'));
          pool.run({ ...leasedHere, id: row.id, staysHere: true });
          pool.poke();
          gates.get('s1')?.resolve();
          await waitFor(() => begun.includes('s2'));
          assert.deepEqual(begun, ['running', 's1', 's2']);
          gates.get('s2')?.resolve();
          gates.get('new')?.resolve();
          await waitFor(() => begun.length === 5);
          await waitFor(async () => (await jobsLeft()) === 0);
          assert.deepEqual(begun.slice(3).sort(), ['in the store', 'new']);
        },
      );
    });

    test('a suspect that waits for its turn keeps only its own source waiting, and runs before what comes for that later', async () => {
      const gate = Promise.withResolvers<void>();
      const begun: string[] = [];
      let node = '';
      await insert(job('first', { lane: 'dc_1' }));
      await withPool(
        async (leased) => {
          begun.push(leased.id);
          if (leased.id === 'first') await gate.promise;
          await settle(node, leased);
        },
        async (pool) => {
          node = pool.node;
          await waitFor(() => begun.includes('first'));
          await insert({ ...job('suspect', { lane: 'dc_1' }), losses: 2 });
          pool.poke();
          await waitFor(() => !pool.hasTurn('dc_1'));
          await insert(job('later', { lane: 'dc_1' }), job('other', { lane: 'dc_2' }));
          pool.poke();
          await waitFor(() => begun.includes('other'));
          assert.equal((await blameOf('suspect')).alone, 0);
          gate.resolve();
          await waitFor(async () => (await jobsLeft()) === 0);
          assert.deepEqual(begun, ['first', 'other', 'suspect', 'later']);
          await waitFor(() => pool.hasTurn('dc_1'));
        },
        { solitude: { provenMs: 600_000, aloneMs: 600_000, betweenMs: 10 } },
      );
    });

    test('a suspect that takes long continues among others, and is not blamed from the moment that they may begin', async () => {
      await insert(job('long'), job('other'));
      await fixture.store.transaction((tx) =>
        tx.updateTable('jobs').set({ losses: 2 }).where('id', '=', 'long').execute(),
      );
      const gate = Promise.withResolvers<void>();
      const seen = Promise.withResolvers<number | undefined>();
      let node = '';
      let hasBegun = false;
      await withPool(
        async (leased) => {
          if (leased.id === 'long') {
            hasBegun = true;
            await gate.promise;
          } else if (leased.id === 'later') seen.resolve((await blameOf('long')).alone);
          await settle(node, leased);
        },
        async (pool) => {
          node = pool.node;
          await waitFor(() => hasBegun);
          await insert(job('later'));
          pool.poke();
          assert.equal(await within(seen.promise, patienceMs, 'the job that came later'), 0);
          gate.resolve();
          await waitFor(async () => (await jobsLeft()) === 0);
        },
        { solitude: { provenMs: 10, aloneMs: 20, betweenMs: 600_000 } },
      );
    });

    test('stop waits for jobs under way, claims nothing new, and may be called twice', async () => {
      await insert(job('slow'));
      const started = Promise.withResolvers<void>();
      const gate = Promise.withResolvers<void>();
      const ran: string[] = [];
      let node = '';
      await withPool(
        async (leased) => {
          ran.push(leased.id);
          started.resolve();
          await gate.promise;
          await settle(node, leased);
        },
        async (pool) => {
          node = pool.node;
          await started.promise;
          const stopped = pool.stop(patienceMs);
          assert.equal(pool.hasRoom('any', 'o_1'), false);
          await insert(job('too late'));
          pool.poke();
          gate.resolve();
          await Promise.all([stopped, pool.stop(patienceMs)]);
          assert.deepEqual(ran, ['slow']);
          assert.equal(await stored('slow'), undefined);
          assert.equal((await stored('too late'))?.state, 'queued');
          assert.deepEqual(await fixture.store.read.selectFrom('nodes').select('id').execute(), []);
        },
      );
    });

    test('a job that does not end within the grace is aborted and given back, uncounted; its late outcome is refused', async () => {
      await insert(job('stuck'));
      const started = Promise.withResolvers<AbortSignal>();
      const gate = Promise.withResolvers<void>();
      const outcome = Promise.withResolvers<boolean>();
      let node = '';
      await withPool(
        async (leased, signal) => {
          started.resolve(signal);
          await gate.promise;
          outcome.resolve(await settle(node, leased));
        },
        async (pool) => {
          node = pool.node;
          const signal = await started.promise;
          assert.equal(signal.aborted, false);
          await pool.stop(20);
          assert.equal(signal.aborted, true);
          const { state, attempts, lease_node } = (await stored('stuck')) ?? {};
          assert.deepEqual(
            { state, attempts, lease_node },
            { state: 'queued', attempts: 0, lease_node: null },
          );
          gate.resolve();
          assert.equal(await outcome.promise, false);
        },
      );
    });

    test('a job that fails while the pool stops keeps its pause and its count', async () => {
      await insert(job('a'));
      const started = Promise.withResolvers<void>();
      const gate = Promise.withResolvers<void>();
      await withPool(
        async () => {
          started.resolve();
          await gate.promise;
          throw new Error('failed late');
        },
        async (pool) => {
          await started.promise;
          const stopped = pool.stop(patienceMs);
          const failedFromMs = Date.now();
          gate.resolve();
          await stopped;
          const { state, attempts, error, run_at_ms = 0 } = (await stored('a')) ?? {};
          assert.deepEqual(
            { state, attempts, error },
            { state: 'queued', attempts: 1, error: 'failed late' },
          );
          assert.ok(run_at_ms >= failedFromMs + 1_000, `${run_at_ms - failedFromMs} ms`);
        },
      );
    });

    if (fixture.dialect === 'sqlite') {
      test('what a killed process held runs again right at the next start: no other process can hold it', async () => {
        await fixture.store.transaction((tx) =>
          tx
            .insertInto('nodes')
            .values({ id: 'killed', started_at_ms: 0, expires_at_ms: Date.now() + 3_600_000, claims: 1 })
            .execute(),
        );
        await insert(job('held', { leaseNode: 'killed' }));
        const ran = Promise.withResolvers<number>();
        await withPool(
          async ({ attempts }) => ran.resolve(attempts),
          async () => assert.equal(await within(ran.promise, patienceMs, 'the job of the killed process'), 2),
        );
      });
    }

    if (fixture.dialect === 'postgres') {
      test('a pool that starts leaves what a live pool runs to that pool, also when its own clock is ahead', async () => {
        const began = Promise.withResolvers<void>();
        const mayEnd = Promise.withResolvers<void>();
        const ended = Promise.withResolvers<boolean>();
        await insert(job('long'));
        let node = '';
        const run = async (leased: LeasedJob) => {
          began.resolve();
          await mayEnd.promise;
          ended.resolve(await settle(node, leased));
        };
        await withPool(run, async (pool) => {
          ({ node } = pool);
          await began.promise;
          const clock = new TestClock(Date.now() + 86_400_000);
          const others: string[] = [];
          const { lease_node, state, attempts } = await withPool(
            async ({ id }) => void others.push(id),
            async () => must(await stored('long'), 'the job'),
            { store: await fixture.open(), clock },
          );
          assert.deepEqual(
            { lease_node, state, attempts },
            { lease_node: node, state: 'running', attempts: 1 },
          );
          assert.deepEqual(others, []);
          mayEnd.resolve();
          assert.equal(await ended.promise, true, 'the job was still held');
        });
      });

      test('two pools on one PostgreSQL share the work and never do a job twice', async () => {
        const stores = [await fixture.open(), await fixture.open()];
        const done: string[] = [];
        const runningLanes = new Map<string, number>();
        let overlaps = 0;
        const poolOf = (index: number, use: (pool: WorkerPool) => Promise<void>): Promise<void> => {
          const store = stores[index] ?? fixture.store;
          let node = '';
          return withPool(
            async (leased) => {
              const lane = leased.lane ?? '';
              if ((runningLanes.get(lane) ?? index) !== index) overlaps += 1;
              runningLanes.set(lane, index);
              await new Promise(setImmediate);
              done.push(leased.id);
              const held = await store.transaction(async (tx) => {
                const mine = await settleJobs(store, tx, { node, jobs: [leased] });
                runningLanes.delete(lane);
                return mine;
              });
              assert.equal(held.size, 1);
            },
            async (pool) => {
              node = pool.node;
              await use(pool);
            },
            { store },
          );
        };
        const ids = Array.from({ length: 200 }, (_, index) => `j${index}`);
        await poolOf(0, (one) =>
          poolOf(1, async (two) => {
            for (let at = 0; at < ids.length; at += 20) {
              await fixture.store.transaction(async (tx) => {
                await insertJobs(
                  tx,
                  ids.slice(at, at + 20).map((id, index) => job(id, { lane: `lane${(at + index) % 30}` })),
                );
                await fixture.store.notify(tx, 'millrace_jobs', '');
              });
            }
            await waitFor(() => done.length >= ids.length);
            await waitFor(() => one.runningCount() + two.runningCount() === 0);
          }),
        );
        assert.deepEqual([...done].sort(), [...ids].sort());
        assert.equal(await jobsLeft(), 0);
        assert.equal(overlaps, 0);
      });
    }
  });
});
