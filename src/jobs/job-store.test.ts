import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Store } from '#storage/store.ts';
import { placesForAny } from '../../test/support/claim-places.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import {
  claimJobs,
  claimSuspect,
  endSolitude,
  firstTurns,
  type OwnerTurns,
  whatWaits,
} from './claim-store.ts';
import { arrivalLane } from './held-jobs.ts';
import {
  deleteJobsFor,
  insertJobs,
  jobRow,
  type LeasedJob,
  laneBacklog,
  type NewJob,
  pruneQuarantined,
  queueDepths,
  requeueJob,
  settleJobs,
} from './job-store.ts';
import { releaseLanes, takeLanes } from './lane-lease-store.ts';
import { LaneLeases } from './lane-leases.ts';
import {
  forgetNodes,
  heartbeat,
  markNotified,
  recoverExpired,
  registerNode,
  releaseNode,
  releaseUnknown,
  takePending,
} from './node-store.ts';
import type { OwnerPlaces } from './pool-places.ts';
import { sharedLane } from './shared-lane.ts';

const start = 1_800_000_000_000;
const leaseMs = 15_000;

type Wanted = Partial<Pick<NewJob, 'lane' | 'ownerId' | 'runAtMs' | 'nowMs'>> & { leaseNode?: string };

function row(id: string, { leaseNode, ...wanted }: Wanted = {}) {
  return jobRow(
    {
      id,
      kind: 'run_source',
      ownerId: 'o_1',
      payload: { source_id: 'dc_1', trigger: 'http', hops: 0 },
      runAtMs: start,
      nowMs: start,
      ...wanted,
    },
    leaseNode,
  );
}

describe('the job queue', () => {
  forEachStore((fixture) => {
    const insert = (...rows: ReturnType<typeof row>[]) =>
      fixture.store.transaction((tx) => insertJobs(tx, rows));
    const dueAfter = async (afterMs: number) =>
      (await whatWaits(fixture.store.read, { node: 'n1', kinds: ['run_source'], afterMs })).dueMs;
    const leasesOf = (node: string, store = fixture.store) => new LaneLeases({ node, store });
    const claim = (
      node = 'n1',
      options: {
        store?: Store;
        limit?: number;
        laneMax?: number;
        running?: Record<string, number>;
        nowMs?: number;
        places?: OwnerPlaces;
        turns?: OwnerTurns;
        onPassedOver?: (ownerId: string) => void;
        isUnderWay?: () => boolean;
      } = {},
    ): Promise<LeasedJob[]> =>
      claimJobs(options.store ?? fixture.store, {
        node,
        lanes: leasesOf(node, options.store),
        kinds: ['run_source', 'delete_events', 'deliver_scheduled_event'],
        limit: options.limit ?? 100,
        ...placesForAny(options.laneMax ?? 32),
        ...(options.places === undefined ? {} : { places: options.places }),
        ...(options.turns === undefined ? {} : { turns: options.turns }),
        onPassedOver: options.onPassedOver ?? (() => {}),
        isUnderWay: options.isUnderWay ?? (() => false),
        runningByLane: new Map(Object.entries(options.running ?? {})),
        nowMs: options.nowMs ?? start,
      });
    const suspect = (node: string, nowMs: number) =>
      claimSuspect(fixture.store, {
        ...{ node, lanes: leasesOf(node), kinds: ['run_source'] as const, limit: 1, nowMs },
        runningByLane: new Map(),
        isBusy: () => false,
        ...placesForAny(32),
      });
    const claimedIds = async (...args: Parameters<typeof claim>) =>
      (await claim(...args)).map(({ id }) => id);
    const blameOf = async (id: string) => ({
      ...(await fixture.store.read
        .selectFrom('jobs')
        .select(['losses', 'blames', 'alone'])
        .where('id', '=', id)
        .executeTakeFirst()),
    });
    const stored = async (id: string) => {
      const columns = ['state', 'attempts', 'lease_node', 'run_at_ms', 'error'] as const;
      // A quarantined job has another id.
      const found = await fixture.store.read
        .selectFrom('jobs')
        .select(columns)
        .where((where) => where.or([where('id', '=', id), where('id', 'like', `${id}~%`)]))
        .executeTakeFirst();
      return found === undefined ? undefined : { ...found };
    };
    const settle = (node: string, ...jobs: { id: string; attempts: number }[]) =>
      fixture.store.transaction((tx) => settleJobs(fixture.store, tx, { node, jobs: jobs }));
    const register = (node: string, nowMs = start) =>
      fixture.store.transaction((tx) => registerNode(tx, node, { nowMs, leaseMs }));
    const recover = (nowMs: number, store = fixture.store) =>
      recoverExpired(store, { node: 'whoever asks', nowMs, retryDelayMs: (attempt) => attempt * 1_000 });

    test('jobs are claimed in the order of their times, then of their insertion, up to the limit', async () => {
      await insert(
        row('third', { runAtMs: start - 1, nowMs: start - 5 }),
        row('second', { runAtMs: start - 2, nowMs: start - 3 }),
        row('first', { runAtMs: start - 2, nowMs: start - 4 }),
        row('fourth'),
      );
      assert.deepEqual(await claimedIds('n1', { limit: 3 }), ['first', 'second', 'third']);
      assert.deepEqual(await claimedIds(), ['fourth']);
      assert.deepEqual(await claimedIds(), []);
    });

    test('a claimed job has its kind, payload and attempt', async () => {
      await insert(row('a', { lane: 'dc_1' }));
      assert.deepEqual(await claim(), [
        {
          id: 'a',
          kind: 'run_source',
          ownerId: 'o_1',
          lane: 'dc_1',
          attempts: 1,
          payload: { source_id: 'dc_1', trigger: 'http', hops: 0 },
          bytes: 46,
          createdAtMs: start,
        },
      ]);
      assert.deepEqual(await stored('a'), {
        state: 'running',
        attempts: 1,
        lease_node: 'n1',
        run_at_ms: start,
        error: null,
      });
    });

    test('a job that is not due is not claimed, and its due time is returned', async () => {
      await insert(row('later', { runAtMs: start + 500 }), row('much later', { runAtMs: start + 900 }));
      assert.deepEqual(await claimedIds(), []);
      assert.equal(await dueAfter(start), start + 500);
      assert.deepEqual(await claimedIds('n1', { nowMs: start + 500 }), ['later']);
      assert.equal(await dueAfter(start + 900), undefined);
    });

    test('a job that is due but waits for its lane does not hide when the next one is due', async () => {
      await insert(row('blocked', { lane: 'full' }), row('later', { runAtMs: start + 500 }));
      assert.deepEqual(await claimedIds('n1', { running: { full: 32 } }), []);
      assert.equal(await dueAfter(start), start + 500);
    });

    test('only the asked kinds are claimed', async () => {
      await insert(row('a'));
      const options = {
        node: 'n1',
        lanes: leasesOf('n1'),
        limit: 1,
        ...placesForAny(1),
        runningByLane: new Map<string, number>(),
        nowMs: start,
      };
      assert.deepEqual(await claimJobs(fixture.store, { ...options, kinds: ['delete_events'] }), []);
    });

    test('an id that waits or runs already is not inserted again', async () => {
      assert.deepEqual(await insert(row('a')), ['a']);
      assert.deepEqual(await insert(row('a'), row('b')), ['b']);
      await claim();
      assert.deepEqual(await insert(row('a')), []);
      await settle('n1', { id: 'a', attempts: 1 });
      assert.deepEqual(await insert(row('a')), ['a']);
    });

    test('thousands of jobs can be inserted at once', async () => {
      const rows = Array.from({ length: 6_000 }, (_, index) => row(`j${index}`));
      assert.equal((await insert(...rows)).length, 6_000);
    });

    test('a job that is put off, or ended, while a claim chooses is not leased', async () => {
      const { store } = fixture;
      const { takeTurn } = store;
      await insert(row('ended'), row('put-off'), row('due'));
      store.takeTurn = async (tx, name) => {
        await takeTurn(tx, name);
        await tx.deleteFrom('jobs').where('id', '=', 'ended').execute();
        await tx
          .updateTable('jobs')
          .set({ run_at_ms: start + 1 })
          .where('id', '=', 'put-off')
          .execute();
      };
      try {
        assert.deepEqual(await claimedIds('n1', { turns: { ...firstTurns(), isBacklogLong: true } }), [
          'due',
        ]);
      } finally {
        store.takeTurn = takeTurn;
      }
      assert.deepEqual(await claimedIds('n1', { nowMs: start + 1 }), ['put-off']);
    });

    test('while no other node claims, jobs of a long backlog are chosen outside of transactions', async () => {
      const { store } = fixture;
      if (store.isShared) return;
      await insert(...Array.from({ length: 520 }, (_, n) => row(`j${n}`)));
      const turns = firstTurns();
      assert.equal((await claimedIds('n1', { turns, limit: 10 })).length, 10);
      const { transaction } = store;
      let isInTransaction = false;
      store.transaction = () => {
        isInTransaction = true;
        return Promise.reject(new Error('a transaction'));
      };
      try {
        // None of them may run here, which the choice finds out.
        assert.deepEqual(await claimedIds('n1', { turns, isUnderWay: () => true }), []);
        assert.ok(!isInTransaction);
        await assert.rejects(claimedIds('n1', { turns }), /a transaction/);
      } finally {
        store.transaction = transaction;
      }
    });

    test('a lane that is full here is passed over, and does not hold up the others', async () => {
      await insert(
        ...Array.from({ length: 5 }, (_, index) => row(`full${index}`, { lane: 'full', nowMs: start - 10 })),
        row('other', { lane: 'other' }),
        row('none'),
      );
      assert.deepEqual(await claimedIds('n1', { laneMax: 2, running: { full: 2 } }), ['none', 'other']);
    });

    test('however many jobs of full lanes stand in front, those of the other lanes are found, oldest first', async () => {
      const many = (lane: string) =>
        Array.from({ length: 700 }, (_, index) => row(`${lane}${index}`, { lane, runAtMs: start - 100 }));
      await insert(
        ...many('full1'),
        ...many('full2'),
        row('none', { runAtMs: start - 3 }),
        row('b1', { lane: 'b', runAtMs: start - 2 }),
        row('a1', { lane: 'a', runAtMs: start - 1 }),
        row('b2', { lane: 'b' }),
        row('later', { lane: 'c', runAtMs: start + 1 }),
      );
      const running = { full1: 32, full2: 32 };
      assert.deepEqual(await claimedIds('n1', { running, limit: 4 }), ['none', 'b1', 'a1', 'b2']);
      assert.deepEqual(await claimedIds('n1', { running }), []);
      assert.deepEqual(await claimedIds('n1', { running, nowMs: start + 1 }), ['later']);
      assert.equal((await claimedIds('n1', { running: { full1: 32, full2: 30 } })).length, 2);
    });

    test('a long lane that has some room at every claim does not hide the others', async () => {
      await insert(
        ...Array.from({ length: 700 }, (_, index) => row(`a${index}`, { lane: 'a', runAtMs: start - 100 })),
        row('b', { lane: 'b' }),
      );
      const ids = await claimedIds('n1', { laneMax: 3, running: { a: 1 } });
      assert.equal(ids.length, 3);
      assert.ok(ids.includes('b'), ids.join());
    });

    test('a claim never fills a lane beyond its bound', async () => {
      await insert(
        ...Array.from({ length: 9 }, (_, index) => row(`a${index}`, { lane: 'a', nowMs: start + index })),
      );
      assert.deepEqual(await claimedIds('n1', { laneMax: 4, running: { a: 1 } }), ['a0', 'a1', 'a2']);
      assert.deepEqual(await claimedIds('n1', { laneMax: 4, running: { a: 3 } }), ['a3']);
      assert.equal((await stored('a4'))?.state, 'queued');
    });

    test('the one job of an owner is claimed however many of another stand in front, with a lane or without', async () => {
      const early = { ownerId: 'o_greedy', runAtMs: start - 100 };
      await insert(
        ...Array.from({ length: 2_500 }, (_, n) => row(`a${n}`, { ...early, lane: `lane${n % 250}` })),
        ...Array.from({ length: 2_500 }, (_, n) => row(`n${n}`, early)),
        row('b1', { ownerId: 'o_b', lane: 'b', runAtMs: start - 1 }),
        row('b2', { ownerId: 'o_b', lane: 'b' }),
        row('later', { ownerId: 'o_c', runAtMs: start + 1 }),
      );
      const ids = await claimedIds('n1', { limit: 10 });
      assert.equal(ids.length, 10);
      assert.deepEqual(ids.slice(-2), ['b1', 'b2'], 'both, oldest first');
      assert.equal((await claimedIds('n1', { limit: 10, nowMs: start + 1 })).includes('later'), true);
    });

    test('owners with jobs behind the front take turns, also when there are more of them than one claim looks at', async () => {
      const owners = Array.from({ length: 600 }, (_, n) => `o_${String(n).padStart(3, '0')}`);
      await insert(
        ...Array.from({ length: 2_000 }, (_, n) =>
          row(`a${n}`, { ownerId: 'o_greedy', runAtMs: start - 100 }),
        ),
        ...owners.map((ownerId) => row(`of ${ownerId}`, { ownerId })),
      );
      const turns = firstTurns();
      const claimed = new Set<string>();
      // 64 owners have their turn at a claim.
      for (let n = 0; n < 12; n += 1)
        for (const { ownerId } of await claim('n1', { limit: 100, turns })) claimed.add(ownerId);
      assert.deepEqual(
        owners.filter((ownerId) => !claimed.has(ownerId)),
        [],
      );
    });

    test('while places are full, only owners that may have another get one, and the others are reported', async () => {
      await insert(
        ...Array.from({ length: 600 }, (_, n) =>
          row(`a${n}`, { ownerId: 'o_greedy', lane: `a${n}`, runAtMs: start - 100 }),
        ),
        ...Array.from({ length: 5 }, (_, n) => row(`b${n}`, { ownerId: 'o_b', lane: 'b', nowMs: start + n })),
      );
      const places: OwnerPlaces = {
        areFree: false,
        jobsOf: (ownerId) => (ownerId === 'o_b' ? 1 : 1_000),
        roomOf: (ownerId) => (ownerId === 'o_b' ? 3 : 0),
        laneMaxOf: () => 4,
      };
      const passedOver: string[] = [];
      const onPassedOver = (ownerId: string) => void passedOver.push(ownerId);
      assert.deepEqual(await claimedIds('n1', { places, onPassedOver }), ['b0', 'b1', 'b2']);
      assert.deepEqual(passedOver, ['o_greedy']);
    });

    test('only the node and attempt that hold a job can settle it', async () => {
      await insert(row('a'), row('b'), row('c'));
      await claim();
      assert.deepEqual(await settle('n2', { id: 'a', attempts: 1 }), new Set());
      assert.deepEqual(
        await settle('n1', { id: 'a', attempts: 2 }, { id: 'b', attempts: 1 }),
        new Set(['b']),
      );
      assert.equal((await stored('a'))?.state, 'running');
      assert.deepEqual(
        await settle('n1', { id: 'a', attempts: 1 }, { id: 'gone', attempts: 1 }),
        new Set(['a']),
      );
      assert.equal(await stored('a'), undefined);
      assert.deepEqual(await settle('n1', { id: 'a', attempts: 1 }), new Set());
      assert.deepEqual(await settle('n1'), new Set());
    });

    test('a job inserted as running is held by the node that accepted it', async () => {
      await insert(row('a', { leaseNode: 'n1' }));
      assert.deepEqual(await claimedIds('n2'), []);
      assert.deepEqual(await settle('n1', { id: 'a', attempts: 1 }), new Set(['a']));
    });

    test('a requeued job runs again at its new time, with its attempts kept or given back', async () => {
      const options = {
        state: 'queued',
        runAtMs: start + 1_000,
        nowMs: start,
        error: 'x\0'.repeat(5_000),
      } as const;
      const requeue = (node: string, job: { id: string; attempts: number }, blamed: boolean) =>
        fixture.store.transaction((tx) => requeueJob(tx, node, job, { ...options, blamed }));
      await insert(row('a'), row('b'));
      await claim();
      assert.equal(await requeue('n2', { id: 'a', attempts: 1 }, true), false);
      assert.equal(await requeue('n1', { id: 'a', attempts: 2 }, true), false);
      assert.equal(await requeue('n1', { id: 'a', attempts: 1 }, true), true);
      assert.equal(await requeue('n1', { id: 'b', attempts: 1 }, false), true);
      assert.equal(await requeue('n1', { id: 'a', attempts: 1 }, true), false);
      const error = 'x'.repeat(1_000);
      const waiting = { state: 'queued', lease_node: null, run_at_ms: start + 1_000, error };
      assert.deepEqual(await stored('a'), { ...waiting, attempts: 1 });
      assert.deepEqual(await stored('b'), { ...waiting, attempts: 0 });
      assert.deepEqual(await claimedIds(), []);
      assert.deepEqual(
        (await claim('n1', { nowMs: start + 1_000 })).map(({ attempts }) => attempts).sort(),
        [1, 2],
      );
    });

    test('a node keeps its jobs as long as it renews its lease', async () => {
      const clock = new TestClock(start);
      await register('n1');
      await insert(row('a'));
      await claim();
      for (let beat = 0; beat < 3; beat += 1) {
        clock.step(leaseMs - 1);
        assert.deepEqual(await recover(clock.now()), { requeued: 0, quarantined: [] });
        const renewed = await fixture.store.transaction((tx) =>
          heartbeat(tx, 'n1', { nowMs: clock.now(), leaseMs }),
        );
        assert.equal(renewed, true);
      }
      assert.equal((await stored('a'))?.state, 'running');
    });

    test('when a lease runs out the jobs go back, the node learns it, and its late outcome is refused', async () => {
      await register('n1');
      await register('n2', start + leaseMs);
      await insert(row('a'), row('b'));
      assert.equal((await claim('n1', { limit: 1 })).length, 1);
      assert.equal((await claim('n2', { limit: 1 })).length, 1);
      assert.deepEqual(await recover(start + leaseMs), { requeued: 1, quarantined: [] });
      const beat = await fixture.store.transaction((tx) =>
        heartbeat(tx, 'n1', { nowMs: start + leaseMs, leaseMs }),
      );
      assert.equal(beat, false);
      assert.deepEqual(await settle('n1', { id: 'a', attempts: 1 }), new Set());
      const [again] = await claim('n2', { nowMs: start + leaseMs });
      assert.deepEqual([again?.id, again?.attempts], ['a', 2]);
      assert.equal((await stored('b'))?.lease_node, 'n2');
    });

    test('the first loss runs again immediately, the next ones wait, and no number of losses blames the job', async () => {
      await insert(row('a', { lane: 'dc_1' }));
      let nowMs = start;
      const runAt: (number | undefined)[] = [];
      for (const node of ['n1', 'n2']) {
        await register(node, nowMs);
        assert.deepEqual(await claimedIds(node, { nowMs }), ['a']);
        nowMs += leaseMs;
        assert.deepEqual(await recover(nowMs), { requeued: 1, quarantined: [] });
        runAt.push((await stored('a'))?.run_at_ms);
        nowMs += 2_000;
      }
      assert.deepEqual(runAt, [start, start + leaseMs + 2_000 + leaseMs + 2_000]);
      // From now on it is a suspect, but each time others begin beside it before its node is killed.
      for (const node of ['n3', 'n4', 'n5', 'n6', 'n7']) {
        await register(node, nowMs);
        assert.deepEqual(await claimedIds(node, { nowMs }), [], 'it is not claimed among others');
        assert.equal((await suspect(node, nowMs))?.id, 'a');
        await fixture.store.transaction((tx) => endSolitude(tx, { id: 'a' }));
        nowMs += leaseMs;
        assert.deepEqual(await recover(nowMs), { requeued: 1, quarantined: [] });
        nowMs += 60_000;
      }
      assert.deepEqual(await blameOf('a'), { losses: 7, blames: 0, alone: 0 });
    });

    test('what a node died of three times while it ran there alone is quarantined', async () => {
      await insert(row('a', { lane: 'dc_1' }), row('b', { lane: 'dc_2' }));
      await fixture.store.transaction((tx) => tx.updateTable('jobs').set({ losses: 2 }).execute());
      let nowMs = start;
      for (const node of ['n1', 'n2', 'n3']) {
        await register(node, nowMs);
        const first = await suspect(node, nowMs);
        // The innocent one ends, whenever its turn comes.
        if (first?.id === 'b') {
          await settle(node, first);
          assert.equal((await suspect(node, nowMs))?.id, 'a');
        }
        nowMs += leaseMs;
        const { quarantined } = await recover(nowMs);
        assert.deepEqual(
          quarantined.map(({ id, lane }) => ({ id, lane })),
          node === 'n3' ? [{ id: 'a', lane: 'dc_1' }] : [],
        );
        nowMs += 60_000;
      }
      assert.equal((await stored('a'))?.state, 'quarantined');
      assert.equal(await suspect('n4', nowMs + 1e9), undefined);
      assert.equal(await stored('b'), undefined, 'it ended');
      assert.deepEqual(await recover(nowMs + 1e9), { requeued: 0, quarantined: [] });
    });

    test('a node that stops blames no job, not even one that it ran alone', async () => {
      await insert(row('a'));
      await fixture.store.transaction((tx) => tx.updateTable('jobs').set({ losses: 2 }).execute());
      await register('n1');
      assert.equal((await suspect('n1', start))?.id, 'a');
      await fixture.store.transaction((tx) => releaseNode(tx, 'n1', start));
      assert.deepEqual(await blameOf('a'), { losses: 2, blames: 0, alone: 0 });
      assert.equal((await stored('a'))?.state, 'queued');
    });

    test("suspects are reported where they may run, and where their lane is not another node's", async () => {
      await insert(row('a', { lane: 'dc_1' }));
      const suspects = async (node: string) =>
        (await whatWaits(fixture.store.read, { node, kinds: ['run_source'], afterMs: start })).suspects;
      assert.equal(await suspects('n1'), false);
      await fixture.store.transaction((tx) => tx.updateTable('jobs').set({ losses: 2 }).execute());
      assert.equal(await suspects('n1'), true);
      if (fixture.dialect === 'sqlite') return;
      await fixture.store.transaction((tx) => takeLanes(tx, 'n2', ['dc_1']));
      assert.deepEqual([await suspects('n1'), await suspects('n2')], [false, true]);
      assert.equal(await suspect('n1', start), undefined);
    });

    test('a quarantined job does not stand in the way of the next one with its id, such as the next tick of its timer', async () => {
      await insert(row('lost'), row('failed'));
      await register('n1');
      await claim('n1');
      await fixture.store.transaction((tx) =>
        tx.updateTable('jobs').set({ attempts: 3, blames: 3 }).execute(),
      );
      const failed = {
        state: 'quarantined',
        runAtMs: start,
        nowMs: start,
        error: '',
        blamed: true,
      } as const;
      const requeued = fixture.store.transaction((tx) =>
        requeueJob(tx, 'n1', { id: 'failed', attempts: 3 }, failed),
      );
      assert.equal(await requeued, true);
      const { quarantined } = await recover(start + leaseMs);
      assert.deepEqual(
        quarantined.map(({ id }) => id),
        ['lost'],
      );
      await insert(row('lost'), row('failed'));
      assert.deepEqual((await claimedIds()).sort(), ['failed', 'lost']);
    });

    test('what was lost with its node runs before what came after it', async () => {
      const lane = { lane: 'dc_1' };
      await insert(row('1', lane), row('2', lane), row('3', { ...lane, runAtMs: start + 1 }));
      await register('n1');
      await claim('n1', { limit: 2 });
      await recover(start + leaseMs);
      assert.deepEqual(await claimedIds('n2', { nowMs: start + leaseMs }), ['1', '2', '3']);
    });

    test('what waited for the turn of its source when its node died is no suspect, however often; of lanes without turns all are', async () => {
      const [inTurn, atOnce] = [{ lane: 'dc_1' }, { lane: sharedLane('dc_2') }];
      await insert(row('1', inTurn), row('2', inTurn), row('3', inTurn), row('4', atOnce), row('5', atOnce));
      const nowMs = start + leaseMs;
      for (const node of ['n1', 'n2']) {
        await register(node, node === 'n1' ? start : nowMs);
        assert.deepEqual(await claimedIds(node, { nowMs }), ['1', '2', '3', '4', '5']);
        await recover(node === 'n1' ? nowMs : nowMs + leaseMs);
      }
      const losses = await Promise.all(
        ['1', '2', '3', '4', '5'].map(async (id) => (await blameOf(id)).losses),
      );
      assert.deepEqual(losses, [2, 0, 0, 2, 2]);
      assert.equal((await stored('2'))?.attempts, 0);
      await register('n3', nowMs + leaseMs);
      assert.deepEqual(await claimedIds('n3', { nowMs: nowMs + leaseMs }), ['2', '3']);
      await recover(nowMs + 2 * leaseMs);
      assert.deepEqual(
        [(await blameOf('2')).losses, (await blameOf('3')).losses],
        [1, 0],
        'now it had begun',
      );
    });

    test('what came later by a clock that was set back since is due at once', async () => {
      await insert(row('a', { runAtMs: start + 3_600_000, leaseNode: 'dead' }));
      await recover(start);
      assert.deepEqual(await claimedIds('n2'), ['a']);
    });

    test('the node that reports a quarantined job is recorded until it has, and others report it when that node is gone', async () => {
      await insert(row('a', { leaseNode: 'dead' }), row('b'));
      await fixture.store.transaction((tx) =>
        tx.updateTable('jobs').set({ attempts: 3, blames: 3 }).execute(),
      );
      await register('whoever asks');
      await register('n2', start + leaseMs);
      await recover(start);
      const take = (node: string, nowMs: number) => takePending(fixture.store, { node, nowMs });
      assert.deepEqual(await take('n2', start), [], 'who quarantined it is there');
      const [taken, ...others] = await take('n2', start + leaseMs);
      assert.deepEqual([taken?.job.id, taken?.job.attempts, others], ['a', 3, []]);
      assert.deepEqual(await take('n2', start + leaseMs), []);
      await fixture.store.transaction((tx) => markNotified(tx, taken?.rowId ?? ''));
      assert.deepEqual(await take('n3', start + 10 * leaseMs), []);
    });

    test('an attempt that this node still works on is not claimed as a new one', async () => {
      await insert(row('a'), row('b'));
      const isUnderWay = (id: string, attempts: number) => id === 'a' && attempts === 1;
      const lanes = leasesOf('n1');
      const options = {
        node: 'n1',
        lanes,
        kinds: ['run_source'],
        limit: 9,
        ...placesForAny(9),
        nowMs: start,
      } as const;
      const ids = async (more: object) =>
        (await claimJobs(fixture.store, { ...options, runningByLane: new Map(), ...more })).map(
          ({ id }) => id,
        );
      assert.deepEqual(await ids({ isUnderWay }), ['b']);
      assert.deepEqual(await ids({}), ['a']);
    });

    test('a node gives back what it holds without knowing, once that is old, and keeps what it runs', async () => {
      await insert(row('unknown', { leaseNode: 'n1' }), row('mine', { leaseNode: 'n1' }));
      await insert(row('young', { leaseNode: 'n1', nowMs: start + 1 }), row('others', { leaseNode: 'n2' }));
      const nowMs = start + 30_001;
      const options = { node: 'n1', isRunning: (id: string) => id === 'mine', nowMs, olderThanMs: 30_000 };
      assert.equal(await releaseUnknown(fixture.store, options), 1);
      assert.equal((await stored('unknown'))?.run_at_ms, start, 'in its place');
      assert.deepEqual(
        (await claim('n1', { nowMs })).map(({ id, attempts }) => [id, attempts]),
        [['unknown', 1]],
      );
      assert.equal(await releaseUnknown(fixture.store, { ...options, isRunning: () => true }), 0);
    });

    test('a node never recovers what it holds itself, however long its own renewal took', async () => {
      await register('n1');
      await insert(row('mine', { leaseNode: 'n1' }));
      const late = { node: 'n1', nowMs: start + leaseMs * 2, retryDelayMs: () => 0 };
      assert.deepEqual(await recoverExpired(fixture.store, late), { requeued: 0, quarantined: [] });
      assert.equal((await stored('mine'))?.lease_node, 'n1');
      const beat = await fixture.store.transaction((tx) =>
        heartbeat(tx, 'n1', { nowMs: late.nowMs, leaseMs }),
      );
      assert.equal(beat, true, 'it did not declare itself dead');
      assert.equal((await settle('n1', { id: 'mine', attempts: 1 })).size, 1);
    });

    test('what waits in a lane is counted, up to a limit, with its bytes', async () => {
      await insert(row('a', { lane: 'dc_1' }), row('b', { lane: 'dc_1' }), row('other', { lane: 'dc_2' }));
      await insert(row('running', { lane: 'dc_1', leaseNode: 'n1' }));
      const bytes = row('a').payload.length;
      assert.deepEqual(await laneBacklog(fixture.store.read, 'dc_1', 10), { jobs: 2, bytes: 2 * bytes });
      assert.deepEqual(await laneBacklog(fixture.store.read, 'dc_1', 1), { jobs: 1, bytes });
      assert.deepEqual(await laneBacklog(fixture.store.read, 'dc_3', 10), { jobs: 0, bytes: 0 });
    });

    test('a job of an unknown node is recovered too', async () => {
      await insert(row('a', { leaseNode: 'forgotten' }));
      assert.deepEqual(await recover(start), { requeued: 1, quarantined: [] });
    });

    test('forgetting the nodes makes everything recoverable at once, whatever the clock says', async () => {
      await register('n1', start + 1e9);
      await insert(row('a', { leaseNode: 'n1' }));
      assert.deepEqual(await recover(start), { requeued: 0, quarantined: [] });
      await fixture.store.transaction(forgetNodes);
      assert.deepEqual(await recover(start), { requeued: 1, quarantined: [] });
    });

    test('a node that stops gives back what it holds, without counting the attempt', async () => {
      await register('n1');
      await register('n2');
      await insert(row('a'), row('b'), row('c'));
      await claim('n1', { limit: 2 });
      await claim('n2');
      assert.equal(await fixture.store.transaction((tx) => releaseNode(tx, 'n1', start)), 2);
      const [a, b] = await claim('n3');
      assert.deepEqual([a?.attempts, b?.attempts], [1, 1]);
      assert.equal((await stored('c'))?.lease_node, 'n2');
      const beat = await fixture.store.transaction((tx) => heartbeat(tx, 'n1', { nowMs: start, leaseMs }));
      assert.equal(beat, false);
    });

    test('quarantined jobs are pruned by age, a bounded number a time', async () => {
      await insert(...['a', 'b', 'c', 'young', 'queued'].map((id) => row(id)));
      await fixture.store.transaction(async (tx) => {
        await tx.updateTable('jobs').set({ state: 'quarantined' }).where('id', '!=', 'queued').execute();
        await tx
          .updateTable('jobs')
          .set({ updated_at_ms: start + 50 })
          .where('id', '=', 'young')
          .execute();
      });
      const prune = () =>
        fixture.store.transaction((tx) => pruneQuarantined(tx, { beforeMs: start + 1, limit: 2 }));
      assert.deepEqual([await prune(), await prune(), await prune()], [2, 1, 0]);
      assert.deepEqual(
        (await queueDepths(fixture.store.read)).sort((x, y) => (x.state < y.state ? -1 : 1)),
        [
          { state: 'quarantined', kind: 'run_source', jobs: 1 },
          { state: 'queued', kind: 'run_source', jobs: 1 },
        ],
      );
    });

    test('a subject that is deleted loses the jobs of all its lanes, a bounded number at a time, also those that run', async () => {
      const arrival = arrivalLane('x', { isEvaluated: false });
      const evaluated = arrivalLane('x', { isEvaluated: true });
      await insert(row('a', { lane: 'x' }), row('b', { lane: sharedLane('x') }), row('c', { lane: arrival }));
      await insert(row('d', { lane: evaluated }), row('e', { lane: 'y' }), row('f'));
      await claim('n1', { limit: 1 });
      const remove = () => fixture.store.transaction((tx) => deleteJobsFor(tx, 'x', 3));
      assert.equal(await remove(), false);
      assert.equal(await remove(), true);
      assert.deepEqual(await settle('n1', { id: 'a', attempts: 1 }), new Set());
      assert.deepEqual((await claimedIds()).sort(), ['e', 'f']);
    });

    if (fixture.dialect === 'postgres') {
      test("a lane that is another node's is passed over, until that node gives it up", async () => {
        await insert(row('a1', { lane: 'a' }), row('a2', { lane: 'a' }), row('b1', { lane: 'b' }));
        assert.deepEqual(await claimedIds('n1', { limit: 1 }), ['a1']);
        assert.deepEqual(await claimedIds('n2'), ['b1']);
        const giveUp = () => fixture.store.transaction((tx) => releaseLanes(tx, 'n1', ['a']));
        assert.deepEqual(await giveUp(), new Set(), 'it has a job of it');
        await settle('n1', { id: 'a1', attempts: 1 });
        assert.deepEqual(await claimedIds('n2'), []);
        assert.deepEqual(await giveUp(), new Set(['a']));
        assert.deepEqual(await claimedIds('n2'), ['a2']);
      });

      test('a shared lane runs on any node', async () => {
        const lane = sharedLane('p_1');
        await insert(row('a1', { lane }), row('a2', { lane }));
        assert.deepEqual(await claimedIds('n1', { limit: 1 }), ['a1']);
        assert.deepEqual(await claimedIds('n2'), ['a2']);
      });

      test('a long lane that runs on another node does not hide the others', async () => {
        await insert(
          ...Array.from({ length: 700 }, (_, index) => row(`a${index}`, { lane: 'a', runAtMs: start - 100 })),
          row('b', { lane: 'b' }),
        );
        assert.equal((await claim('n1', { limit: 1 })).length, 1);
        assert.deepEqual(await claimedIds('n2'), ['b']);
      });

      test('nodes that claim at the same time never share a lane, and none gets a job twice', async () => {
        const stores = [fixture.store, await fixture.open(), await fixture.open()];
        for (let round = 0; round < 15; round += 1) {
          const ids = Array.from({ length: 30 }, (_, index) => `${round}-${index}`);
          await insert(
            ...ids.map((id, index) => row(id, { lane: `${round}-${index % 3}`, nowMs: start + index })),
          );
          const claims = await Promise.all(
            stores.map((store, index) => claim(`n${index}`, { store, limit: 4 })),
          );
          const nodeOfLane = new Map<string | null, number>();
          claims.forEach((jobs, node) => {
            for (const { lane } of jobs) {
              assert.equal(nodeOfLane.get(lane) ?? node, node, `lane ${lane} runs on two nodes`);
              nodeOfLane.set(lane, node);
            }
          });
          const all = claims.flat().map(({ id }) => id);
          assert.equal(new Set(all).size, all.length);
          await fixture.store.transaction((tx) => tx.deleteFrom('jobs').execute());
        }
      });

      test('nodes that recover at the same time never take a job from the one that runs it again', async () => {
        const stores = [fixture.store, await fixture.open(), await fixture.open()];
        for (let round = 0; round < 10; round += 1) {
          const ids = Array.from({ length: 20 }, (_, index) => `${round}-${index}`);
          await insert(...ids.map((id) => row(id, { leaseNode: 'dead' })));
          await Promise.all(
            stores.map(async (store, index) => {
              const node = `live-${round}-${index}`;
              await store.transaction((tx) => registerNode(tx, node, { nowMs: start, leaseMs }));
              await recover(start, store);
              const claimed = await claim(node, { store });
              await recover(start, store);
              assert.equal(
                (await settle(node, ...claimed)).size,
                claimed.length,
                'a live node lost its jobs',
              );
            }),
          );
          await fixture.store.transaction((tx) => tx.deleteFrom('jobs').execute());
        }
      });
    }
  });
});
