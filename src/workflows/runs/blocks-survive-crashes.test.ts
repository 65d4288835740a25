import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { insertEmitter } from '#events/event-store.ts';
import type { Store } from '#storage/store.ts';
import type { BlockDefinition } from '#workflows/definitions/block-definition.ts';
import { dyingStore } from '../../../test/support/dying-store.ts';
import { finished, RunFixture, type SeenCall, type StepScript } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { stepsOfRun } from './run-step-store.ts';

/** `npm run test:crashes`: the node of the large workflow dies after each of its records, not after some of them. */
const everyRecord = process.env.MILLRACE_TEST_CRASHES === 'all';
/** Crashes in one test: as many as a busy machine does within the time that a test may take. */
const crashesOfTest = 25;

/** The place of a call: its step, and the items of the maps around it. */
function placeOf({ namespace, steps }: SeenCall): string {
  const { index: item } = (steps.each ?? {}) as { index?: number };
  return item === undefined || namespace === 'each' ? namespace : `${namespace}[${item}]`;
}

/** A workflow of a step, a parallel block whose branches have two steps each, a map of two steps, and a last step. */
function workflow(size: { branches: number; items: number }) {
  const block = (more: Partial<BlockDefinition>): BlockDefinition => ({
    ...{ kind: 'parallel', branches: [], error: null, onError: 'fail', concurrency: 10, end: 0 },
    ...more,
  });
  const slugs = Array.from({ length: size.branches }, (_, n) => `b${n}`);
  const items = Array.from({ length: size.items }, (_, n) => n);
  const steps: Record<string, StepScript> = {
    first: finished({ $return_value: 1 }),
    both: finished({ branches: slugs }),
  };
  for (const slug of slugs) {
    steps[`${slug}_1`] = finished({ $return_value: slug });
    steps[`${slug}_2`] = (call) => finished({ $return_value: call.steps[`${slug}_1`]?.$return_value });
  }
  steps.each = finished({ items });
  steps.work = (call) => finished({ $return_value: call.steps.each?.item });
  steps.more = (call) => finished({ $return_value: Number(call.steps.work?.$return_value) * 2 });
  steps.last = (call) =>
    finished(
      { $return_value: [call.steps.both?.$return_value, call.steps.each?.$return_value] },
      { sends: [{ kind: 'emit', payload: JSON.stringify({ event: call.context.id, channel: null }) }] },
    );
  const each = 2 + 2 * size.branches;
  const blocks: Record<string, BlockDefinition> = {
    both: block({
      branches: slugs.map((slug, n) => ({ slug, from: 2 + 2 * n, to: 4 + 2 * n })),
      timeoutSeconds: 3600,
      end: each,
    }),
    each: block({ kind: 'map', branches: [{ slug: 'each', from: each + 1, to: each + 3 }], end: each + 3 }),
  };
  return { steps, blocks, records: 4 + 2 * size.branches + 2 * size.items };
}

async function startNode(
  store: Store,
  made: ReturnType<typeof workflow>,
  options: { node: string; clock: TestClock },
): Promise<RunFixture> {
  const fixture = new RunFixture(store, { steps: made.steps, ...options });
  for (const step of fixture.deployment.steps) {
    const block = made.blocks[step.namespace];
    if (block !== undefined) step.block = block;
  }
  await fixture.pool.start();
  return fixture;
}

forEachStore((stores) => {
  /** Runs the workflow on a node that dies after so many records, and then on another one. */
  async function crashAfter(records: number, size: { branches: number; items: number }) {
    const made = workflow(size);
    const clock = new TestClock();
    const { store } = stores;
    const dying = dyingStore(store, records);
    const first = await startNode(dying.store, made, { node: 'node_a', clock });
    const runId = await first.start();
    await dying.isDead;
    await waitFor(async () => (await stepsOfRun(store.read, runId)).length === records, {
      what: `${records} records`,
    });
    // A dead node claims nothing.
    await first.pool.stop(0);
    // As the recovery of a node that counts as dead.
    await store.transaction((tx) =>
      tx.updateTable('jobs').set({ state: 'queued', lease_node: null }).where('id', '=', runId).execute(),
    );
    const before = (await stepsOfRun(store.read, runId)).map(({ namespace, iteration }) =>
      iteration === '' ? namespace : `${namespace}[${iteration}]`,
    );
    const second = await startNode(store, made, { node: 'node_b', clock });
    try {
      await second.until(runId, 'succeeded');
      const again = second.calls.map(placeOf);
      const repeated = again.filter((place) => before.includes(place));
      assert.deepEqual(repeated, [], `after ${records} records nothing that is recorded runs again`);
      assert.equal(new Set(again).size, again.length);
      const rows = await stepsOfRun(store.read, runId);
      assert.equal(rows.length, made.records);
      const [both, each] = JSON.parse(rows.at(-1)?.exports ?? '{}').$return_value;
      assert.equal(Object.keys(both).length, size.branches);
      assert.deepEqual(
        each,
        Array.from({ length: size.items }, (_, n) => n * 2),
      );
      const ends = await store.read
        .selectFrom('events')
        .select('event')
        .where('emitter_id', '=', 'p_1')
        .where('event', '=', JSON.stringify(runId))
        .execute();
      assert.equal(ends.length, 1, 'what it emits at its end is there once');
    } finally {
      await second.pool.stop(0);
    }
  }

  test('a run of parallel branches and items that loses its node at any record repeats none, and ends once', async () => {
    const size = { branches: 2, items: 3 };
    const { records } = workflow(size);
    await stores.store.transaction((tx) => insertEmitter(tx, { id: 'p_1', ownerId: 'u_1' }));
    for (let at = 1; at < records; at += 1) await crashAfter(at, size);
  });

  test('a run has at most 100,000 records of steps, and 24 MB in all its branches and items', async () => {
    await stores.store.transaction((tx) => insertEmitter(tx, { id: 'p_1', ownerId: 'u_1' }));
    const made = workflow({ branches: 1, items: 30 });
    made.steps.work = finished({ $return_value: 'x'.repeat(1024 * 1024) });
    const node = await startNode(stores.store, made, { node: 'node_a', clock: new TestClock() });
    try {
      const large = await node.until(await node.start(), 'failed');
      assert.match(
        String(large.error),
        /a run may have 24 MB together; with those of all branches and items/,
      );
      made.steps.work = finished({ $return_value: 1 });
      made.steps.first = finished({}, { flow: { kind: 'delay', ms: 3_600_000 } });
      const runId = await node.start();
      await node.until(runId, 'waiting');
      await stores.store.transaction((tx) =>
        sql`insert into run_steps (run_id, owner_id, workflow_id, position, iteration, try, step_id, namespace, state,
            input, exports, logs, error, started_at_ms, ended_at_ms)
          with recursive n (i) as (select 1 union all select i + 1 from n where i < 99999)
          select ${runId}, 'u_1', 'p_1', 5, 'x' || i, 1, 'c_1', 'work', 'failed', null, '{}', '[]', null, 0, 0 from n`.execute(
          tx,
        ),
      );
      node.pass(3_600_000);
      const many = await node.until(runId, 'failed');
      assert.match(String(many.error), /a run may have 100,000 records of steps/);
    } finally {
      await node.pool.stop(0);
    }
  });

  const large = { branches: 20, items: 200 };
  const last = workflow(large).records - 1;
  const places = everyRecord
    ? Array.from({ length: last }, (_, n) => n + 1)
    : [1, 2, 3, 22, 41, 42, 43, 44, 200, 442, last];
  for (let from = 0; from < places.length; from += crashesOfTest) {
    const part = places.slice(from, from + crashesOfTest);
    const where = `after ${part.length} records from ${part[0]} to ${part.at(-1)}`;
    test(`so does one of 20 branches and 200 items, ${where}`, async () => {
      await stores.store.transaction((tx) => insertEmitter(tx, { id: 'p_1', ownerId: 'u_1' }));
      for (const at of part) await crashAfter(at, large);
    });
  }
});
