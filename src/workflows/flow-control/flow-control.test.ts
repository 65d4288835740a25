import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AppliedFlowControl } from '#flow-control/flow-control.ts';
import { finished, RunFixture, type SeenCall, type StepScript } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

const byCustomer = '{{steps.trigger.event.customer}}';

/** A step that stays under way until it is let end, by the number of its event. */
class Gate {
  readonly begun: SeenCall[] = [];
  readonly #open = new Map<SeenCall, () => void>();
  most = new Map<string, number>();
  readonly #underWay = new Map<string, number>();

  readonly step: StepScript = async (call) => {
    const key = String(eventOf(call).customer ?? '');
    const now = (this.#underWay.get(key) ?? 0) + 1;
    this.#underWay.set(key, now);
    this.most.set(key, Math.max(now, this.most.get(key) ?? 0));
    this.begun.push(call);
    await new Promise<void>((resolve) => this.#open.set(call, resolve));
    this.#underWay.set(key, (this.#underWay.get(key) ?? 1) - 1);
    return finished();
  };

  get numbers(): unknown[] {
    return this.begun.map((call) => eventOf(call).n);
  }

  openAll(): void {
    for (const [call, open] of this.#open) {
      this.#open.delete(call);
      open();
    }
  }
}

// biome-ignore lint/suspicious/noExplicitAny: events of every shape.
function eventOf(call: SeenCall): any {
  return (call.steps.trigger as { event: unknown }).event;
}

forEachStore((stores) => {
  const startWith = (flowControl: AppliedFlowControl, step: StepScript = finished()) =>
    RunFixture.start(stores.store, { steps: { a: step }, flowControl });

  const countOf = async (state: string): Promise<number> =>
    (
      await stores.store.read
        .selectFrom('runs')
        .select('id')
        .where('state', '=', state as never)
        .execute()
    ).length;

  const until = (state: string, count: number) =>
    waitFor(async () => (await countOf(state)) === count, { what: `${count} runs to be ${state}` });

  const queue = () =>
    stores.store.read
      .selectFrom('flow_queues')
      .selectAll()
      .where('subject_id', '=', 'p_1')
      .executeTakeFirst();

  test('while several owners are active, passes over the queues of one rest, and all of its runs begin in the end', async () => {
    let asked = 0;
    const activeOwners = {
      get areSeveral() {
        asked += 1;
        return true;
      },
    };
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished() },
      flowControl: { concurrency: { limit: 5, key: byCustomer } },
      activeOwners,
    });
    const runs = 400;
    await Promise.all(Array.from({ length: runs }, (_, n) => fixture.start({ n, customer: n % 7 })));
    await until('succeeded', runs);
    // Once for each pass that took long enough for a rest, while none was under way.
    assert.ok(asked > 0);
  });

  test('concurrency by key lets so many runs of each key be under way, and all of them begin in the end', async () => {
    const gate = new Gate();
    await using fixture = await startWith({ concurrency: { limit: 2, key: byCustomer } }, gate.step);
    for (let n = 0; n < 5; n += 1) {
      await fixture.start({ n, customer: 'a' });
      await fixture.start({ n, customer: 'b' });
    }
    await waitFor(() => gate.begun.length === 4);
    await until('queued', 6);
    await waitFor(async () => {
      gate.openAll();
      return (await countOf('succeeded')) === 10;
    });
    assert.deepEqual([...gate.most].sort(), [
      ['a', 2],
      ['b', 2],
    ]);
  });

  test('a run that has begun holds its place until it has ended, also when a user ends it', async () => {
    const gate = new Gate();
    await using fixture = await startWith({ concurrency: { limit: 1 } }, gate.step);
    const first = await fixture.start({ n: 1 });
    await fixture.start({ n: 2 });
    await waitFor(() => gate.begun.length === 1);
    await fixture.service.manager.cancel({ id: first, workflow_id: 'p_1' }, 'by a test');
    await waitFor(() => gate.begun.length === 2);
    assert.deepEqual(gate.numbers, [1, 2]);
    gate.openAll();
    await until('succeeded', 1);
  });

  test('a waiting run that is cancelled never begins, and holds up none behind it', async () => {
    const gate = new Gate();
    await using fixture = await startWith({ concurrency: { limit: 1 } }, gate.step);
    await fixture.start({ n: 1 });
    const second = await fixture.start({ n: 2 });
    await fixture.start({ n: 3 });
    await waitFor(async () => (await queue())?.started === 1);
    await fixture.service.manager.cancel({ id: second, workflow_id: 'p_1' }, 'by a test');
    await waitFor(async () => {
      gate.openAll();
      return (await countOf('succeeded')) === 2;
    });
    assert.deepEqual(gate.numbers, [1, 3]);
  });

  test('a throttle by key lets at most so many runs of each key begin in any period', async () => {
    await using fixture = await startWith({ throttle: { limit: 2, seconds: 60, key: byCustomer } });
    for (let n = 0; n < 5; n += 1) await fixture.start({ n, customer: 'a' });
    await fixture.start({ n: 0, customer: 'b' });
    await until('succeeded', 3);
    fixture.pass(59_999);
    await waitFor(async () => (await queue())?.wake_ms !== null);
    assert.equal(await countOf('succeeded'), 3);
    fixture.pass(1);
    await until('succeeded', 5);
    fixture.pass(60_000);
    await until('succeeded', 6);
    fixture.pass(60_000);
    await waitFor(
      async () => (await stores.store.read.selectFrom('flow_runs').select('run_id').execute()).length === 0,
      { what: 'what the throttle has counted to be removed' },
    );
  });

  test('a debounce runs once, with the last event, and records the events before it with the reason', async () => {
    const calls: SeenCall[] = [];
    await using fixture = await startWith(
      { debounce: { seconds: 10, max_wait_seconds: 100, key: byCustomer } },
      (call) => {
        calls.push(call);
        return finished();
      },
    );
    const first = await fixture.start({ n: 1, customer: 'a' });
    await waitFor(async () => (await queue()) !== undefined);
    fixture.pass(9_000);
    const last = await fixture.start({ n: 2, customer: 'a' });
    await until('not_triggered', 1);
    const { reason } = await fixture.until(first, 'not_triggered');
    assert.equal(reason, `debounced: a later event counts, run ${last}`);
    fixture.pass(9_999);
    await waitFor(async () => (await queue())?.debounced === 1);
    assert.deepEqual(calls, []);
    fixture.pass(1);
    await fixture.until(last, 'succeeded');
    assert.deepEqual(
      calls.map((call) => eventOf(call).n),
      [2],
    );
  });

  test('a debounce waits no longer than its maximum after the first event', async () => {
    await using fixture = await startWith({ debounce: { seconds: 10, max_wait_seconds: 25 } });
    let last = '';
    for (let n = 0; n < 3; n += 1) {
      last = await fixture.start({ n });
      await waitFor(async () => (await queue())?.debounced === n);
      fixture.pass(9_000);
    }
    // 27 seconds after the first event, 9 after the last.
    await fixture.until(last, 'succeeded');
  });

  test('a singleton skips what comes while a run of its key is under way, with the reason', async () => {
    const gate = new Gate();
    await using fixture = await startWith({ singleton: { mode: 'skip', key: byCustomer } }, gate.step);
    const first = await fixture.start({ n: 1, customer: 'a' });
    await waitFor(() => gate.begun.length === 1);
    const second = await fixture.start({ n: 2, customer: 'a' });
    await fixture.start({ n: 3, customer: 'b' });
    await waitFor(() => gate.begun.length === 2);
    assert.equal(
      (await fixture.until(second, 'not_triggered')).reason,
      `skipped: run ${first} has the singleton key "a"`,
    );
    assert.equal((await queue())?.skipped, 1);
    gate.openAll();
    await until('succeeded', 2);
    await fixture.start({ n: 4, customer: 'a' });
    await waitFor(() => gate.begun.length === 3);
    assert.deepEqual(gate.numbers.sort(), [1, 3, 4]);
    gate.openAll();
    await until('succeeded', 3);
  });

  test('a singleton that replaces ends the run under way and runs the newer event', async () => {
    const gate = new Gate();
    await using fixture = await startWith({ singleton: { mode: 'replace', key: byCustomer } }, gate.step);
    const first = await fixture.start({ n: 1, customer: 'a' });
    await waitFor(() => gate.begun.length === 1);
    const second = await fixture.start({ n: 2, customer: 'a' });
    assert.equal(
      (await fixture.until(first, 'cancelled')).reason,
      `replaced: run ${second} came later with the singleton key "a"`,
    );
    await waitFor(() => gate.begun.length === 2);
    gate.openAll();
    await fixture.until(second, 'succeeded');
    assert.equal((await queue())?.replaced, 1);
  });

  test('a batch makes one run of so many events, in their order, and of fewer when the time is over', async () => {
    const calls: SeenCall[] = [];
    await using fixture = await startWith(
      { batch: { max_events: 3, max_seconds: 30, key: byCustomer } },
      (call) => {
        calls.push(call);
        return finished();
      },
    );
    for (let n = 0; n < 4; n += 1) await fixture.start({ n, customer: 'a' });
    await fixture.start({ n: 9, customer: 'b' });
    await until('succeeded', 1);
    assert.deepEqual(eventOf(calls[0] as SeenCall), {
      events: [0, 1, 2].map((n) => ({ n, customer: 'a' })),
      batch: { count: 3, key: 'a' },
    });
    fixture.pass(30_000);
    await until('succeeded', 3);
    const rest = calls.slice(1).map((call) => eventOf(call).events.map(({ n }: { n: number }) => n));
    assert.deepEqual(rest.sort(), [[3], [9]]);
    assert.equal((await queue())?.batched, 5);
  });

  test('priority moves a run in the queue, by no more than ten minutes', async () => {
    const gate = new Gate();
    await using fixture = await startWith(
      { concurrency: { limit: 1 }, priority: '{{steps.trigger.event.urgency}}' },
      gate.step,
    );
    await fixture.start({ n: 1 });
    await waitFor(() => gate.begun.length === 1);
    await fixture.start({ n: 2, urgency: -100_000 });
    await fixture.start({ n: 3, urgency: 5 });
    fixture.clock.step(2 * 600_000 + 1);
    await fixture.start({ n: 4, urgency: 100_000 });
    await waitFor(async () => {
      gate.openAll();
      return (await countOf('succeeded')) === 4;
    });
    assert.deepEqual(gate.numbers, [1, 3, 2, 4]);
  });

  test('a key that is no text, number or boolean counts as the empty key, with a warning', async () => {
    const gate = new Gate();
    await using fixture = await startWith({ concurrency: { limit: 1, key: byCustomer } }, gate.step);
    await fixture.start({ n: 1, customer: { id: 1 } });
    await fixture.start({ n: 2 });
    await waitFor(
      async () => (await stores.store.read.selectFrom('flow_runs').select('run_id').execute()).length === 2,
    );
    const rows = await stores.store.read
      .selectFrom('flow_runs')
      .select(['concurrency_key', 'warning'])
      .orderBy('run_id')
      .execute();
    assert.deepEqual(rows, [
      { concurrency_key: '', warning: `${byCustomer} is an object, expected a text, number or boolean` },
      { concurrency_key: '', warning: `${byCustomer} is missing, expected a text, number or boolean` },
    ]);
    await waitFor(async () => {
      gate.openAll();
      return (await countOf('succeeded')) === 2;
    });
  });
});
