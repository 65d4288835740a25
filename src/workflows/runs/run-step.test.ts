import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CallOutcome } from '#runner/call-outcome.ts';
import type { Runner } from '#runner/runner.ts';
import type { Db } from '#storage/store.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { LiveRun } from './live-run.ts';
import { StepRunner } from './run-step.ts';

test('what a step still waits for in the service is given up when the step has ended', async () => {
  const signals: AbortSignal[] = [];
  const runner: Pick<Runner, 'call'> = {
    async call(_request, options) {
      // As two calls that the step has not waited for.
      for (const kind of ['trigger_workflow', 'file'])
        void options?.onHostCall?.({ kind, header: {}, body: Buffer.of() });
      assert.deepEqual(
        signals.map(({ aborted }) => aborted),
        [false, false],
      );
      return { status: 'finished', durationMs: 1, dbSets: {}, logs: [], emits: [] } as unknown as CallOutcome;
    },
  };
  const steps = new StepRunner({
    db: undefined as unknown as Db,
    runner,
    clock: new TestClock(),
    inboundUrl: () => 'http://127.0.0.1/in',
    hostCalls: (_live, _call, { signal }) => {
      signals.push(signal);
      return new Promise(() => {});
    },
  });
  const step = { id: 'c_a', namespace: 'a', disabled: false, bundle: {}, definitions: [], props: {} };
  const live = new LiveRun({
    run: {
      ...{ id: 'r_1', owner_id: 'u_1', workflow_id: 'p_1', token: 't', event: '{}', failures: 0 },
      ...{ wait_kind: null, started_at_ms: null, created_at_ms: 1, source_type: 'HTTP', no_store: 0 },
    } as RunTable,
    job: { attempts: 1 },
    deployment: { id: 'd_1', steps: [step], settings: {}, variables: {}, redact: (text: string) => text },
    unpersisted: undefined,
    ...{ steps: [], sends: [], surroundings: { platformVersion: '0' } },
  } as unknown as ConstructorParameters<typeof LiveRun>[0]);
  await steps.run(
    live,
    { strand: live.main, step: live.stepAt(0), position: 0 },
    { signal: new AbortController().signal, onRespond: () => {} },
  );
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    [true, true],
  );
});
