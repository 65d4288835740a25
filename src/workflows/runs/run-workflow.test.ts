import assert from 'node:assert/strict';
import { test } from 'node:test';
import { must } from '#lib/assert.ts';
import { CallerError } from '#lib/errors.ts';
import type { LinkAction } from '#storage/tables/workflow-tables.ts';
import { finished, RunFixture, threw } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { insertPrepared } from './insert-prepared.ts';
import { linkPath, linkToken } from './run-link.ts';
import { stepsOfRun } from './run-step-store.ts';
import { findRun } from './run-store.ts';

const hour = 3_600_000;

forEachStore((stores) => {
  test('a failed step is tried again 8 times over about 10 hours, from that step, and then its run fails', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished({ $return_value: 1 }), b: threw('Error', 'down') },
      settings: { autoRetry: true },
    });
    const began = fixture.clock.now();
    const runId = await fixture.start();
    const waits: number[] = [];
    for (let retry = 1; retry <= 8; retry += 1) {
      const run = await fixture.until(runId, 'waiting');
      assert.equal(run.wait_kind, 'retry');
      assert.equal(run.failures, retry);
      const waitMs = Number(run.wait_until_ms) - fixture.clock.now();
      waits.push(waitMs);
      fixture.pass(waitMs);
      await waitFor(async () => (await fixture.recorded(runId)).length === retry + 2, {
        what: `try ${retry + 1}`,
      });
    }
    const failed = await fixture.until(runId, 'failed');
    assert.ok(waits.every((wait, index) => index === 0 || wait === 2 * (waits[index - 1] ?? 0)));
    const total = fixture.clock.now() - began;
    assert.ok(total > 9.5 * hour && total < 10.5 * hour, `${total / hour} hours`);
    assert.equal(fixture.calls.filter(({ namespace }) => namespace === 'a').length, 1);
    assert.equal(fixture.calls.filter(({ namespace }) => namespace === 'b').length, 9);
    assert.equal((await fixture.errors()).length, 1, 'one error event, after the last try');
    assert.equal(JSON.parse(failed.error ?? '{}').cell_id, 'c_b');
  });

  test('a secret in the context of a rerun is neither stored nor given to the next call', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: ({ context }) => {
          const { runs, context: given } = context.run as { runs: number; context?: unknown };
          if (runs > 1) return finished({ given });
          const flow = { kind: 'rerun', ms: 60_000, context: '{"key":"the-secret"}', maxRetries: 3 } as const;
          return finished({}, { flow });
        },
      },
      redact: (text) => text.replaceAll('the-secret', '[redacted]'),
    });
    const runId = await fixture.start();
    const run = await fixture.until(runId, 'waiting');
    assert.deepEqual(JSON.parse(run.resumption ?? '').run.context, { key: '[redacted]' });
    fixture.pass(60_000);
    await fixture.until(runId, 'succeeded');
    const [, last] = await stores.store.read
      .selectFrom('run_steps')
      .select('exports')
      .orderBy('try')
      .execute();
    assert.equal(last?.exports, '{"given":{"key":"[redacted]"}}');
  });

  test('a step whose end reason has characters that the store refuses runs once, and the rest of the reason is kept', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished({}, { flow: { kind: 'exit', reason: 'no \0\ud800 reason' } }) },
    });
    const run = await fixture.until(await fixture.start(), 'succeeded', 'quarantined');
    assert.match(run.reason ?? '', /^no .* reason$/u);
    assert.equal(fixture.calls.length, 1);
  });

  test('a try that is followed by another exports $attempt, with URLs to try at once or to cancel', async () => {
    const outcome = { ...threw('Error', 'down'), step: { exports: '{"a":1}', sends: [] } };
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: outcome },
      settings: { autoRetry: true },
    });
    const runId = await fixture.start();
    const run = await fixture.until(runId, 'waiting');
    const [row] = await stepsOfRun(stores.store.read, runId);
    const { $attempt, $summary, a } = JSON.parse(row?.exports ?? '');
    const resumeTs = new Date(Number(run.wait_until_ms)).toISOString();
    assert.deepEqual([a, $summary], [1, `Failed, and will be tried again at ${resumeTs}`]);
    assert.deepEqual($attempt, {
      error: { code: 'Error', msg: 'down', stack: threw('Error', 'down').error?.stack },
      cancel_url: `http://127.0.0.1/in/${linkPath(run, { position: 0, iteration: '', try: 1 }, 'cancel')}`,
      rerun_url: `http://127.0.0.1/in/${linkPath(run, { position: 0, iteration: '', try: 1 }, 'resume')}`,
      resume_ts: resumeTs,
    });
    const link = (attempt: number, action: LinkAction) => {
      const wait = { position: 0, iteration: '', try: attempt };
      return { runId, ...wait, token: linkToken(run, wait, action), request: {} };
    };
    assert.equal(await fixture.resumer.resume(link(1, 'resume')), 'done');
    await waitFor(async () => (await fixture.recorded(runId)).length === 2, { what: 'the second try' });
    await fixture.until(runId, 'waiting');
    assert.equal(await fixture.resumer.resume(link(1, 'resume')), 'done_before');
    assert.equal(await fixture.resumer.resume(link(2, 'resume')), 'done', 'each retry has its own links');
    await waitFor(async () => (await fixture.recorded(runId)).length === 3, { what: 'the third try' });
    await fixture.until(runId, 'waiting');
    assert.equal(await fixture.resumer.cancel(link(3, 'cancel')), 'done');
    await fixture.until(runId, 'cancelled');
  });

  for (const status of ['timed_out', 'out_of_memory'] as const) {
    test(`a step that ended as ${status} is not tried again`, async () => {
      await using fixture = await RunFixture.start(stores.store, {
        steps: { a: { status, error: { name: 'E', message: 'm', stack: '' } } },
        settings: { autoRetry: true },
      });
      const run = await fixture.until(await fixture.start(), 'failed', 'waiting');
      assert.equal(run.state, 'failed');
    });
  }

  test('when a process ends under several steps none is blamed: each runs again, alone', async () => {
    let calls = 0;
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: ({ request }) => {
          calls += 1;
          if (calls === 1)
            return { status: 'exited', shared: true, error: { name: 'E', message: 'm', stack: '' } };
          return finished({ alone: request.alone === true });
        },
        b: ({ steps }) =>
          calls++ < 4
            ? { status: 'cancelled', error: { name: 'E', message: 'm', stack: '', code: 'bystander' } }
            : finished(steps.a ?? {}),
      },
    });
    const runId = await fixture.start();
    await fixture.until(runId, 'succeeded');
    assert.deepEqual(await fixture.recorded(runId), ['a 1 succeeded', 'b 1 succeeded']);
    assert.deepEqual(fixture.calls.at(-1)?.steps.a, { alone: true });
  });

  test('a node that lost its lease stores nothing more of the run, and the node that has it continues', async () => {
    const gate = Promise.withResolvers<void>();
    let isFirst = true;
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: finished({ by: 'first' }),
        b: async () => {
          if (!isFirst) return finished({ by: 'second' });
          isFirst = false;
          await gate.promise;
          return finished({ by: 'first' });
        },
      },
    });
    const runId = await fixture.start();
    await waitFor(() => fixture.calls.length === 2);
    // Like the recovery of a node that counts as dead.
    await stores.store.transaction((tx) =>
      tx.updateTable('jobs').set({ state: 'queued', lease_node: null }).where('id', '=', runId).execute(),
    );
    fixture.pool.poke();
    await fixture.until(runId, 'succeeded');
    gate.resolve();
    await waitFor(() => fixture.pool.runningCount() === 0);
    const steps = await stores.store.read.selectFrom('run_steps').select(['namespace', 'exports']).execute();
    assert.deepEqual(steps.map(({ namespace, exports }) => [namespace, JSON.parse(exports).by]).sort(), [
      ['a', 'first'],
      ['b', 'second'],
    ]);
  });

  test('a run that is cancelled while a step runs ends at once, and the step leaves nothing', async () => {
    const gate = Promise.withResolvers<void>();
    let isAborted = false;
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: async (_call, { signal }) => {
          signal?.addEventListener('abort', () => {
            isAborted = true;
            gate.resolve();
          });
          await gate.promise;
          return { status: 'cancelled', error: { name: 'E', message: 'm', stack: '' } };
        },
      },
    });
    const runId = await fixture.start();
    await waitFor(() => fixture.calls.length === 1);
    await fixture.service.manager.cancel({ id: runId, workflow_id: 'p_1' }, 'by a test');
    const run = await fixture.until(runId, 'cancelled');
    assert.equal(run.reason, 'by a test');
    await waitFor(() => fixture.pool.runningCount() === 0);
    assert.ok(isAborted);
    assert.deepEqual(await fixture.recorded(runId), []);
    assert.equal((await stores.store.read.selectFrom('jobs').select('id').execute()).length, 0);
  });

  test('a run whose node died three times without a finished step is quarantined, with an error event', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    const prepared = fixture.service.starter.prepare(fixture.trigger(), { inStore: true });
    await stores.store.transaction(async (tx) => {
      await tx.insertInto('runs').values(prepared.run).execute();
    });
    const payload = { run_id: prepared.run.id, workflow_id: 'p_1' };
    await fixture.service.runs.quarantined({
      id: prepared.run.id,
      kind: 'run_workflow',
      ownerId: 'u_1',
      lane: 'p_1',
      attempts: 3,
      payload,
      bytes: 0,
      createdAtMs: 0,
    });
    await fixture.until(prepared.run.id, 'quarantined');
    const [{ error, original_context }] = await fixture.errors();
    assert.match(error.msg, /3 times/);
    assert.equal(original_context.id, prepared.run.id);
    // Like the event of a run that failed in a step: specification, section 2, Error event summary.
    const { ts, platform_version, source_type, workflow_name, hops } = original_context;
    assert.deepEqual(
      { ts, platform_version, source_type, workflow_name, hops },
      {
        ts: new Date(Number(prepared.run.created_at_ms)).toISOString(),
        platform_version: '0.0.0',
        source_type: 'HTTP',
        workflow_name: null,
        hops: null,
      },
    );
  });

  test('a finished step is progress: attempts of the job count from zero', async () => {
    const gate = Promise.withResolvers<void>();
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: finished(),
        b: async () => {
          await gate.promise;
          return finished();
        },
      },
    });
    const prepared = fixture.service.starter.prepare(fixture.trigger(), { inStore: true });
    await stores.store.transaction(async (tx) => {
      await tx.insertInto('runs').values(prepared.run).execute();
      await tx
        .insertInto('jobs')
        .values({ ...prepared.job, attempts: 2 })
        .execute();
    });
    fixture.pool.poke();
    await waitFor(() => fixture.calls.length === 2);
    const job = await stores.store.read.selectFrom('jobs').select('attempts').executeTakeFirst();
    assert.equal(job?.attempts, 1);
    gate.resolve();
    await fixture.until(prepared.run.id, 'succeeded');
  });

  test('nothing is kept of a run that must not be stored, whatever it did', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: finished({ secret: 'x' }),
        b: finished(
          {},
          {
            sends: [
              { kind: 'emit', payload: '{"event":{"sent":1},"channel":null}' },
              { kind: 'http', payload: '{}' },
            ],
          },
        ),
      },
    });
    const runId = await fixture.start({ secret: 'y' }, { noStore: true });
    await waitFor(
      async () =>
        (await stores.store.read.selectFrom('runs').select('id').execute()).length === 0 &&
        fixture.calls.length === 2 &&
        fixture.pool.runningCount() === 0,
    );
    assert.deepEqual(await fixture.recorded(runId), []);
    const events = await stores.store.read.selectFrom('events').select('event').execute();
    assert.deepEqual(events, [{ event: '{"sent":1}' }], 'what it emitted is there');
    const sends = await stores.store.read.selectFrom('run_sends').select('kind').execute();
    assert.deepEqual(sends, [{ kind: 'http' }], 'what is still to be sent stays until it was');
  });

  test('with a concurrency of 1, runs started by events follow each other in order', async () => {
    const order: string[] = [];
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: async ({ steps }) => {
          const n = (steps.trigger?.event as { n: number } | undefined)?.n;
          order.push(`begin ${n}`);
          await new Promise((resolve) => setImmediate(resolve));
          order.push(`end ${n}`);
          return finished();
        },
      },
      settings: { concurrency: 1 },
    });
    const ids = [];
    for (let n = 0; n < 5; n += 1) ids.push(await fixture.start({ n }, { sourceType: 'COMPONENT' }));
    for (const id of ids) await fixture.until(id, 'succeeded');
    assert.deepEqual(
      order,
      [0, 1, 2, 3, 4].flatMap((n) => [`begin ${n}`, `end ${n}`]),
    );
  });

  test('a throttle lets a maximum of runs begin in each window, and the others wait in the store', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished() },
      settings: { throttle: { limit: 2, seconds: 60 } },
    });
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) ids.push(await fixture.start({ n }, { sourceType: 'COMPONENT' }));
    const request = await fixture.start({}, { sourceType: 'HTTP' });
    await fixture.until(request, 'succeeded');
    const ended = async () =>
      (
        await Promise.all(
          ids.map(async (id) => (await fixture.until(id, 'queued', 'running', 'succeeded')).state),
        )
      ).filter((state) => state === 'succeeded').length;
    await waitFor(async () => (await ended()) === 2 && fixture.pool.runningCount() === 0);
    fixture.pass(60_000);
    await waitFor(async () => (await ended()) === 4 && fixture.pool.runningCount() === 0);
    fixture.pass(60_000);
    await waitFor(async () => (await ended()) === 5);
  });

  test('a run that ends before its start was written is stored as started, so a throttle counts it', async () => {
    const { store } = stores;
    const gates = [0, 1].map(() => Promise.withResolvers<void>());
    let loads = 0;
    const secondMayLoad = Promise.withResolvers<void>();
    await using fixture: RunFixture = await RunFixture.start(store, {
      steps: {
        a: async ({ steps }) => {
          const { n } = (steps.trigger?.event ?? {}) as { n?: number };
          await gates[n ?? 0]?.promise;
          return finished();
        },
      },
      deployments: {
        get: async () => {
          loads += 1;
          if (loads === 2) await secondMayLoad.promise;
          return fixture.deployment;
        },
      },
    });
    const start = async (n: number) => {
      const { run, job } = fixture.service.starter.prepare(fixture.trigger({ n }), { inStore: true });
      await store.transaction(async (tx) => {
        await tx.insertInto('runs').values(run).execute();
        await tx.insertInto('jobs').values(job).execute();
      });
      fixture.pool.poke();
      await waitFor(() => loads === n + 1);
      return run.id;
    };
    const first = await start(0);
    await fixture.until(first, 'running');
    const second = await start(1);
    // While one batch is under way the next one gets the end of the first run, then the begin and the end of the second.
    const blocked = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const blocking = store.writes.submit(
      {
        name: 'block',
        run: async () => {
          blocked.resolve();
          await goOn.promise;
          return [undefined];
        },
      },
      undefined,
    );
    await blocked.promise;
    gates[0]?.resolve();
    await waitFor(() => store.writes.counts().pending === 1);
    secondMayLoad.resolve();
    gates[1]?.resolve();
    await waitFor(() => store.writes.counts().pending === 3);
    goOn.resolve();
    await blocking;
    for (const id of [first, second]) {
      const { started_at_ms } = await fixture.until(id, 'succeeded');
      assert.equal(started_at_ms, fixture.clock.now());
    }
  });

  test('what leaves a step is redacted before it is stored and before later steps get it', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: {
          ...finished(
            { token: 'canary-1' },
            { input: '{"key":"canary-1"}', sends: [{ kind: 'http', payload: '{"url":"canary-1"}' }] },
          ),
          logs: [{ ts: 1, level: 'log', message: 'canary-1' }],
        },
        b: threw('canary-1 Error', 'failed with canary-1'),
      },
      redact: (text) => text.replaceAll('canary-1', '[redacted]'),
    });
    const runId = await fixture.start();
    const { error } = await fixture.until(runId, 'failed');
    const { code, msg, stack } = JSON.parse(error ?? '{}');
    assert.deepEqual([code, msg], ['[redacted] Error', 'failed with [redacted]']);
    assert.match(stack, /^\[redacted\] Error: failed with \[redacted\]\n/);
    assert.deepEqual(fixture.calls.at(-1)?.steps.a, { token: '[redacted]' });
    const everything = JSON.stringify([
      await stores.store.read.selectFrom('runs').selectAll().execute(),
      await stores.store.read.selectFrom('run_steps').selectAll().execute(),
      await stores.store.read.selectFrom('run_sends').selectAll().execute(),
      await stores.store.read.selectFrom('events').selectAll().execute(),
    ]);
    assert.ok(everything.includes('[redacted]'));
    assert.ok(!everything.includes('canary-1'));
  });

  test('the reason that a step gives for the end of its run is redacted', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished({}, { flow: { kind: 'exit', reason: 'no entry for canary-1' } }) },
      redact: (text) => text.replaceAll('canary-1', '[redacted]'),
    });
    const run = await fixture.until(await fixture.start(), 'succeeded');
    assert.equal(run.reason, 'no entry for [redacted]');
  });

  test('an error that code leaves behind after its steps is reported without secrets, and names no run', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished() },
      redact: (text) => text.replaceAll('canary-1', '[redacted]'),
    });
    const error = { name: 'canary-1 Error', message: 'no canary-1', stack: 'at canary-1' };
    await fixture.service.unattributedError('d_1', error);
    const [event] = await fixture.errors();
    const { code, msg, stack } = event.error;
    assert.deepEqual([code, msg, stack], ['[redacted] Error', 'no [redacted]', 'at [redacted]']);
    assert.equal(event.original_context.id, undefined);
    const stored = await stores.store.read.selectFrom('events').selectAll().execute();
    assert.doesNotMatch(JSON.stringify(stored), /canary-1/);
  });

  test('event, exports and logs beyond 6 MB together fail the step that brings them', async () => {
    const big = 'x'.repeat(3_500_000);
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished({ big }), b: finished({ big }) },
    });
    const run = await fixture.until(await fixture.start(), 'failed');
    const error = JSON.parse(run.error ?? '{}');
    assert.equal(error.code, 'Function Payload Limit Exceeded');
    assert.match(error.msg, /step b/);
  });

  test('a workflow whose account was deleted fails its runs with the reason', async () => {
    const deployments = {
      get: () => Promise.reject(new CallerError('not_found', 'step a: no account "apn_1"')),
    };
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() }, deployments });
    const run = await fixture.until(await fixture.start({ n: 1 }), 'failed');
    const error = JSON.parse(run.error ?? '{}');
    assert.deepEqual([error.code, error.msg], ['ConfigurationError', 'step a: no account "apn_1"']);
    assert.deepEqual((await fixture.errors())[0].original_event, { n: 1 });
  });

  test('a run of a workflow that was deleted meanwhile is dropped, and is no failure', async () => {
    const deployments = {
      get: () => Promise.reject(new CallerError('not_found', 'workflow p_1 was deleted', { id: 'p_1' })),
    };
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() }, deployments });
    const runId = await fixture.start();
    const jobsLeft = () => fixture.store.read.selectFrom('jobs').select('id').execute();
    await waitFor(async () => (await jobsLeft()).length === 0, { what: 'its job to be gone' });
    const { ended_at_ms } = must(await findRun(fixture.store.read, runId), 'its run');
    assert.equal(ended_at_ms, null, 'the removal of the workflow takes it');
    assert.deepEqual(await fixture.errors(), []);
    assert.deepEqual(await fixture.store.read.selectFrom('health').selectAll().execute(), []);
  });

  test('credentials that end during a run are asked for again before its next step', async () => {
    let given = 0;
    await using fixture: RunFixture = await RunFixture.start(stores.store, {
      steps: {
        a: () => {
          fixture.clock.step(1000);
          return finished({});
        },
        b: finished({}),
      },
      deployments: {
        get: async () => {
          given += 1;
          const freshUntilMs = given === 1 ? fixture.clock.now() + 500 : null;
          return { ...fixture.deployment, revision: `token ${given}`, freshUntilMs };
        },
      },
    });
    await fixture.until(await fixture.start(), 'succeeded');
    assert.deepEqual(
      fixture.calls.map(({ request }) => request.revision),
      ['token 1', 'token 2'],
    );
  });

  test('a run whose account died meanwhile fails at its next step, and says why', async () => {
    let given = 0;
    await using fixture: RunFixture = await RunFixture.start(stores.store, {
      steps: {
        a: () => {
          fixture.clock.step(1000);
          return finished({});
        },
        b: finished({}),
      },
      deployments: {
        get: async () => {
          given += 1;
          if (given > 1) throw new CallerError('account_dead', 'account apn_1 has to be connected again');
          return { ...fixture.deployment, freshUntilMs: fixture.clock.now() + 500 };
        },
      },
    });
    const run = await fixture.until(await fixture.start(), 'failed');
    assert.match(run.error ?? '', /account apn_1 has to be connected again/);
    assert.deepEqual(
      fixture.calls.map(({ namespace }) => namespace),
      ['a'],
    );
  });

  test('over an enforced quota a run fails with Quota Exceeded', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    fixture.mayRun = false;
    const run = await fixture.until(await fixture.start(), 'failed');
    assert.equal(JSON.parse(run.error ?? '{}').code, 'Quota Exceeded');
    assert.equal(fixture.calls.length, 0);
    assert.equal((await fixture.errors())[0].error.code, 'Quota Exceeded');
  });

  test('a run that has begun ends after the loss of its node, also when a quota was used up meanwhile', async () => {
    const gate = Promise.withResolvers<void>();
    let calls = 0;
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: finished(),
        b: async () => {
          calls += 1;
          if (calls === 1) await gate.promise;
          return finished();
        },
      },
    });
    const runId = await fixture.start();
    await waitFor(() => calls === 1);
    fixture.mayRun = false;
    // Like the recovery of a node that counts as dead.
    await stores.store.transaction((tx) =>
      tx.updateTable('jobs').set({ state: 'queued', lease_node: null }).where('id', '=', runId).execute(),
    );
    fixture.pool.poke();
    await fixture.until(runId, 'succeeded');
    gate.resolve();
    await waitFor(() => fixture.pool.runningCount() === 0);
    assert.deepEqual(await fixture.recorded(runId), ['a 1 succeeded', 'b 1 succeeded']);
  });

  test('a suspended run is a row and a job that is not due: a year costs nothing', async () => {
    const year = 365 * 86_400_000;
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: finished({}, { flow: { kind: 'suspend', ms: year } }), b: finished() },
    });
    const runId = await fixture.start();
    const run = await fixture.until(runId, 'waiting');
    await waitFor(() => fixture.pool.runningCount() === 0);
    const job = await stores.store.read
      .selectFrom('jobs')
      .select(['state', 'run_at_ms', 'attempts'])
      .executeTakeFirst();
    assert.deepEqual(job, { state: 'queued', run_at_ms: fixture.clock.now() + year, attempts: 0 });
    fixture.pass(year - 1000);
    const request = { body: { ok: true } };
    const wait = { position: 0, iteration: '', try: 1 };
    assert.equal(
      await fixture.resumer.resume({
        runId,
        ...wait,
        token: linkToken(run, wait, 'resume'),
        request,
      }),
      'done',
    );
    await fixture.until(runId, 'succeeded');
    assert.deepEqual(fixture.calls.at(-1)?.steps.a, { $resume_data: request });
  });

  test('each part of a run counts at least one credit, and the run one invocation', async () => {
    await using fixture = await RunFixture.start(stores.store, {
      steps: {
        a: { ...finished({}, { flow: { kind: 'delay', ms: 5_000 } }), durationMs: 31_000 },
        b: finished(),
      },
    });
    const runId = await fixture.start();
    await fixture.until(runId, 'waiting');
    fixture.pass(5_000);
    await fixture.until(runId, 'succeeded');
    const usage = await stores.store.read
      .selectFrom('usage_days')
      .select(['invocations', 'compute_ms', 'credits'])
      .executeTakeFirst();
    assert.deepEqual(usage, { invocations: 1, compute_ms: 31_005, credits: 3 });
  });

  test('a run whose caller is gone keeps its answer for the request that is repeated; of a run that must not be stored, only the status', async () => {
    const kept: unknown[] = [];
    const reply = { status: 201, headers: {}, body: Buffer.from('a') };
    await using fixture = await RunFixture.start(stores.store, {
      steps: { a: { ...finished(), response: reply } },
      keptAnswers: {
        record: async (key, answer, options) => void kept.push({ key, kind: answer.kind, ...options }),
      },
    });
    for (const noStore of [false, true]) {
      const { run, job } = fixture.service.starter.prepare(fixture.trigger({}, { noStore }), {
        inStore: true,
      });
      // The state that a node leaves which died while the caller waited.
      const payload = JSON.stringify({ ...JSON.parse(job.payload), key_id: 'k' });
      await stores.store.transaction((tx) =>
        insertPrepared(stores.store, tx, [{ run, job: { ...job, payload }, stored: () => {} }]),
      );
      fixture.pool.poke();
      await waitFor(() => kept.length > 0);
      const key = { id: 'k', jobId: run.id, ownerId: 'u_1' };
      assert.deepEqual(kept.splice(0), [{ key, kind: 'responded', isPrivate: noStore }]);
    }
  });
});
