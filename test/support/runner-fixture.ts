/** What tests of the runner share: a runner with real processes, and deployments made from source text. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chmod, glob, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { AddressPolicy } from '#egress/address-policy.ts';

import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import type { CallOutcome } from '#runner/call-outcome.ts';
import { createProcessRunner, type ProcessRunnerOptions } from '#runner/process-runner.ts';
import type { Bundle, CallOptions, CallRequest, DescribeOutcome, Runner, StepCall } from '#runner/runner.ts';
import type { RunnerLimits } from '#runner/runner-limits.ts';
import { levelOfTests } from './sandbox-level.ts';

export interface RunnerFixture {
  runner: Runner;
  folder: string;
  /** Calls a deployment; the source text is the whole bundle. */
  call(source: string, overrides?: Partial<CallRequest>, options?: CallOptions): Promise<CallOutcome>;
  /** Wraps a body into a component with a db, and runs it in a deployment of its own. */
  run(body: string, overrides?: Partial<CallRequest>, options?: CallOptions): Promise<CallOutcome>;
  /** As `run`, in one process for all bodies: for what neither ends its process nor changes it for others. */
  evaluate(body: string, overrides?: Partial<CallRequest>, options?: CallOptions): Promise<CallOutcome>;
  /** Runs a step whose `run({ steps, $ })` is `body`: a module of its own, in one process for all steps. */
  step(body: string, overrides?: Partial<CallRequest>, options?: CallOptions): Promise<CallOutcome>;
  describe(source: string, format?: Bundle['format']): Promise<DescribeOutcome>;
  close(): Promise<void>;
}

/**
 * No process is started ahead of need, and none is replaced, nor a call refused, because the machine is too busy; tests of
 * any of these say so.
 */
const fixtureLimits: Partial<RunnerLimits> = { prewarmed: 0, unresponsiveMs: 60_000, waitMs: 600_000 };

export async function startRunnerFixture(
  overrides: Omit<Partial<ProcessRunnerOptions>, 'folder'> = {},
): Promise<RunnerFixture> {
  const level = levelOfTests();
  const folder = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  // As root, processes run as other users, who must be able to pass through.
  await chmod(folder, 0o711);
  const runner = await createProcessRunner({
    level: level === 'kernel' ? 'require' : level,
    policy: new AddressPolicy({ allow: ['public'], deny: () => [] }),
    folder,
    logger: silentLogger,
    clock: systemClock,
    ...overrides,
    limits: { ...fixtureLimits, ...overrides.limits },
  }).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true });
    throw error;
  });
  if (overrides.level === undefined) assert.equal(runner.stats().level, level);
  let deployments = 0;
  let modules = 0;
  const call: RunnerFixture['call'] = (source, callOverrides, options) => {
    deployments += 1;
    return runner.call(requestFor(source, { deploymentId: `dc_${deployments}`, ...callOverrides }), options);
  };
  return {
    runner,
    folder,
    call,
    run: (body, callOverrides, options) => call(componentWith(body), callOverrides, options),
    evaluate: (body, callOverrides, options) =>
      call(
        evaluator,
        {
          deploymentId: 'dc_evaluator',
          call: { kind: 'run', event: JSON.stringify({ body }) },
          ...callOverrides,
        },
        options,
      ),
    step: (body, stepOverrides, options) => {
      modules += 1;
      const place = { deploymentId: 'd_steps', module: `c_${modules}` };
      return runner.call(stepRequest(actionWith(body), { ...place, ...stepOverrides }), options);
    },
    describe: (source, format = 'cjs') =>
      runner.describe({ bundle: bundleOf(source, format), ownerId: 'u_test' }),
    close: async () => {
      await runner.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** An action whose `run({ steps, $ })` is `body`; `props` is source text of its definitions. */
export function actionWith(body: string, props = '{}'): string {
  return `module.exports = { props: ${props}, async run({ steps, $ }) { ${body} } };`;
}

/** A call of a step of a workflow; the source text is the whole bundle. */
export function stepRequest(source: string, overrides: Partial<CallRequest> = {}): CallRequest {
  return requestFor(source, {
    deploymentId: 'd_test',
    module: 'c_1',
    call: stepCall(),
    props: {},
    ...overrides,
  });
}

export function stepCall(overrides: Partial<StepCall> = {}): StepCall {
  return {
    kind: 'step',
    steps: '{"trigger":{"event":{"a":1},"context":{}}}',
    context: '{"id":"r_1","workflow_id":"p_1","trace_id":"t_1"}',
    resumeUrl: 'https://example.com/in/resume',
    cancelUrl: 'https://example.com/in/cancel',
    scratch: 'r_1',
    ...overrides,
  };
}

/** The exports of a step that finished. */
export function exportsOf(outcome: CallOutcome): Record<string, unknown> {
  if (outcome.status !== 'finished')
    throw new Error(`the step ended as ${outcome.status}: ${JSON.stringify(outcome.error)}`);
  return JSON.parse(outcome.step?.exports ?? 'null') as Record<string, unknown>;
}

export function bundleOf(code: string, format: Bundle['format'] = 'cjs'): Bundle {
  return { hash: createHash('sha256').update(code).digest('hex'), code, format };
}

const evaluator = componentWith(
  `const AsyncFunction = (async () => {}).constructor; return new AsyncFunction('require', event.body).call(this, require);`,
);

/** The process of user code that has set this title, by its pid outside. */
export async function pidTitled(fixture: RunnerFixture, title: string): Promise<number> {
  for (const pid of await processesOf(fixture)) {
    const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
    if (name.trim() === title) return pid;
  }
  throw new Error(`no process has the title ${title}`);
}

/** The processes that a runner says it has; at the kernel level bubblewrap is one more for each. */
export async function processesOf({ folder }: RunnerFixture): Promise<number[]> {
  const [list] = await Array.fromAsync(glob(join(folder, 'run-*', 'processes')));
  const names = list === undefined ? [] : await readdir(list).catch(() => []);
  return names.map((name) => Number(name.split('-')[0]));
}

/** A component whose `run(event)` is `body`, with a db and an http interface. */
export function componentWith(body: string): string {
  return `module.exports = { props: { db: '$.service.db', http: '$.interface.http' }, async run(event) { ${body} } };`;
}

export function requestFor(source: string, overrides: Partial<CallRequest> = {}): CallRequest {
  const { deploymentId = 'dc_test' } = overrides;
  return {
    deploymentId,
    // Each deployment is alone in its trust domain, unless a test names the owner of several.
    ownerId: `u_of_${deploymentId}`,
    bundle: bundleOf(source),
    revision: 1,
    call: { kind: 'run', event: '{}' },
    props: { http: { endpoint: 'https://example.com/abc' } },
    db: {},
    deadlineMs: 20_000,
    ...overrides,
  };
}

/** The value a call returned. */
export function resultOf(outcome: CallOutcome): unknown {
  if (outcome.status !== 'finished')
    throw new Error(`the call ended as ${outcome.status}: ${JSON.stringify(outcome.error)}`);
  return outcome.result === undefined ? undefined : JSON.parse(outcome.result);
}
