import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AppliedFlowControl } from '#flow-control/flow-control.ts';
import type { Store } from '#storage/store.ts';
import { finished, RunFixture, type SeenCall } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

const byCustomer = '{{steps.trigger.event.customer}}';
const customers = ['a', 'b', 'c', 'd'];

/** What steps on all nodes saw, and how many were under way at once. */
class Witness {
  readonly calls: SeenCall[] = [];
  readonly most = new Map<string, number>();
  readonly #underWay = new Map<string, number>();

  readonly step = async (call: SeenCall) => {
    const key = String(eventOf(call).customer ?? eventOf(call).batch?.key);
    const now = (this.#underWay.get(key) ?? 0) + 1;
    this.#underWay.set(key, now);
    this.most.set(key, Math.max(now, this.most.get(key) ?? 0));
    this.calls.push(call);
    // Long enough for another node to begin one too many, if it could.
    await new Promise((resolve) => setTimeout(resolve, 2));
    this.#underWay.set(key, now - 1 < 0 ? 0 : (this.#underWay.get(key) ?? 1) - 1);
    return finished();
  };

  countOf(customer: string): number {
    return this.calls.filter((call) => eventOf(call).customer === customer).length;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: events of every shape.
function eventOf(call: SeenCall): any {
  return (call.steps.trigger as { event: unknown }).event;
}

forEachStore((stores) => {
  const burst = 200;

  /** Two nodes on PostgreSQL; the embedded store has one. */
  async function startNodes(
    flowControl: AppliedFlowControl,
    witness: Witness,
    /** Runs wait for it. */
    gate: Promise<void> = Promise.resolve(),
  ) {
    const clock = new TestClock();
    const options = {
      steps: { a: (call: SeenCall) => gate.then(() => witness.step(call)) },
      flowControl,
      clock,
    };
    const first = await RunFixture.start(stores.store, options);
    const nodes = [first];
    const others: Store[] = [];
    if (stores.dialect === 'postgres') {
      const store = await stores.open();
      others.push(store);
      const second = new RunFixture(store, { ...options, node: 'node_2' });
      await second.pool.start();
      second.service.flow.start();
      nodes.push(second);
    }
    return {
      nodes,
      clock,
      /** Sends events to the nodes in turns, many at once. */
      send: (events: readonly object[]) =>
        Promise.all(events.map((event, n) => nodes[n % nodes.length]?.start(event))),
      pass: (ms: number) => {
        clock.step(ms);
        for (const node of nodes) {
          node.pool.poke();
          node.service.flow.settingsChanged('p_1');
        }
      },
      [Symbol.asyncDispose]: async () => {
        for (const node of nodes) await node[Symbol.asyncDispose]();
      },
    };
  }

  const events = (count: number) =>
    Array.from({ length: count }, (_, n) => ({ n, customer: customers[n % customers.length] }));

  const countOf = async (...states: string[]): Promise<number> => {
    const rows = await stores.store.read
      .selectFrom('runs')
      .select('id')
      .where('state', 'in', states as never[])
      .execute();
    return rows.length;
  };
  const queue = () =>
    stores.store.read
      .selectFrom('flow_queues')
      .selectAll()
      .where('subject_id', '=', 'p_1')
      .executeTakeFirstOrThrow();
  const rowsLeft = async () => {
    const tables = ['flow_runs', 'flow_groups'] as const;
    let count = 0;
    for (const table of tables)
      count += (await stores.store.read.selectFrom(table).select('subject_id').execute()).length;
    return count;
  };

  test('a burst over all nodes breaks no concurrency limit, loses nothing, and leaves no rows', async () => {
    const witness = new Witness();
    await using all = await startNodes({ concurrency: { limit: 3, key: byCustomer } }, witness);
    await all.send(events(burst));
    await waitFor(async () => (await countOf('succeeded')) === burst);
    assert.equal(witness.calls.length, burst);
    for (const customer of customers) assert.ok((witness.most.get(customer) ?? 0) <= 3, customer);
    await waitFor(async () => (await rowsLeft()) === 0, { what: 'the rows of the queue to be removed' });
  });

  test('a burst over all nodes breaks no throttle, and no key starves another one', async () => {
    const witness = new Witness();
    await using all = await startNodes({ throttle: { limit: 10, seconds: 60, key: byCustomer } }, witness);
    await all.send(Array.from({ length: burst }, (_, n) => ({ n, customer: 'a' })));
    await all.send([{ n: 0, customer: 'b' }]);
    await waitFor(() => witness.countOf('b') === 1);
    await waitFor(() => witness.countOf('a') === 10);
    for (let period = 2; period <= 4; period += 1) {
      all.pass(60_000);
      await waitFor(() => witness.countOf('a') === 10 * period);
      await waitFor(async () => (await queue()).started === 10 * period + 1);
    }
    const waiting = await stores.store.read
      .selectFrom('flow_runs')
      .select('run_id')
      .where('state', '=', 'waiting')
      .execute();
    assert.equal(waiting.length, burst - 40);
  });

  test('a shared limit serves all keys in turn, also those that came last', async () => {
    const witness = new Witness();
    await using all = await startNodes(
      { throttle: { limit: 2, seconds: 60 }, concurrency: { limit: 100, key: byCustomer } },
      witness,
    );
    await all.send(Array.from({ length: 100 }, (_, n) => ({ n, customer: 'a' })));
    await all.send([
      { n: 0, customer: 'b' },
      { n: 1, customer: 'b' },
    ]);
    await waitFor(async () => (await queue()).started === 2);
    for (let period = 2; period <= 4; period += 1) {
      all.pass(60_000);
      await waitFor(async () => (await queue()).started === 2 * period);
    }
    await waitFor(() => witness.calls.length === 8);
    assert.equal(witness.countOf('b'), 2);
  });

  test('of a burst to singletons one run of each key is under way, and each event is run or recorded', async () => {
    const witness = new Witness();
    await using all = await startNodes({ singleton: { mode: 'skip', key: byCustomer } }, witness);
    await all.send(events(burst));
    await waitFor(async () => (await countOf('succeeded', 'not_triggered')) === burst);
    for (const customer of customers) {
      assert.equal(witness.most.get(customer), 1, customer);
      assert.ok(witness.countOf(customer) >= 1);
    }
    const { skipped, started } = await queue();
    assert.equal(skipped + started, burst);
    assert.equal(await countOf('not_triggered'), skipped);
  });

  test('of a burst to singletons that replace, the last event of each key is run', async () => {
    const witness = new Witness();
    await using all = await startNodes({ singleton: { mode: 'replace', key: byCustomer } }, witness);
    await all.send(events(burst));
    await waitFor(async () => (await countOf('succeeded', 'not_triggered', 'cancelled')) === burst);
    const { replaced } = await queue();
    assert.equal(await countOf('not_triggered', 'cancelled'), replaced);
    assert.ok((await countOf('succeeded')) >= customers.length);
  });

  test('of a burst that waits, runs of a higher priority begin first on whichever node', async () => {
    const count = 50;
    const witness = new Witness();
    const { promise, resolve } = Promise.withResolvers<void>();
    const flowControl = { concurrency: { limit: 1 }, priority: '{{event.urgency}}' };
    await using all = await startNodes(flowControl, witness, promise);
    await all.send([{ n: -1, customer: 'a' }]);
    await waitFor(async () => (await queue()).started === 1);
    await all.send(
      Array.from({ length: count }, (_, n) => ({ n, customer: 'a', urgency: n % 10 === 0 ? 600 : 0 })),
    );
    const waiting = () =>
      stores.store.read.selectFrom('flow_runs').select('run_id').where('state', '=', 'waiting').execute();
    await waitFor(async () => (await waiting()).length === count);
    resolve();
    await waitFor(() => witness.calls.length === count + 1);
    const urgencies = witness.calls.slice(1).map((call) => eventOf(call).urgency);
    assert.ok(urgencies.slice(0, count / 10).every((urgency) => urgency === 600));
    assert.equal(witness.most.get('a'), 1);
  });

  test('of a burst that is debounced, one run of each key begins; all others are recorded', async () => {
    const witness = new Witness();
    const debounce = { seconds: 5, max_wait_seconds: 60, key: byCustomer };
    await using all = await startNodes({ debounce }, witness);
    await all.send(events(burst));
    await waitFor(async () => (await queue()).debounced === burst - customers.length);
    assert.equal(witness.calls.length, 0);
    all.pass(5_000);
    await waitFor(async () => (await countOf('succeeded')) === customers.length);
    assert.equal(await countOf('not_triggered'), burst - customers.length);
  });

  test('a burst becomes batches that have each event once', async () => {
    const witness = new Witness();
    await using all = await startNodes(
      { batch: { max_events: 7, max_seconds: 30, key: byCustomer } },
      witness,
    );
    await all.send(events(burst));
    await waitFor(async () => (await queue()).batched === 7 * 4 * Math.floor(burst / 4 / 7));
    all.pass(30_000);
    await waitFor(async () => (await queue()).batched === burst);
    await waitFor(async () => (await countOf('queued', 'running')) === 0);
    const seen = witness.calls.flatMap((call) => eventOf(call).events.map(({ n }: { n: number }) => n));
    assert.deepEqual(
      seen.sort((a, b) => a - b),
      Array.from({ length: burst }, (_, n) => n),
    );
    for (const call of witness.calls) {
      const { events: members, batch } = eventOf(call);
      assert.ok(members.length <= 7);
      assert.ok(members.every(({ customer }: { customer: string }) => customer === batch.key));
    }
  });

  test('thousands of keys leave no rows when their runs have ended', async () => {
    const witness = new Witness();
    await using all = await startNodes(
      { concurrency: { limit: 1, key: byCustomer }, throttle: { limit: 1, seconds: 1, key: byCustomer } },
      witness,
    );
    const keys = 1_500;
    await all.send(Array.from({ length: keys }, (_, n) => ({ n, customer: `key ${n} ${'ü'.repeat(n)}` })));
    await waitFor(async () => (await countOf('succeeded')) === keys);
    all.pass(1_000);
    await waitFor(
      async () => {
        all.pass(0);
        return (await rowsLeft()) === 0;
      },
      { what: 'the rows of the queue to be removed' },
    );
  });

  test('workflows with one account share its rate limit, and each of them gets its part', async () => {
    const witness = new Witness();
    const rate = (limit: number) => ({
      rate_limit: { account: 'a.slack', limit, seconds: 60 },
      account_id: 'apn_1',
    });
    await using all = await startNodes(rate(6), witness);
    const [node] = all.nodes;
    assert.ok(node !== undefined);
    const other = JSON.stringify(rate(4));
    await stores.store.transaction((tx) =>
      tx
        .insertInto('workflows')
        .values({
          ...{ id: 'p_2', owner_id: 'u_1', user_id: 'u_1', project_id: null, name: 'the other' },
          ...{
            state: 'active',
            deployment_id: 'd_1',
            flow_control: other,
            created_at_ms: 1,
            updated_at_ms: 1,
          },
        })
        .execute(),
    );
    const startedBoth = async () => {
      const rows = await stores.store.read
        .selectFrom('flow_queues')
        .select(['subject_id', 'started'])
        .where('subject_id', 'like', 'p_%')
        .execute();
      return new Map(rows.map((row) => [row.subject_id, row.started]));
    };
    const pokeBoth = (ms: number) => {
      all.pass(ms);
      for (const one of all.nodes) one.service.flow.settingsChanged('p_2');
    };
    // The first alone has its limit; with the stricter one of the second, both share that.
    await all.send(Array.from({ length: 20 }, (_, n) => ({ n, customer: 'first' })));
    await waitFor(async () => (await startedBoth()).get('p_1') === 6);
    for (let n = 0; n < 20; n += 1)
      await node.start({ n, customer: 'second' }, { workflowId: 'p_2', flowControl: other });
    await waitFor(async () => (await startedBoth()).has('p_2'));
    let before = 6;
    for (let period = 1; period <= 4; period += 1) {
      pokeBoth(60_000);
      await waitFor(async () => {
        // What is left to the other workflow is offered again a moment later.
        pokeBoth(100);
        const started = await startedBoth();
        return (started.get('p_1') ?? 0) + (started.get('p_2') ?? 0) >= before + 4;
      });
      const started = await startedBoth();
      const total = (started.get('p_1') ?? 0) + (started.get('p_2') ?? 0);
      assert.equal(total, before + 4, 'the stricter limit holds for both together');
      before = total;
    }
    const { p_1 = 0, p_2 = 0 } = Object.fromEntries(await startedBoth());
    assert.ok(p_1 - 6 >= 4 && p_2 >= 4, `both have their part: ${p_1 - 6} and ${p_2}`);
  });
});
