import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertEmitter } from '#events/event-store.ts';
import { CallerError, toError } from '#lib/errors.ts';
import { updateWorkflow } from '#workflows/definitions/workflow-store.ts';
import { finished, RunFixture, type StepScript, threw } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

forEachStore((stores) => {
  /** The called workflow is the one under test too: its runs are told apart by their events. */
  function node(options: {
    name: string;
    clock: TestClock;
    /** After the call has its answer, in the caller. */
    afterCall?: () => Promise<void>;
    inner?: StepScript;
  }): RunFixture {
    const steps: Record<string, StepScript> = {
      work: async (seen, callOptions) => {
        const { n } = (seen.steps.trigger?.event ?? {}) as { n?: string };
        if (n === 'called')
          return typeof options.inner === 'function'
            ? options.inner(seen, callOptions)
            : finished({ $return_value: 'inner' });
        const call = { kind: 'trigger_workflow', header: { workflow_id: 'p_1' } };
        const answer = await Promise.resolve(
          callOptions.onHostCall?.({ ...call, body: Buffer.from('{"n":"called"}') }),
        ).catch((error: unknown) => toError(error));
        if (answer instanceof CallerError) return threw('Error', answer.message);
        if (answer instanceof Error) throw answer;
        await options.afterCall?.();
        return finished({
          $return_value: JSON.parse(Buffer.from(answer?.body ?? []).toString()),
          ...answer?.header,
        });
      },
    };
    const fixture = new RunFixture(stores.store, { steps, node: options.name, clock: options.clock });
    for (const step of fixture.deployment.steps)
      step.block = {
        ...{ kind: 'call', branches: [], error: null, onError: 'fail', concurrency: 10, end: 1 },
      };
    return fixture;
  }

  async function storeCalled(fixture: RunFixture, flowControl: object | null = null): Promise<void> {
    await stores.store.transaction((tx) => insertEmitter(tx, { id: 'p_1', ownerId: 'u_1' }));
    await fixture.storeWorkflow();
    const text = flowControl === null ? null : JSON.stringify(flowControl);
    await stores.store.transaction((tx) =>
      updateWorkflow(tx, 'p_1', { flow_control: text, updated_at_ms: 1 }),
    );
  }

  /** Never resolves: the node is lost there. */
  const lost = () => new Promise<never>(() => {});

  async function requeue(runId: string): Promise<void> {
    // As the recovery of a node that counts as dead.
    await stores.store.transaction((tx) =>
      tx.updateTable('jobs').set({ state: 'queued', lease_node: null }).where('id', '=', runId).execute(),
    );
  }

  const runIds = async () =>
    (await stores.store.read.selectFrom('runs').select(['id', 'state']).orderBy('id').execute()).map(
      ({ id }) => id,
    );

  const resultOf = async (fixture: RunFixture, runId: string) => {
    await fixture.until(runId, 'succeeded');
    const { exports } = await stores.store.read
      .selectFrom('run_steps')
      .select('exports')
      .where('run_id', '=', runId)
      .executeTakeFirstOrThrow();
    return JSON.parse(exports) as { $return_value: unknown; run_id: string; state: string };
  };

  test('a call that is interrupted after the other run has ended gets its result, and runs nothing again', async () => {
    const clock = new TestClock();
    const answered = Promise.withResolvers<void>();
    const first = node({
      name: 'node_a',
      clock,
      afterCall: () => {
        answered.resolve();
        return lost();
      },
    });
    await storeCalled(first);
    await first.pool.start();
    const runId = await first.start({ n: 'caller' });
    await answered.promise;
    await waitFor(async () => (await runIds()).length === 2, { what: 'the called run' });
    await first.pool.stop(0);
    await requeue(runId);
    await using second = node({ name: 'node_b', clock });
    await second.pool.start();
    second.pool.poke();
    const result = await resultOf(second, runId);
    assert.equal(result.$return_value, 'inner');
    assert.equal(result.state, 'succeeded');
    assert.deepEqual(await runIds(), [runId, result.run_id].sort(), 'there is one run of the call');
    assert.equal(second.calls.length, 1, 'the caller alone runs there');
  });

  test('a call that is interrupted while the other run waits its turn or works waits for it', async () => {
    const clock = new TestClock();
    const begun = Promise.withResolvers<void>();
    const first = node({
      name: 'node_a',
      clock,
      inner: () => {
        begun.resolve();
        return lost();
      },
    });
    await storeCalled(first);
    await first.pool.start();
    const runId = await first.start({ n: 'caller' });
    await begun.promise;
    await waitFor(async () => (await runIds()).length === 2, { what: 'the called run' });
    await first.pool.stop(0);
    const called = (await runIds()).find((id) => id !== runId) ?? '';
    await requeue(runId);
    await requeue(called);
    const both = Promise.withResolvers<void>();
    await using second = node({
      name: 'node_b',
      clock,
      inner: async () => {
        await both.promise;
        return finished({ $return_value: 'inner' });
      },
    });
    await second.pool.start();
    second.pool.poke();
    await waitFor(() => second.calls.length === 2, { what: 'the caller and the called run' });
    both.resolve();
    const result = await resultOf(second, runId);
    assert.deepEqual([result.$return_value, result.run_id], ['inner', called]);
    assert.equal((await runIds()).length, 2);
  });

  test('a call of a workflow under flow control waits until the run has had its turn', async () => {
    const clock = new TestClock();
    await using fixture = node({ name: 'node_a', clock });
    await storeCalled(fixture, { concurrency: { limit: 1 } });
    await fixture.pool.start();
    fixture.service.flow.start();
    const runId = await fixture.start({ n: 'caller' });
    const result = await resultOf(fixture, runId);
    assert.deepEqual([result.$return_value, result.state], ['inner', 'succeeded']);
  });

  test('a call whose run waits is not over: it waits in the store, also on another node, until that run has ended', async () => {
    const clock = new TestClock();
    let isResumed = false;
    const inner: StepScript = (seen) => {
      if (isResumed) return finished({ $return_value: seen.namespace });
      isResumed = true;
      return finished({}, { flow: { kind: 'rerun', ms: 3_600_000, context: 'null', maxRetries: 1 } });
    };
    const first = node({ name: 'node_a', clock, inner });
    await storeCalled(first);
    await first.pool.start();
    const runId = await first.start({ n: 'caller' });
    const parked = await first.until(runId, 'waiting');
    assert.equal(parked.wait_kind, 'call');
    const steps = await stores.store.read
      .selectFrom('run_steps')
      .select('state')
      .where('run_id', '=', runId)
      .execute();
    assert.deepEqual(steps, [{ state: 'waiting' }]);
    await first.pool.stop(0);

    await using second = node({ name: 'node_b', clock, inner });
    await second.pool.start();
    // The caller looks, finds that the other run still waits, and waits on without another try.
    second.pass(60_000);
    await waitFor(async () => (await second.until(runId, 'waiting')).wait_until_ms !== parked.wait_until_ms, {
      what: 'the caller to have looked',
    });
    second.pass(3_600_000);
    await second.until(runId, 'succeeded');
    assert.equal((await runIds()).length, 2, 'there is one run of the call');
    const rows = await stores.store.read
      .selectFrom('run_steps')
      .select(['try', 'state', 'exports'])
      .where('run_id', '=', runId)
      .orderBy('try')
      .execute();
    assert.deepEqual(
      rows.map((row) => `${row.try} ${row.state}`),
      ['1 waiting', '2 succeeded'],
    );
    const { $return_value, state } = JSON.parse(rows[1]?.exports ?? '{}');
    assert.deepEqual([$return_value, state], ['work', 'succeeded']);
  });

  test('a caller that waits is woken by the end of the run that it called, and ends at its own time limit', async () => {
    const clock = new TestClock();
    const inner: StepScript = () => finished({}, { flow: { kind: 'suspend', ms: 86_400_000 } });
    await using only = node({ name: 'node_a', clock, inner });
    await storeCalled(only);
    await only.pool.start();
    const runId = await only.start({ n: 'caller' });
    const { wait_until_ms: untilMs } = await only.until(runId, 'waiting');
    const calledId = (await runIds()).find((id) => id !== runId) ?? '';
    const called = await only.until(calledId, 'waiting');
    await only.service.manager.cancel(called, 'by a test');
    const failed = await only.until(runId, 'failed');
    assert.ok(clock.now() < (untilMs ?? 0), 'no time has passed');
    assert.match(failed.error ?? '', /was cancelled/);

    for (const step of only.deployment.steps) step.timeoutSeconds = 600;
    const limited = await only.start({ n: 'caller' });
    await only.until(limited, 'waiting');
    only.pass(600_000);
    assert.match((await only.until(limited, 'failed')).error ?? '', /did not end within 600 seconds/);
  });
});
