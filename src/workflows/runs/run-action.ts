import type { ComponentShape } from '#components/component-shape.ts';
import type { ConfiguredProps } from '#components/validate-props.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import { usageOf } from '#metering/invocation-usage.ts';
import type { ShareObserver } from '#metering/share-records.ts';
import { addUsage } from '#metering/usage-store.ts';
import type { ComponentOwner, ComponentResolver } from '#registry/resolve-component.ts';
import type { HttpReply, LogLine } from '#runner/call-outcome.ts';
import type { Runner } from '#runner/runner.ts';
import { refuseMasked } from '#sources/source-props.ts';
import type { Store } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { SendKind } from '#storage/tables/workflow-tables.ts';
import type { OpenVariables } from '#user-data/variables/variables.ts';
import { bothRedactors, makeRedactor } from '#vault/redact.ts';
import { redactLarge } from '#vault/redact-large.ts';
import { requireRunnable, StepConfigurer, type StepSubject } from '#workflows/definitions/configure-step.ts';
import type { WorkflowContext } from '#workflows/definitions/load-deployment.ts';
import type { OpenedStep } from '#workflows/definitions/load-step.ts';
import { type LoadedDeployment, packagesOf } from '#workflows/definitions/loaded-deployment.ts';
import { defaultWorkflowSettings } from '#workflows/definitions/workflow-definition.ts';
import type { SendOutcome } from '#workflows/sends/run-send.ts';
import type { RunSends } from '#workflows/sends/send-from-run.ts';
import { ActionSlots } from './action-slots.ts';
import { detachedRun } from './detached-run.ts';
import { type HttpAnswer, httpAnswer } from './http-answer.ts';
import type { StepResult, StepRunner } from './run-step.ts';

/** What additionalProps may take; the action itself takes what a step takes. */
const additionalPropsMs = 30_000;
/** What was stopped gets this long to count its use and to be answered. */
const lastAnswersMs = 500;

export interface ActionInput {
  /** Key, key@version, sc_… or URL; absent with `code`. */
  id?: string;
  code?: string;
  configuredProps: ConfiguredProps;
  /** Longest it may take; absent: what steps may. */
  timeoutSeconds?: number | null;
}

/** A line of what an action did, in the shape of the original (platform facts, 3.5): `k` is the kind, `ts` epoch ms. */
export type Observation =
  | { k: 'log'; ts: number; level: LogLine['level']; msg: string }
  | { k: 'error'; ts: number; err: { name: string; message: string; stack: string } };

/** The outcome of one run of an action; all of it is redacted. */
export interface ActionResult {
  component: Pick<ComponentTable, 'id' | 'component_key' | 'version'>;
  /** Without what it returned. */
  exports: Record<string, unknown>;
  /** What it returned; null when that is nothing, or it failed. */
  ret: unknown;
  /** Its log lines, then its error, if it failed. */
  os: Observation[];
  /** Milliseconds in its code. */
  duration: number;
  /** `$.flow.exit` was called. */
  exit: { reason: string | null } | null;
  /** The answer of `$.respond`, its body as text. */
  response: HttpAnswer | null;
  /** What it sent with `$.send`, in order. */
  sends: ({ kind: SendKind } & SendOutcome)[];
}

export interface ActionRunnerOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  resolver: Pick<ComponentResolver, 'resolve' | 'resolveText'>;
  steps: StepRunner;
  runner: Pick<Runner, 'call' | 'forget'>;
  sends: Pick<RunSends, 'sendNow'>;
  context: WorkflowContext;
  /** Throws CallerError `quota_exceeded`. */
  admit: (ownerId: string) => void;
  platformVersion: string;
  /** Learns which owner has too many under way. */
  shares?: ShareObserver;
}

/** Runs one action by itself, like a step, and waits for its outcome. Only its usage is stored. */
export class ActionRunner {
  readonly #options: ActionRunnerOptions;
  readonly #slots: ActionSlots;
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  #isStopping = false;

  constructor(options: ActionRunnerOptions) {
    this.#options = options;
    this.#slots = new ActionSlots(options.clock, options.shares);
  }

  /**
   * Throws what keeps the action from running: CallerError for a component or props that cannot be used,
   * `quota_exceeded`, `actions_busy`, UnavailableError. Errors of its own code are in the answer.
   */
  async run(input: ActionInput, owner: ComponentOwner): Promise<ActionResult> {
    if (this.#isStopping)
      throw new UnavailableError('overloaded', 'the service is stopping; nothing was run');
    const running = this.#runInSlot(input, owner);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /**
   * Accepts no further actions, gives those under way `graceMs`, and then stops them: their callers get an answer while one can be sent, and
   * what they used is counted while there is a store.
   */
  async stop(graceMs: number): Promise<void> {
    this.#isStopping = true;
    const ended = Promise.allSettled([...this.#running]);
    await endOrTimeout(ended, graceMs);
    this.#stop.abort();
    await endOrTimeout(ended, lastAnswersMs);
  }

  async #runInSlot(input: ActionInput, owner: ComponentOwner): Promise<ActionResult> {
    const { ownerId } = owner;
    const release = this.#slots.take(ownerId);
    try {
      this.#options.admit(ownerId);
      const component = await this.#componentOf(input, owner);
      requireRunnable(JSON.parse(component.shape) as ComponentShape);
      refuseMasked(input.configuredProps);
      return await this.#run(component, input, owner);
    } finally {
      release();
    }
  }

  async #componentOf({ id, code }: ActionInput, owner: ComponentOwner): Promise<ComponentTable> {
    if (code !== undefined) return this.#options.resolver.resolve({ component_code: code }, owner);
    return this.#options.resolver.resolveText(id ?? '', owner);
  }

  async #run(
    component: ComponentTable,
    { configuredProps: values, timeoutSeconds = null }: ActionInput,
    { ownerId, userId }: ComponentOwner,
  ): Promise<ActionResult> {
    const { store, runner, context, steps, clock, platformVersion } = this.#options;
    const used = { invocations: 0, computeMs: 0 };
    const configurer = new StepConfigurer({
      db: store.read,
      runner: {
        call: async (call) => {
          const outcome = await runner.call(call, { signal: this.#stop.signal });
          used.computeMs += outcome.durationMs;
          return outcome;
        },
        forget: (deploymentId) => runner.forget(deploymentId),
      },
      context,
      deadlineMs: additionalPropsMs,
    });
    const subject: StepSubject = {
      step: {
        id: newId('c'),
        namespace: 'action',
        componentId: component.id,
        origin: 'component',
        componentKey: component.component_key,
        configuredProps: '{}',
        sealedProps: null,
        dynamicProps: null,
        disabled: false,
      },
      component,
      values,
      ownerId,
      usedBy: component.id,
      accounts: { owners: [ownerId, userId], refused: [] },
      expressions: false,
      keptSecrets: [],
    };
    try {
      const configured = await configurer.configure(subject);
      const deployment = deploymentOf(ownerId, {
        opened: await configurer.open(subject, configured, component.id),
        variables: await context.variables(ownerId, null),
        timeoutSeconds,
      });
      const live = detachedRun(
        { workflowId: '', ownerId, deploymentId: '', event: '{}' },
        { deployment, nowMs: clock.now(), platformVersion, isTest: false },
      );
      used.invocations = 1;
      let result: StepResult;
      try {
        result = await steps.run(
          live,
          { strand: live.main, step: live.stepAt(0), position: 0 },
          { signal: this.#stop.signal, onRespond: () => undefined },
        );
      } catch (error) {
        if (!this.#stop.signal.aborted) throw error;
        throw new UnavailableError(
          'outcome_unknown',
          'the service stopped before the action ended; it may have run in part',
        );
      } finally {
        // Its process is for this run alone.
        await runner.forget(deployment.id);
        used.computeMs += live.segmentMs;
      }
      const outcomes = await this.#options.sends.sendNow(
        result.sends,
        { id: live.run.id, ownerId, userId },
        this.#stop.signal,
      );
      return resultOf(component, { result, outcomes, deployment, live });
    } finally {
      await this.#count(ownerId, used);
    }
  }

  /** What the action did is done: its answer is given also where its use cannot be stored. */
  async #count(ownerId: string, used: { invocations: number; computeMs: number }): Promise<void> {
    const { store, clock, logger } = this.#options;
    const { invocations } = used;
    const computeMs = Math.ceil(used.computeMs);
    if (invocations + computeMs === 0) return;
    const { memoryMb } = defaultWorkflowSettings;
    const usage = usageOf(ownerId, clock.now(), {
      ...{ invocations, computeMs, memoryMb },
      workflowRun: invocations > 0,
    });
    await store
      .transaction((tx) => addUsage(store, tx, [usage]))
      .catch((error: unknown) => logger.warn({ owner: ownerId, err: error }, 'action.usage-not-stored'));
  }
}

async function endOrTimeout(ended: Promise<unknown>, ms: number): Promise<void> {
  const timeout = Promise.withResolvers<void>();
  const timer = setTimeout(timeout.resolve, ms);
  await Promise.race([ended, timeout.promise]);
  clearTimeout(timer);
}

/** A deployment of no workflow, for one call. */
function deploymentOf(
  ownerId: string,
  made: { opened: OpenedStep; variables: OpenVariables; timeoutSeconds: number | null },
): LoadedDeployment {
  const { opened, variables, timeoutSeconds } = made;
  return {
    id: newId('d'),
    workflowId: '',
    ownerId,
    workflowName: '',
    projectId: null,
    settings: { ...defaultWorkflowSettings, timeoutSeconds, isolated: true },
    steps: [opened.step],
    packages: packagesOf([opened.step]),
    trustDomain: opened.trustDomain,
    accountIds: opened.accountIds,
    freshUntilMs: opened.freshUntilMs,
    revision: '1',
    variables,
    redact: bothRedactors(makeRedactor(opened.secrets), variables.redact),
  };
}

async function resultOf(
  component: ComponentTable,
  run: {
    result: StepResult;
    outcomes: readonly SendOutcome[];
    deployment: LoadedDeployment;
    live: { segmentMs: number; response: HttpReply | undefined };
  },
): Promise<ActionResult> {
  const { result, outcomes, live, deployment } = run;
  const redacted = async <T>(value: T): Promise<T> =>
    JSON.parse(await redactLarge(deployment.ownerId, deployment.redact, JSON.stringify(value))) as T;
  const { $return_value: ret = null, ...exports } = JSON.parse(result.exports) as Record<string, unknown>;
  const os = (JSON.parse(result.logs) as LogLine[]).map(
    ({ ts, level, message }): Observation => ({ k: 'log', ts, level, msg: message }),
  );
  if (result.error !== undefined) {
    const { code, msg, stack } = result.error;
    os.push({ k: 'error', ts: result.endedAtMs, err: { name: code, message: msg, stack } });
  }
  const { flow } = result;
  const { id, component_key, version } = component;
  return {
    component: { id, component_key, version },
    exports,
    ret: result.status === 'finished' ? ret : null,
    os,
    duration: Math.round(live.segmentMs),
    exit: flow?.kind === 'exit' ? { reason: flow.reason } : null,
    response: await httpAnswer(live.response, deployment),
    sends: await redacted(
      outcomes.map((outcome, index) => ({
        kind: must(result.sends[index], `send ${index}`).kind,
        ...outcome,
      })),
    ),
  };
}

/** Throws CallerError unless exactly one of `id` and `component_code` names what is to run. */
export function requireOneAction(named: { id: string | undefined; code: string | undefined }): void {
  if (named.id === undefined && named.code === undefined)
    throw new CallerError('missing_parameter', 'id: one of id and component_code is required', {
      parameter: 'id',
    });
  if (named.id !== undefined && named.code !== undefined)
    throw new CallerError('invalid_parameter', 'component_code: give either id or component_code', {
      parameter: 'component_code',
    });
}
