import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BlockDefinition } from '#workflows/definitions/block-definition.ts';
import { finished, RunFixture, type StepScript, threw } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { stepsOfRun } from './run-step-store.ts';
import { waitsOfRun } from './run-wait-store.ts';

const block = (more: Partial<BlockDefinition>): BlockDefinition => ({
  ...{ kind: 'if', branches: [], error: null, onError: 'fail', concurrency: 10, end: 0 },
  ...more,
});

forEachStore((stores) => {
  /** A node on which the named steps are blocks. */
  async function start(
    steps: Record<string, StepScript>,
    blocks: Record<string, BlockDefinition>,
    options: { node?: string; clock?: TestClock } = {},
  ): Promise<RunFixture> {
    const fixture = await RunFixture.start(stores.store, { steps, ...options });
    addBlocks(fixture, blocks);
    return fixture;
  }

  function addBlocks(fixture: RunFixture, blocks: Record<string, BlockDefinition>): void {
    for (const step of fixture.deployment.steps) {
      const found = blocks[step.namespace];
      if (found !== undefined) step.block = found;
    }
  }

  /** A step that runs until it is stopped. */
  const hangs: StepScript = async (_call, { signal }) => {
    await new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true }));
    return { status: 'cancelled' };
  };

  const branchesOf = (fixture: RunFixture, runId: string) =>
    stepsOfRun(fixture.store.read, runId).then((rows) =>
      rows.map(({ namespace, try: number, state, error }) => ({
        step: `${namespace} ${number} ${state}`,
        error: error === null ? null : (JSON.parse(error) as { code: string; msg: string }).msg,
      })),
    );

  const exportsOf = async (fixture: RunFixture, runId: string, namespace: string) =>
    JSON.parse(
      (await stepsOfRun(fixture.store.read, runId)).findLast((row) => row.namespace === namespace)?.exports ??
        'null',
    ) as Record<string, unknown>;

  const message = 'block both did not end within 0.05 seconds';

  test('steps that run when the time of their block is over are ended, and the run fails with the block', async () => {
    await using node = await start(
      { both: finished({ branches: ['a', 'b'] }), one: hangs, two: hangs, after: finished() },
      {
        both: block({
          kind: 'parallel',
          branches: [
            { slug: 'a', from: 1, to: 2 },
            { slug: 'b', from: 2, to: 3 },
          ],
          timeoutSeconds: 0.05,
          end: 3,
        }),
      },
    );
    const runId = await node.start();
    const run = await node.until(runId, 'failed');
    const { code, msg, namespace } = JSON.parse(run.error ?? '{}');
    assert.deepEqual({ code, msg, namespace }, { code: 'Timeout', msg: message, namespace: 'both' });
    const cut = 'the time of the block that the step is in was over';
    assert.deepEqual(await branchesOf(node, runId), [
      { step: 'both 1 succeeded', error: null },
      { step: 'both 2 failed', error: message },
      { step: 'one 1 failed', error: cut },
      { step: 'two 1 failed', error: cut },
    ]);
  });

  test('on_error of the block, or of one around it, handles that its time is over; a block in it ends with it', async () => {
    const steps: Record<string, StepScript> = {
      outer: finished({ branch: 'a' }),
      both: finished({ items: [1, 2, 3] }),
      one: (call) => (call.steps.both?.item === 1 ? finished({ $return_value: 1 }) : { status: 'finished' }),
      inner: finished({ branch: 'a' }),
      deep: hangs,
      after: (call) => finished({ $return_value: call.steps.outer ?? null }),
    };
    const outer = block({ branches: [{ slug: 'a', from: 1, to: 5 }], onError: 'continue', end: 5 });
    const both = (onError: 'fail' | 'continue') =>
      block({
        ...{ kind: 'map', branches: [{ slug: 'each', from: 2, to: 5 }], timeoutSeconds: 0.05, end: 5 },
        onError,
      });
    const inner = block({ branches: [{ slug: 'a', from: 4, to: 5 }], timeoutSeconds: 3600, end: 5 });
    await using node = await start(steps, { outer, both: both('fail'), inner });
    const runId = await node.start();
    await node.until(runId, 'succeeded');
    const result = (await exportsOf(node, runId, 'after')).$return_value as Record<string, unknown>;
    assert.deepEqual(result.$error, { code: 'Timeout', msg: message, namespace: 'both' });
    assert.equal(result.$return_value, null);
    addBlocks(node, { both: both('continue') });
    const second = await node.start();
    await node.until(second, 'succeeded');
    const handled = (await exportsOf(node, second, 'after')).$return_value as { $error?: object };
    assert.equal(handled.$error, undefined, 'the block around it has no error');
  });

  test('a block whose steps wait when its time is over ends on whichever node, and what waited is over', async () => {
    const clock = new TestClock();
    const waits = finished({}, { flow: { kind: 'suspend', ms: 3_600_000 } });
    const steps: Record<string, StepScript> = {
      both: finished({ branches: ['a', 'b'] }),
      one: waits,
      two: finished({}, { flow: { kind: 'delay', ms: 7_200_000 } }),
      late: finished(),
      after: (call) => finished({ $return_value: call.steps.both?.$error }),
      last: finished({}, { flow: { kind: 'delay', ms: 1_000_000 } }),
    };
    const blocks = {
      both: block({
        kind: 'parallel',
        branches: [
          { slug: 'a', from: 1, to: 2 },
          { slug: 'b', from: 2, to: 4 },
        ],
        ...{ timeoutSeconds: 60, onError: 'continue', end: 4 },
      }),
    };
    const first = await start(steps, blocks, { node: 'node_a', clock });
    const runId = await first.start();
    const waiting = await first.until(runId, 'waiting');
    assert.equal(Number(waiting.wait_until_ms), clock.now() + 60_000, 'it continues when the time is over');
    await first[Symbol.asyncDispose]();
    await using second = new RunFixture(stores.store, { steps, node: 'node_b', clock });
    addBlocks(second, blocks);
    await second.pool.start();
    second.pass(60_000);
    await waitFor(async () => (await exportsOf(second, runId, 'last')) !== null, { what: 'the last step' });
    const error = { code: 'Timeout', msg: 'block both did not end within 60 seconds', namespace: 'both' };
    assert.deepEqual((await exportsOf(second, runId, 'after')).$return_value, error);
    assert.deepEqual(await waitsOfRun(stores.store.read, runId), []);
    second.pass(1_000_000);
    await second.until(runId, 'succeeded');
    assert.deepEqual(
      second.calls.map(({ namespace }) => namespace),
      ['after', 'last'],
      'nothing in the block runs, and what is recorded does not run again',
    );
  });

  test('so does one whose branch waits in the strand of the run, and a delay as its last step is no end of it', async () => {
    const clock = new TestClock();
    for (const flow of ['suspend', 'delay'] as const) {
      const steps: Record<string, StepScript> = {
        size: finished({ branch: 'a' }),
        waits: finished({}, { flow: { kind: flow, ms: 3_600_000 } }),
        repair: (call) => finished({ $return_value: call.steps.size?.$error }),
        after: (call) => finished({ $return_value: call.steps.size?.$return_value }),
      };
      const size = block({
        branches: [{ slug: 'a', from: 1, to: 2 }],
        ...{ error: { from: 2, to: 3 }, onError: 'branch', timeoutSeconds: 60, end: 3 },
      });
      await using node = new RunFixture(stores.store, { steps, clock });
      addBlocks(node, { size });
      await node.pool.start();
      const runId = await node.start();
      await node.until(runId, 'waiting');
      node.pass(60_000);
      await node.until(runId, 'succeeded');
      const error = { code: 'Timeout', msg: 'block size did not end within 60 seconds', namespace: 'size' };
      assert.deepEqual((await exportsOf(node, runId, 'after')).$return_value, error, flow);
    }
  });

  test('steps that end in time, errors of them and the error branch are what they are without a time limit', async () => {
    const steps: Record<string, StepScript> = {
      size: finished({ branch: 'a' }),
      fails: threw('RangeError', 'no'),
      repair: finished({ $return_value: 2 }),
      after: (call) => finished({ $return_value: call.steps.size }),
    };
    const size = block({
      branches: [{ slug: 'a', from: 1, to: 2 }],
      ...{ error: { from: 2, to: 3 }, onError: 'branch', timeoutSeconds: 3600, end: 3 },
    });
    await using node = await start(steps, { size });
    const runId = await node.start();
    await node.until(runId, 'succeeded');
    const { $error, $return_value } = (await exportsOf(node, runId, 'after')).$return_value as {
      $error: { msg: string };
      $return_value: unknown;
    };
    assert.deepEqual([$error.msg, $return_value], ['no', 2]);
  });
});
