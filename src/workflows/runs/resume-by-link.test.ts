import assert from 'node:assert/strict';
import { test } from 'node:test';
import { must } from '#lib/assert.ts';
import type { LinkAction } from '#storage/tables/workflow-tables.ts';
import { finished, RunFixture, threw } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { LinkOutcome, LinkRequest } from './resume-by-link.ts';
import { linkToken } from './run-link.ts';
import { endedTriesOf, stepsOfRun } from './run-step-store.ts';
import { findRun, markRunning } from './run-store.ts';

const hour = 3_600_000;
const firstStep = { position: 0, iteration: '' };

forEachStore((stores) => {
  /** A request to a link of the run's first step; of its last try, where the links are not those of another one. */
  const requestTo = async (
    runId: string,
    request: object = {},
    link: { action?: LinkAction; try?: number } = {},
  ): Promise<LinkRequest> => {
    const run = must(await findRun(stores.store.read, runId), 'the run');
    const ended = await endedTriesOf(stores.store.read, runId, firstStep);
    const wait = { ...firstStep, try: link.try ?? Math.max(1, ...ended) };
    return { runId, ...wait, token: linkToken(run, wait, link.action ?? 'resume'), request };
  };
  const cancelling = { action: 'cancel' } as const;
  const rerun = { flow: { kind: 'rerun', ms: hour, context: '{}', maxRetries: 9 } } as const;
  const suspend = { flow: { kind: 'suspend', ms: hour } } as const;

  test('a callback that comes before its step has ended counts once: the next rerun waits its time', async () => {
    const gate = Promise.withResolvers<void>();
    const seen: unknown[] = [];
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: async ({ context }) => {
          seen.push((context.run as { callback_request?: unknown }).callback_request);
          if (seen.length === 1) await gate.promise;
          return finished({}, rerun);
        },
      },
    });
    const runId = await fixture.start();
    await waitFor(() => seen.length === 1);
    const { resumer } = fixture;
    assert.equal(await resumer.resume(await requestTo(runId, { n: 1 })), 'waiting_for_step');
    assert.equal(
      await resumer.resume(await requestTo(runId, { n: 2 })),
      'done_before',
      'the first one counts',
    );
    assert.equal(await resumer.cancel(await requestTo(runId, {}, cancelling)), 'other_done');
    gate.resolve();
    await waitFor(() => seen.length === 2, { what: 'the rerun' });
    await waitFor(() => fixture.pool.runningCount() === 0);
    fixture.pool.poke();
    const run = await fixture.until(runId, 'waiting');
    assert.equal(run.wait_until_ms, fixture.clock.now() + hour);
    const job = await stores.store.read.selectFrom('jobs').selectAll().executeTakeFirst();
    assert.equal(job?.run_at_ms, fixture.clock.now() + hour);
    assert.deepEqual(seen, [undefined, { n: 1 }]);
    assert.equal(await resumer.resume(await requestTo(runId, { n: 3 })), 'done');
    await waitFor(() => seen.length === 3, { what: 'the second rerun' });
    assert.deepEqual(seen[2], { n: 3 });
  });

  test('a step that fails after its callback is tried again after the pause, not at once', async () => {
    const gate = Promise.withResolvers<void>();
    let calls = 0;
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: async () => {
          calls += 1;
          if (calls > 1) return threw('Error', 'down');
          await gate.promise;
          return finished({}, rerun);
        },
      },
      settings: { autoRetry: true },
    });
    const runId = await fixture.start();
    await waitFor(() => calls === 1);
    await fixture.resumer.resume(await requestTo(runId));
    gate.resolve();
    await waitFor(async () => (await findRun(stores.store.read, runId))?.failures === 1);
    const job = await stores.store.read.selectFrom('jobs').selectAll().executeTakeFirst();
    assert.ok(Number(job?.run_at_ms) > fixture.clock.now());
  });

  test('a secret in the request that resumes a run is neither recorded nor given to the next step', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: ({ steps }) => finished(steps.trigger?.event as object, suspend), b: finished() },
      redact: (text) => text.replaceAll('the-secret', '[redacted]'),
    });
    // The record of the step has exports before the request comes, or has none.
    for (const exports of [{}, { n: 1 }]) {
      const runId = await fixture.start(exports);
      await fixture.until(runId, 'waiting');
      const request = { method: 'POST', body: { key: 'the-secret' } };
      assert.equal(await fixture.resumer.resume(await requestTo(runId, request)), 'done');
      await fixture.until(runId, 'succeeded');
      const kept = { ...exports, $resume_data: { method: 'POST', body: { key: '[redacted]' } } };
      const [, resumed] = await stepsOfRun(stores.store.read, runId);
      assert.deepEqual(JSON.parse(resumed?.exports ?? ''), kept);
      assert.deepEqual(fixture.calls.at(-1)?.steps.a, kept);
      const everything = JSON.stringify([
        await findRun(stores.store.read, runId),
        await stepsOfRun(stores.store.read, runId),
        await stores.store.read.selectFrom('run_resumes').selectAll().execute(),
        await stores.store.read.selectFrom('events').selectAll().execute(),
      ]);
      assert.doesNotMatch(everything, /the-secret/);
    }
  });

  test('once the time of a suspended run has come it cannot be resumed, nor is a success answered', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished({}, suspend) } });
    const runId = await fixture.start();
    await fixture.until(runId, 'waiting');
    await waitFor(() => fixture.pool.runningCount() === 0);
    // As a worker has it that has claimed it just now, and is about to end it.
    await stores.store.transaction((tx) =>
      tx.updateTable('jobs').set({ state: 'running', lease_node: 'other' }).execute(),
    );
    const { resumer } = fixture;
    assert.equal(await resumer.resume(await requestTo(runId)), 'over');
    assert.equal(await resumer.cancel(await requestTo(runId, {}, cancelling)), 'over');
  });

  test('of resume and cancel at the same moment one counts, and the other is answered so', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished({}, suspend), b: finished() },
    });
    for (let round = 0; round < 10; round += 1) {
      const runId = await fixture.start();
      await fixture.until(runId, 'waiting');
      const request = await requestTo(runId);
      const toCancel = await requestTo(runId, {}, cancelling);
      const { resumer } = fixture;
      const calls = [resumer.resume(request), resumer.cancel(toCancel), resumer.resume(request)];
      if (round % 2 === 1) calls.reverse();
      const outcomes = await Promise.all(calls);
      if (round % 2 === 1) outcomes.reverse();
      const wasCancelled = outcomes[1] === 'done';
      const expected: LinkOutcome[] = wasCancelled
        ? ['done', 'other_done', 'other_done']
        : ['done', 'done_before', 'other_done'];
      assert.deepEqual(outcomes.toSorted(), expected);
      await fixture.until(runId, wasCancelled ? 'cancelled' : 'succeeded');
    }
  });

  test('links of one owner are taken one after the other, and those that were used before in no transaction', async () => {
    const { store } = stores;
    await using fixture = await RunFixture.start(store, {
      steps: { a: finished({}, suspend), b: finished() },
    });
    const ids = await Promise.all(Array.from({ length: 20 }, () => fixture.start()));
    for (const id of ids) await fixture.until(id, 'waiting');
    const requests = await Promise.all(ids.map((id) => requestTo(id)));
    const { transaction } = store;
    let underWay = 0;
    let most = 0;
    store.transaction = async (work) => {
      underWay += 1;
      most = Math.max(most, underWay);
      return transaction(work).finally(() => {
        underWay -= 1;
      });
    };
    try {
      const outcomes = await Promise.all(requests.map((request) => fixture.resumer.resume(request)));
      assert.deepEqual(new Set(outcomes), new Set(['done']));
      // The commits and claims of the runs that continue come beside it.
      assert.ok(most <= 8, `${most} transactions at once`);
      for (const id of ids) await fixture.until(id, 'succeeded');
      store.transaction = () => Promise.reject(new Error('a transaction'));
      const again = await Promise.all(requests.map((request) => fixture.resumer.resume(request)));
      assert.deepEqual(new Set(again), new Set(['done_before']));
    } finally {
      store.transaction = transaction;
    }
  });

  test('a node that was frozen as it began says nothing of a run that waits again', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished({}, suspend), b: finished() },
    });
    const runId = await fixture.start();
    await fixture.until(runId, 'waiting');
    const late = { node: 'frozen', jobs: [{ id: runId, attempts: 1 }], nowMs: 1 };
    await stores.store.transaction((tx) => markRunning(stores.store, tx, late));
    assert.equal((await findRun(stores.store.read, runId))?.state, 'waiting');
    assert.equal(await fixture.resumer.resume(await requestTo(runId)), 'done');
    await fixture.until(runId, 'succeeded');
  });

  test('a link passes its own wait and no other: not another step, another try, or the other action', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished({}, suspend), b: finished({}, suspend) },
    });
    const { resumer } = fixture;
    const runId = await fixture.start();
    await fixture.until(runId, 'waiting');
    const first = await requestTo(runId);
    const ofSecond = { ...first, position: 1 };
    assert.equal(await resumer.resume(ofSecond), 'unknown', 'before the second wait has begun');
    assert.equal(await resumer.resume({ ...first, try: 2 }), 'unknown');
    assert.equal(await resumer.cancel(first), 'unknown');
    assert.equal(await resumer.resume(first), 'done');
    await waitFor(async () => (await findRun(stores.store.read, runId))?.position === 1);
    await fixture.until(runId, 'waiting');
    assert.equal(await resumer.resume(ofSecond), 'unknown', 'when it has begun');
    assert.equal(await resumer.cancel(ofSecond), 'unknown');
    assert.equal(await resumer.resume(first), 'done_before');
    assert.equal((await fixture.until(runId, 'waiting')).position, 1, 'a used link does nothing twice');
    assert.equal(await resumer.cancel(await requestTo(runId, {}, { ...cancelling, try: 1 })), 'other_done');
    const run = must(await findRun(stores.store.read, runId), 'the run');
    const wait = { position: 1, iteration: '', try: 1 };
    const cancel = { runId, ...wait, token: linkToken(run, wait, 'cancel'), request: {} };
    assert.equal(await resumer.cancel(cancel), 'done');
    await fixture.until(runId, 'cancelled');
    assert.deepEqual(
      [await resumer.cancel(cancel), await resumer.resume(first)],
      ['done_before', 'done_before'],
      'also when the run is over',
    );
  });

  test('a link that was used before its step failed has resumed nothing: it begins the next try, or ends the run', async () => {
    const gate = Promise.withResolvers<void>();
    let calls = 0;
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: async () => {
          calls += 1;
          await gate.promise;
          return threw('Error', 'down');
        },
      },
      settings: { autoRetry: true },
    });
    const runId = await fixture.start();
    await waitFor(() => calls === 1);
    const { resumer } = fixture;
    assert.equal(await resumer.resume(await requestTo(runId)), 'waiting_for_step');
    gate.resolve();
    await fixture.until(runId, 'waiting');
    assert.equal(calls, 1);
    assert.equal(await resumer.resume(await requestTo(runId)), 'done');
    await waitFor(async () => (await endedTriesOf(stores.store.read, runId, firstStep)).length === 2);
    await fixture.until(runId, 'waiting');
    assert.equal(await resumer.cancel(await requestTo(runId, {}, cancelling)), 'done');
    await fixture.until(runId, 'cancelled');
  });

  test('a run that was cancelled while a step of it ran that then fails is not tried again', async () => {
    const gate = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: async () => {
          begun.resolve();
          await gate.promise;
          return threw('Error', 'down');
        },
      },
      settings: { autoRetry: true },
    });
    const runId = await fixture.start();
    await begun.promise;
    assert.equal(await fixture.resumer.cancel(await requestTo(runId, {}, cancelling)), 'waiting_for_step');
    gate.resolve();
    await fixture.until(runId, 'cancelled');
    assert.equal(fixture.calls.length, 1);
  });
});
