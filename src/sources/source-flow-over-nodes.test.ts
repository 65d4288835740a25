import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FlowControl } from '#flow-control/flow-control.ts';
import { lastUnbegun } from '#flow-control/unbegun-store.ts';
import { viewQueue } from '#flow-control/view-queue.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { insertJobs, jobRow, type LeasedJob, type NewJob, settleJobs } from '#jobs/job-store.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import { tickJobId } from '#schedule/source-ticks.ts';
import type { Store } from '#storage/store.ts';
import { RunFixture } from '../../test/support/run-fixture.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { holdRun } from './hold-run.ts';
import { insertSource } from './source-store.ts';

const byCustomer = '{{event.customer}}';
const customers = ['a', 'b', 'c', 'd'];

interface Seen {
  // biome-ignore lint/suspicious/noExplicitAny: events of every shape.
  event: any;
  node: string;
}

/** Does the runs of sources on all nodes: sees their events, and ends their jobs as a run that has finished does. */
class Runs {
  readonly seen: Seen[] = [];
  readonly most = new Map<string, number>();
  readonly #underWay = new Map<string, number>();
  /** Runs wait for it, where a test lets them. */
  gate: Promise<unknown> = Promise.resolve();

  on(node: string, store: Store, ended: (sourceId: string) => void): JobHandler {
    return {
      run: async (job: LeasedJob) => {
        const payload = job.payload as JobPayloads['run_source'];
        const event = JSON.parse(payload.event ?? 'null');
        for (const name of ['all', String(event.customer ?? event.batch?.key)]) this.#count(name, 1);
        this.seen.push({ event, node });
        await this.gate;
        // Long enough for another node to begin one too many, if it could.
        await new Promise((resolve) => setTimeout(resolve, 2));
        for (const name of ['all', String(event.customer ?? event.batch?.key)]) this.#count(name, -1);
        await store.transaction((tx) => settleJobs(store, tx, { node, jobs: [job] }));
        ended(payload.source_id);
      },
      quarantined: async () => {},
    };
  }

  numbers(): number[] {
    return this.seen
      .flatMap(({ event }) => event.events ?? [event])
      .map(({ n }) => n)
      .sort((a, b) => a - b);
  }

  #count(name: string, change: 1 | -1): void {
    const count = (this.#underWay.get(name) ?? 0) + change;
    this.#underWay.set(name, count);
    this.most.set(name, Math.max(count, this.most.get(name) ?? 0));
  }
}

forEachStore((stores) => {
  const burst = 100;

  /** A source on two nodes on PostgreSQL; the embedded store has one. */
  async function startNodes(
    flow: FlowControl & { account_id?: string },
    { concurrency = 1 }: { concurrency?: number } = {},
  ) {
    const clock = new TestClock();
    const runs = new Runs();
    const flow_control = JSON.stringify(flow);
    await stores.store.transaction((tx) =>
      insertSource(tx, { ...sourceRow('dc_1'), flow_control, concurrency }, []),
    );
    const nodes: RunFixture[] = [];
    const start = async (store: Store, name: string) => {
      const node: RunFixture = new RunFixture(store, {
        clock,
        node: name,
        steps: {},
        sources: runs.on(name, store, (id) => node.service.flow.poke(id)),
      });
      await node.pool.start();
      node.service.flow.start();
      nodes.push(node);
    };
    await start(stores.store, 'node_1');
    if (stores.dialect === 'postgres') await start(await stores.open(), 'node_2');
    let sent = 0;
    const poke = () => {
      for (const node of nodes) node.service.flow.poke('dc_1');
    };
    return {
      nodes,
      clock,
      runs,
      /** Stores events as an endpoint, a delivery or a timer does, on the nodes in turns. */
      send: async (events: readonly object[], more: Partial<NewJob<'run_source'>> = {}) => {
        const nowMs = clock.now();
        const rows = events.map((event) => {
          const job: NewJob<'run_source'> = {
            ...{ id: newTimeOrderedId(nowMs), kind: 'run_source', ownerId: 'u_1', lane: 'dc_1' },
            payload: { source_id: 'dc_1', trigger: 'http', event: JSON.stringify(event), hops: 0 },
            runAtMs: nowMs,
            nowMs,
            ...more,
          };
          return jobRow(holdRun(job, flow_control));
        });
        // Several transactions, so that nodes take some in while others arrive.
        for (let at = 0; at < rows.length; at += 20) {
          await stores.store.transaction((tx) => insertJobs(tx, rows.slice(at, at + 20)));
          nodes[sent++ % nodes.length]?.service.flow.poke('dc_1');
        }
      },
      pass: (ms: number) => {
        clock.step(ms);
        for (const node of nodes) node.pool.poke();
        poke();
      },
      poke,
      queue: () => viewQueue(stores.store.read, 'dc_1', 0),
      [Symbol.asyncDispose]: async () => {
        for (const node of nodes) await node[Symbol.asyncDispose]();
      },
    };
  }

  const events = (count: number) =>
    Array.from({ length: count }, (_, n) => ({ n, customer: customers[n % customers.length] }));
  const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);
  const rowsLeft = async () => {
    let count = 0;
    for (const table of ['flow_runs', 'flow_groups'] as const)
      count += (await stores.store.read.selectFrom(table).select('subject_id').execute()).length;
    return count + (await stores.store.read.selectFrom('jobs').select('id').execute()).length;
  };

  test('a burst over all nodes breaks no concurrency limit of a key nor that of the source, loses nothing, and leaves no rows', async () => {
    await using all = await startNodes({ concurrency: { limit: 2, key: byCustomer } }, { concurrency: 5 });
    await all.send(events(burst));
    await waitFor(() => all.runs.seen.length === burst);
    assert.deepEqual(all.runs.numbers(), numbers(burst));
    for (const customer of customers) assert.ok((all.runs.most.get(customer) ?? 0) <= 2, customer);
    assert.ok((all.runs.most.get('all') ?? 0) <= 5, 'no more than the source may run at once');
    await waitFor(async () => (await rowsLeft()) === 0, { what: 'the rows of the queue to be removed' });
  });

  test('a throttled source begins no more runs than it may, and no key starves another one', async () => {
    await using all = await startNodes({ throttle: { limit: 5, seconds: 60, key: byCustomer } });
    const count = (customer: string) =>
      all.runs.seen.filter(({ event }) => event.customer === customer).length;
    await all.send(Array.from({ length: 50 }, (_, n) => ({ n, customer: 'a' })));
    await all.send([{ n: 0, customer: 'b' }]);
    await waitFor(() => count('b') === 1 && count('a') === 5);
    for (let period = 2; period <= 4; period += 1) {
      all.pass(60_000);
      await waitFor(() => count('a') === 5 * period);
      assert.equal((await all.queue()).totals.started, 5 * period + 1);
    }
    assert.equal(all.runs.most.get('all'), 1, 'its runs follow each other');
    const [waiting] = (
      await waitFor(async () => {
        const queue = await all.queue();
        return queue.waiting_keys[0]?.blocked_by === 'throttle' && queue;
      })
    ).waiting_keys;
    assert.match(waiting?.reason ?? '', /^5 runs with key "a" have begun within 60 seconds/);
  });

  test('of a burst to singletons each event is run or recorded with its reason', async () => {
    await using all = await startNodes({ singleton: { mode: 'skip', key: byCustomer } }, { concurrency: 10 });
    await all.send(events(burst));
    await waitFor(async () => {
      const { skipped, started } = (await all.queue()).totals;
      return skipped + started === burst && all.runs.seen.length === started;
    });
    for (const customer of customers) assert.equal(all.runs.most.get(customer), 1, customer);
    const { skipped } = (await all.queue()).totals;
    const unbegun = await lastUnbegun(stores.store.read, 'dc_1');
    assert.equal(unbegun.length, Math.min(100, skipped));
    assert.match(unbegun[0]?.reason ?? '', /^skipped: run \w+ has the singleton key "[abcd]"$/);
  });

  test('a later event replaces a run that waits or is under way, which ends with its job', async () => {
    await using all = await startNodes({ singleton: { mode: 'replace', key: byCustomer } });
    const { promise, resolve } = Promise.withResolvers<void>();
    all.runs.gate = promise;
    await all.send([{ n: 0, customer: 'a' }]);
    await waitFor(() => all.runs.seen.length === 1);
    await all.send([{ n: 1, customer: 'a' }]);
    await waitFor(async () => (await all.queue()).totals.replaced === 1);
    const [replaced] = await lastUnbegun(stores.store.read, 'dc_1');
    assert.match(replaced?.reason ?? '', /^replaced: run \w+ came later with the singleton key "a"$/);
    resolve();
    await waitFor(() => all.runs.seen.length === 2);
    assert.deepEqual(all.runs.numbers(), [0, 1]);
    await waitFor(async () => (await rowsLeft()) === 0);
  });

  test('of a burst that is debounced, one run of each key begins; all others are recorded', async () => {
    await using all = await startNodes({ debounce: { seconds: 5, max_wait_seconds: 60, key: byCustomer } });
    await all.send(events(burst));
    await waitFor(async () => (await all.queue()).totals.debounced === burst - customers.length);
    assert.equal(all.runs.seen.length, 0);
    all.pass(5_000);
    await waitFor(() => all.runs.seen.length === customers.length);
    assert.deepEqual(all.runs.numbers(), numbers(burst).slice(-customers.length));
  });

  test('a burst becomes batches that have each event once', async () => {
    await using all = await startNodes({ batch: { max_events: 7, max_seconds: 30, key: byCustomer } });
    await all.send(events(burst));
    await waitFor(async () => (await all.queue()).totals.batched === 7 * 4 * Math.floor(burst / 4 / 7));
    all.pass(30_000);
    await waitFor(() => all.runs.numbers().length === burst);
    assert.deepEqual(all.runs.numbers(), numbers(burst));
    for (const { event } of all.runs.seen) {
      assert.ok(event.events.length <= 7 && event.batch.count === event.events.length);
      assert.ok(event.events.every(({ customer }: { customer: string }) => customer === event.batch.key));
    }
  });

  test('a priority moves runs before those that wait for the one under way', async () => {
    await using all = await startNodes({ priority: '{{event.urgency}}' });
    const { promise, resolve } = Promise.withResolvers<void>();
    all.runs.gate = promise;
    await all.send([{ n: 0, urgency: 0 }]);
    await waitFor(() => all.runs.seen.length === 1);
    for (const [n, urgency] of [0, 0, 60, 600].entries()) await all.send([{ n: n + 1, urgency }]);
    // Why they wait is known when they were looked at.
    await waitFor(async () => {
      const { waiting, waiting_keys } = await all.queue();
      return waiting === 4 && waiting_keys[0]?.blocked_by === 'source_concurrency';
    });
    resolve();
    await waitFor(() => all.runs.seen.length === 5);
    assert.deepEqual(
      all.runs.seen.map(({ event }) => event.n),
      [0, 4, 3, 1, 2],
    );
  });

  test('sources share the rate limit of an account, over all of its runs', async () => {
    const rate_limit = { account: 'slack', limit: 3, seconds: 60 };
    await using all = await startNodes({ rate_limit, account_id: 'apn_1' });
    await all.send(events(10));
    await waitFor(() => all.runs.seen.length === 3);
    for (const count of [6, 9, 10]) {
      all.pass(60_000);
      await waitFor(() => all.runs.seen.length === count);
    }
  });

  test('the ticks of a timer have one id, and each of them is throttled', async () => {
    await using all = await startNodes({ throttle: { limit: 1, seconds: 60 } });
    const id = tickJobId('dc_1:timer');
    for (const n of [0, 1, 2]) {
      await all.send([{ n }], { id });
      if (n > 0) {
        await waitFor(async () => (await all.queue()).waiting_keys[0]?.blocked_by === 'throttle');
        assert.equal(all.runs.seen.length, n);
        all.pass(60_000);
      }
      await waitFor(() => all.runs.seen.length === n + 1);
      // The next tick is stored when the one before has ended.
      await waitFor(
        async () => (await stores.store.read.selectFrom('jobs').select('id').execute()).length === 0,
      );
    }
    assert.deepEqual(all.runs.numbers(), [0, 1, 2]);
  });
});
