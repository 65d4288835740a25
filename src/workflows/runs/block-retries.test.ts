import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertEmitter } from '#events/event-store.ts';
import type { Store } from '#storage/store.ts';
import type { BlockDefinition } from '#workflows/definitions/block-definition.ts';
import type { StepRetries } from '#workflows/definitions/workflow-definition.ts';
import { insertDeployment } from '#workflows/definitions/workflow-store.ts';
import { dyingStore } from '../../../test/support/dying-store.ts';
import { finished, RunFixture, type StepScript, threw } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { RunRepeater } from './repeat-run.ts';
import { stepsOfRun } from './run-step-store.ts';
import { findRun } from './run-store.ts';
import { waitsOfRun } from './run-wait-store.ts';

type Blocks = Record<string, Partial<BlockDefinition> & { retries?: StepRetries }>;

const minute = 60_000;
const twice: StepRetries = { times: 2, seconds: 60 };

function nodeWith(
  store: Store,
  steps: Record<string, StepScript>,
  blocks: Blocks,
  options: { node?: string; clock?: TestClock } = {},
): RunFixture {
  const fixture = new RunFixture(store, { steps, ...options });
  for (const step of fixture.deployment.steps) {
    const { retries, ...block } = blocks[step.namespace] ?? {};
    if (blocks[step.namespace] === undefined) continue;
    if (retries !== undefined) step.retries = retries;
    if (Object.keys(block).length > 0)
      step.block = {
        ...{ kind: 'if', branches: [], error: null, onError: 'fail', concurrency: 10, end: 0 },
        ...block,
      };
  }
  return fixture;
}

/** Each record as `namespace[iteration] attempt/try state`. */
async function records(store: Store, runId: string): Promise<string[]> {
  return (await stepsOfRun(store.read, runId)).map(({ namespace, iteration, attempt, state, ...row }) => {
    const place = iteration === '' ? namespace : `${namespace}[${iteration}]`;
    return `${place} ${attempt || '-'}/${row.try} ${state}`;
  });
}

/** Lets time pass whenever the run waits, until `isOver`. */
async function untilOver(node: RunFixture, runId: string, isOver: () => boolean): Promise<void> {
  await waitFor(
    async () => {
      const run = await findRun(node.store.read, runId);
      if (run?.state === 'waiting') node.pass(10 * minute);
      return isOver() || ['succeeded', 'failed', 'cancelled'].includes(run?.state ?? '');
    },
    { what: `run ${runId} to end` },
  );
}

const taken = (branch: string) => finished({ branch });
const returned = (value: unknown) => finished({ $return_value: value });

forEachStore((stores) => {
  async function start(
    steps: Record<string, StepScript>,
    blocks: Blocks,
  ): Promise<RunFixture & AsyncDisposable> {
    const node = nodeWith(stores.store, steps, blocks);
    await stores.store.transaction((tx) => insertEmitter(tx, { id: 'p_1', ownerId: 'u_1' }));
    await node.pool.start();
    return node;
  }

  const exportsOf = async (runId: string, namespace: string) =>
    JSON.parse(
      (await stepsOfRun(stores.store.read, runId)).findLast((row) => row.namespace === namespace)?.exports ??
        'null',
    ) as Record<string, unknown>;

  test('a block that fails runs again from its start, later each time, and what its failed attempts did stays readable', async () => {
    let failures = 0;
    const flaky: StepScript = (call) => {
      assert.equal(call.steps.one?.$return_value, 'one');
      failures += 1;
      return failures <= 2 ? threw('Error', `failure ${failures}`) : returned('two');
    };
    await using node = await start(
      { size: taken('a'), one: returned('one'), two: flaky, last: (call) => returned(call.steps) },
      { size: { branches: [{ slug: 'a', from: 1, to: 3 }], retries: twice, end: 3 } },
    );
    const runId = await node.start();
    const first = await node.until(runId, 'waiting');
    assert.deepEqual([first.wait_kind, first.wait_until_ms], ['retry', node.clock.now() + minute]);
    assert.equal(node.calls.length, 3);
    node.pass(minute);
    await waitFor(async () => (await findRun(node.store.read, runId))?.failures === 2, {
      what: 'two failures',
    });
    const second = await node.until(runId, 'waiting');
    assert.equal(second.wait_until_ms, node.clock.now() + 2 * minute, 'twice as late');
    node.pass(2 * minute);
    await node.until(runId, 'succeeded');
    assert.deepEqual(await records(node.store, runId), [
      'size -/1 succeeded',
      'size -/2 failed',
      'size -/3 succeeded',
      'size -/4 failed',
      'size -/5 succeeded',
      ...['one 1/1 succeeded', 'one 2/2 succeeded', 'one 3/3 succeeded'],
      ...['two 1/1 caught', 'two 2/2 caught', 'two 3/3 succeeded'],
      'last -/1 succeeded',
    ]);
    const failed = (await stepsOfRun(node.store.read, runId)).find(({ state }) => state === 'failed');
    const { code, msg } = JSON.parse(failed?.error ?? '{}');
    assert.deepEqual({ code, msg }, { code: 'Error', msg: 'two: failure 1' });
    assert.match(JSON.parse(failed?.exports ?? '{}').$attempt.resume_ts, /^2/);
    const { size, ...others } = (await exportsOf(runId, 'last')).$return_value as Record<string, unknown>;
    assert.deepEqual(size, { branch: 'a', $return_value: 'two' }, 'the last attempt is the result');
    assert.deepEqual(Object.keys(others), ['trigger']);
  });

  test('after its last attempt a block fails as on_error says, and a restarted run has all attempts again', async () => {
    let isBroken = true;
    const steps = {
      size: taken('a'),
      one: returned('one'),
      two: () => (isBroken ? threw('Error', 'no') : returned('two')),
      last: (call) => returned(call.steps.size),
    } satisfies Record<string, StepScript>;
    const block = { branches: [{ slug: 'a', from: 1, to: 3 }], retries: { times: 1, seconds: 60 }, end: 3 };
    await using node = await start(steps, { size: block });
    const runId = await node.start();
    await untilOver(node, runId, () => false);
    assert.match((await node.until(runId, 'failed')).error ?? '', /"namespace":"two"/);
    assert.equal(node.calls.length, 6);
    isBroken = false;
    await node.storeWorkflow();
    await stores.store.transaction((tx) =>
      insertDeployment(
        stores.store,
        tx,
        {
          ...{ id: 'd_1', workflow_id: 'p_1', owner_id: 'u_1', user_id: 'u_1', number: 1, template_id: null },
          definition: JSON.stringify({
            steps: node.deployment.steps.map((step) => ({ ...step, componentId: 'sc_1' })),
            settings: {},
          }),
          created_at_ms: 1,
        },
        [],
      ),
    );
    const repeater = new RunRepeater({ store: node.store, starter: node.service.starter });
    const repeated = await repeater.prepareRestart(await node.until(runId, 'failed'));
    await repeater.store([repeated]);
    node.pool.poke();
    const again = repeated.prepared.run.id;
    await node.until(again, 'succeeded');
    assert.deepEqual(await records(node.store, again), [
      ...['size -/1 succeeded', 'one 1/1 succeeded', 'two 1/1 succeeded', 'last -/1 succeeded'],
    ]);
    const calls = node.calls.slice(6).map(({ namespace }) => namespace);
    assert.deepEqual(calls, ['two', 'last'], 'what the last attempt had finished is taken over');

    isBroken = true;
    await using handled = nodeWith(
      stores.store,
      steps,
      { size: { ...block, onError: 'continue' } },
      { node: 'node_b' },
    );
    await node.pool.stop(0);
    await handled.pool.start();
    const third = await handled.start();
    await untilOver(handled, third, () => false);
    await handled.until(third, 'succeeded');
    const { $return_value: result } = await exportsOf(third, 'last');
    const $error = { code: 'Error', msg: 'no', namespace: 'two' };
    assert.deepEqual(result, { branch: 'a', $return_value: null, $error, $errors: [$error] });
  });

  test('each item of a map has attempts of the block in it, and a link of a failed attempt is over', async () => {
    const failures = new Map<unknown, number>();
    const links: string[] = [];
    await using node = await start(
      {
        each: finished({ items: [0, 1, 2] }),
        size: taken('a'),
        one: (call) => {
          links.push(call.call.resumeUrl);
          return returned(call.steps.each?.item);
        },
        two: (call) => {
          const item = call.steps.each?.item;
          const before = failures.get(item) ?? 0;
          failures.set(item, before + 1);
          return before < Number(item) ? threw('Error', `item ${item}`) : returned(item);
        },
      },
      {
        each: { kind: 'map', branches: [{ slug: 'each', from: 1, to: 4 }], concurrency: 3, end: 4 },
        size: { branches: [{ slug: 'a', from: 2, to: 4 }], retries: twice, end: 4 },
      },
    );
    const runId = await node.start();
    await node.until(runId, 'waiting');
    const waits = await waitsOfRun(node.store.read, runId);
    assert.deepEqual(
      waits.map(({ iteration, kind, failures: count }) => `${iteration} ${kind} ${count}`).sort(),
      ['1 retry 1', '2 retry 1'],
    );
    await untilOver(node, runId, () => false);
    await node.until(runId, 'succeeded');
    const two = (await records(node.store, runId)).filter((record) => record.startsWith('two'));
    assert.deepEqual(two, [
      'two[0] 1/1 succeeded',
      ...['two[1] 1/1 caught', 'two[1] 2/2 succeeded'],
      ...['two[2] 1/1 caught', 'two[2] 2/2 caught', 'two[2] 3/3 succeeded'],
    ]);
    assert.deepEqual(await waitsOfRun(node.store.read, runId), []);
    assert.equal(links.length, 6);
    assert.equal(new Set(links).size, 6, 'each try of a step has links of its own');
  });

  test('a block whose time is over is run again with its full time, and what waited in it waits no longer', async () => {
    let isSlow = true;
    await using node = await start(
      {
        both: finished({ branches: ['a', 'b'] }),
        one: returned('one'),
        two: () =>
          isSlow ? finished({}, { flow: { kind: 'suspend', ms: 24 * 60 * minute } }) : returned('two'),
        last: (call) => returned(call.steps.both),
      },
      {
        both: {
          kind: 'parallel',
          branches: [
            { slug: 'a', from: 1, to: 2 },
            { slug: 'b', from: 2, to: 3 },
          ],
          timeoutSeconds: 300,
          retries: twice,
          end: 3,
        },
      },
    );
    const runId = await node.start();
    await node.until(runId, 'waiting');
    assert.equal((await waitsOfRun(node.store.read, runId)).length, 1);
    node.pass(5 * minute);
    await waitFor(async () => (await findRun(node.store.read, runId))?.wait_kind === 'retry', {
      what: 'the second attempt to be due',
    });
    assert.deepEqual(await waitsOfRun(node.store.read, runId), []);
    isSlow = false;
    node.pass(minute);
    await node.until(runId, 'succeeded');
    assert.deepEqual(
      (await records(node.store, runId)).filter((record) => record.startsWith('both')),
      ['both -/1 succeeded', 'both -/2 failed', 'both -/3 succeeded'],
    );
  });

  test('a run with retries of blocks in blocks that loses its node at any record repeats no finished step of the present attempt', async () => {
    /** How often a block has failed, which the scripts decide by: so a step fails again when it is run again. */
    const failed = async (runId: string, namespace: string) =>
      (await stepsOfRun(stores.store.read, runId)).filter(
        (row) => row.namespace === namespace && row.state === 'failed',
      ).length;
    const runOf = ({ context }: { context: Record<string, unknown> }) => String(context.id);
    const steps: Record<string, StepScript> = {
      first: returned(1),
      outer: taken('a'),
      before: returned('before'),
      both: finished({ branches: ['x', 'y'] }),
      x1: returned('x1'),
      inner: taken('z'),
      y1: returned('y1'),
      y2: async (call) => {
        const [inner, outer] = [await failed(runOf(call), 'inner'), await failed(runOf(call), 'outer')];
        return inner === outer ? threw('Error', 'inner') : returned(`y2 after ${inner}`);
      },
      after: async (call) =>
        (await failed(runOf(call), 'outer')) === 0 ? threw('Error', 'outer') : returned(call.steps.both),
      last: (call) => returned(call.steps.outer),
    };
    const blocks: Blocks = {
      outer: { branches: [{ slug: 'a', from: 2, to: 9 }], retries: twice, end: 9 },
      both: {
        kind: 'parallel',
        branches: [
          { slug: 'x', from: 4, to: 5 },
          { slug: 'y', from: 5, to: 8 },
        ],
        end: 8,
      },
      inner: { branches: [{ slug: 'z', from: 6, to: 8 }], retries: { times: 1, seconds: 60 }, end: 8 },
    };
    await stores.store.transaction((tx) => insertEmitter(tx, { id: 'p_1', ownerId: 'u_1' }));
    const whole = [
      'first -/1 succeeded',
      ...['outer -/1 succeeded', 'outer -/2 failed', 'outer -/3 succeeded'],
      ...['before 1/1 succeeded', 'before 2/2 succeeded'],
      ...['both 1/1 succeeded', 'both 2/2 succeeded'],
      ...['x1 1/1 succeeded', 'x1 2/2 succeeded'],
      ...['inner 1/1 succeeded', 'inner 1/2 failed', 'inner 1/3 succeeded'],
      ...['inner 2/4 succeeded', 'inner 2/5 failed', 'inner 2/6 succeeded'],
      ...['y1 1-1/1 succeeded', 'y1 1-2/2 succeeded', 'y1 2-1/3 succeeded', 'y1 2-2/4 succeeded'],
      ...['y2 1-1/1 caught', 'y2 1-2/2 succeeded', 'y2 2-1/3 caught', 'y2 2-2/4 succeeded'],
      ...['after 1/1 caught', 'after 2/2 succeeded'],
      'last -/1 succeeded',
    ];
    /** Records without a call: those of failed attempts. */
    const calledFor = (recorded: readonly string[]) =>
      recorded.filter((one) => !one.endsWith('failed')).length;
    for (let at = 1; ; at += 1) {
      const clock = new TestClock();
      const dying = dyingStore(stores.store, at);
      let isDead = false;
      void dying.isDead.then(() => {
        isDead = true;
      });
      const first = nodeWith(dying.store, steps, blocks, { node: `node_a${at}`, clock });
      await first.pool.start();
      const runId = await first.start();
      await untilOver(first, runId, () => isDead);
      await dying.settled();
      await first.pool.stop(0);
      if (!isDead) {
        assert.deepEqual(await records(stores.store, runId), whole);
        assert.equal(first.calls.length, calledFor(whole));
        assert.ok(at > whole.length, `${at} kills, one at each record and more at waits`);
        return;
      }
      const before = await records(stores.store, runId);
      // As the recovery of a node that counts as dead.
      await stores.store.transaction((tx) =>
        tx.updateTable('jobs').set({ state: 'queued', lease_node: null }).where('id', '=', runId).execute(),
      );
      await using second = nodeWith(stores.store, steps, blocks, { node: `node_b${at}`, clock });
      await second.pool.start();
      second.pass(10 * minute);
      await untilOver(second, runId, () => false);
      assert.equal((await second.until(runId, 'succeeded', 'failed')).state, 'succeeded');
      assert.deepEqual(await records(stores.store, runId), whole, `killed at write ${at}`);
      assert.equal(second.calls.length, calledFor(whole) - calledFor(before), `killed at write ${at}`);
      assert.deepEqual(await waitsOfRun(stores.store.read, runId), []);
    }
  });
});
