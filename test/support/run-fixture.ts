import { EventBus } from '#events/event-bus.ts';
import { insertEmitter } from '#events/event-store.ts';
import type { AppliedFlowControl } from '#flow-control/flow-control.ts';
import { OutcomeRecorder } from '#health/outcome-store.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { JobRegistry } from '#jobs/job-registry.ts';
import { WorkerPool } from '#jobs/worker-pool.ts';
import type { ActiveOwners } from '#lib/active-owners.ts';
import { silentLogger } from '#lib/logger.ts';
import { ShareRecords } from '#metering/share-records.ts';
import type { CallOutcome, StepEffects } from '#runner/call-outcome.ts';
import type { CallOptions, CallRequest, Runner, StepCall } from '#runner/runner.ts';
import { SourceFlowTarget } from '#sources/source-flow-target.ts';
import type { Store } from '#storage/store.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { noVariables } from '#user-data/variables/variables.ts';
import type { LoadedDeployment } from '#workflows/definitions/loaded-deployment.ts';
import {
  defaultWorkflowSettings,
  type WorkflowSettings,
} from '#workflows/definitions/workflow-definition.ts';
import { insertWorkflow } from '#workflows/definitions/workflow-store.ts';
import type { LinkRequest } from '#workflows/runs/resume-by-link.ts';
import type { RunTrigger } from '#workflows/runs/run.ts';
import { RunService } from '#workflows/runs/run-service.ts';
import { findRun } from '#workflows/runs/run-store.ts';
import type { AnswerKeeper } from '#workflows/runs/run-workflow.ts';
import { stepsOfRun } from '../../src/workflows/runs/run-step-store.ts';
import { noSubscribers } from './no-subscribers.ts';
import { TestClock } from './test-clock.ts';
import { waitFor } from './wait-for.ts';

/** What a step of the tests does: the outcome of its call, or a function that makes it. */
export type StepScript =
  | Partial<CallOutcome>
  | ((call: SeenCall, options: CallOptions) => Partial<CallOutcome> | Promise<Partial<CallOutcome>>);

/** A call as the steps of the tests see it. */
export interface SeenCall {
  namespace: string;
  /** `steps`, parsed. */
  steps: Record<string, Record<string, unknown>>;
  /** `$.context`, parsed. */
  context: Record<string, unknown>;
  request: CallRequest;
  call: StepCall;
}

/** An outcome of a step that finished with these exports. */
export function finished(exports: object = {}, effects: Partial<StepEffects> = {}): Partial<CallOutcome> {
  return { status: 'finished', step: { exports: JSON.stringify(exports), sends: [], ...effects } };
}

export function threw(name: string, message: string): Partial<CallOutcome> {
  return { status: 'threw', error: { name, message, stack: `${name}: ${message}\n    at component.js:1:1` } };
}

/** The engine on a real store, with steps that are written in the test instead of run in a sandbox. */
export class RunFixture implements AsyncDisposable {
  readonly store: Store;
  readonly clock: TestClock;
  readonly bus = new EventBus(silentLogger);
  readonly calls: SeenCall[] = [];
  readonly service: RunService;
  readonly pool: WorkerPool;
  readonly node: string;
  deployment: LoadedDeployment;
  mayRun = true;
  /** `flow_control` of the workflow's row. */
  readonly flowControl: string | null;
  /** The settings of the deployment for new events, if it is not the one under test. */
  settings: WorkflowSettings | undefined;
  readonly #scripts: Record<string, StepScript>;

  constructor(
    store: Store,
    options: {
      steps: Record<string, StepScript>;
      settings?: Partial<WorkflowSettings>;
      redact?: (text: string) => string;
      node?: string;
      clock?: TestClock;
      runsKept?: number;
      /** Does the runs of sources; by default nothing does. */
      sources?: JobHandler;
      onReplaced?: (jobId: string) => void;
      keptAnswers?: AnswerKeeper;
      flowControl?: AppliedFlowControl;
      activeOwners?: Pick<ActiveOwners, 'areSeveral'>;
      deployments?: { get(id: string): Promise<LoadedDeployment> };
    },
  ) {
    this.store = store;
    this.flowControl = options.flowControl === undefined ? null : JSON.stringify(options.flowControl);
    this.clock = options.clock ?? new TestClock();
    this.node = options.node ?? 'node_test';
    this.#scripts = options.steps;
    this.deployment = {
      id: 'd_1',
      workflowId: 'p_1',
      ownerId: 'u_1',
      workflowName: 'under test',
      projectId: null,
      settings: { ...defaultWorkflowSettings, ...options.settings },
      packages: [],
      steps: Object.keys(options.steps).map((namespace) => ({
        id: `c_${namespace}`,
        namespace,
        disabled: false,
        bundle: { hash: namespace, code: '', format: 'cjs' },
        definitions: [],
        props: {},
        dynamicProps: undefined,
        usesDb: false,
      })),
      trustDomain: 'o_1',
      accountIds: [],
      freshUntilMs: null,
      variables: noVariables,
      revision: '1',
      redact: options.redact ?? ((text) => text),
    };
    const runner: Runner = {
      describe: () => Promise.reject(new Error('not in these tests')),
      call: (request, callOptions = {}) => this.#answer(request, callOptions),
      forget: () => Promise.resolve(),
      releaseScratch: () => undefined,
      expectOwners: () => undefined,
      processes: () => ({ processesMax: 0, memoryBytesMax: 0, processes: [], shares: [], setApart: [] }),
      stats: () => ({
        ...{ level: 'off', ownUsers: false, addons: false, warm: 0, deployments: 0, setApart: 0 },
        ...{ prewarmed: 0, calls: 0, kills: 0 },
        shares: new ShareRecords({ logger: silentLogger, nowMs: () => 0 }).byResource,
      }),
      close: () => Promise.resolve(),
    };
    const { clock, node, bus } = this;
    const jobs = new JobRegistry();
    this.pool = new WorkerPool({
      node,
      store,
      jobs,
      clock,
      logger: silentLogger,
      claims: true,
    });
    this.service = new RunService({
      store,
      outcomes: new OutcomeRecorder(store, () => this.pool.lanes.hasOthers),
      bus,
      router: noSubscribers,
      clock,
      logger: silentLogger,
      node,
      runner,
      deployments: options.deployments ?? { get: async () => this.deployment },
      pool: this.pool,
      inboundUrl: () => 'http://127.0.0.1/in',
      platformVersion: '0.0.0',
      hostCalls: {
        data_store: () => Promise.reject(new Error('not in these tests')),
        file: () => Promise.reject(new Error('not in these tests')),
      },
      mayRun: () => this.mayRun,
      settingsOf: async () => this.settings ?? this.deployment.settings,
      keptAnswers: options.keptAnswers ?? { record: () => Promise.reject(new Error('not in these tests')) },
      runsKept: options.runsKept ?? 1000,
      sourceFlow: new SourceFlowTarget({ store, clock }),
      onReplaced: options.onReplaced ?? (() => {}),
      ...(options.activeOwners === undefined ? {} : { activeOwners: options.activeOwners }),
    });
    const nothing: JobHandler = { run: async () => {}, quarantined: async () => {} };
    jobs.register({
      run_source: options.sources ?? nothing,
      delete_events: nothing,
      deliver_scheduled_event: nothing,
      fan_out_event: nothing,
      change_deliveries: nothing,
      fan_out_apphook: nothing,
      queue_replay: nothing,
      delete_workflow: nothing,
      send_from_run: nothing,
      run_workflow: this.service.runs,
    });
  }

  /** What requests to resume and cancel links are answered. */
  get resumer() {
    const { resumer } = this.service;
    return {
      resume: async (request: LinkRequest) => (await resumer.resume(request)).outcome,
      cancel: async (request: LinkRequest) => (await resumer.cancel(request)).outcome,
    };
  }

  static async start(...args: ConstructorParameters<typeof RunFixture>): Promise<RunFixture> {
    const fixture = new RunFixture(...args);
    await fixture.store.transaction((tx) => insertEmitter(tx, { id: 'p_1', ownerId: 'u_1' }));
    if (fixture.flowControl !== null) await fixture.storeWorkflow();
    await fixture.pool.start();
    fixture.service.flow.start();
    return fixture;
  }

  /** The row of the workflow, which flow control reads. */
  async storeWorkflow(): Promise<void> {
    await this.store.transaction((tx) =>
      insertWorkflow(tx, {
        ...{ id: 'p_1', owner_id: 'u_1', user_id: 'u_1', project_id: null, name: 'under test' },
        ...{ state: 'active', deployment_id: 'd_1', flow_control: this.flowControl },
        ...{ created_at_ms: 1, updated_at_ms: 1 },
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service.flow.stop();
    await this.pool.stop(0);
  }

  /** A trigger of the workflow under test. */
  trigger(event: unknown = {}, more: Partial<RunTrigger> = {}): RunTrigger {
    return {
      workflowId: 'p_1',
      ownerId: 'u_1',
      deploymentId: 'd_1',
      flowControl: this.flowControl,
      emitterId: 'hi_1',
      sourceType: 'HTTP',
      event: JSON.stringify(event),
      hops: 0,
      ...more,
    };
  }

  async start(event: unknown = {}, more: Partial<RunTrigger> = {}): Promise<string> {
    const { runId } = await this.service.starter.start(this.trigger(event, more));
    return runId;
  }

  /** The run once it is in one of these states. */
  async until(runId: string, ...states: string[]): Promise<RunTable> {
    return waitFor(
      async () => {
        const run = await findRun(this.store.read, runId);
        return run !== undefined && states.includes(run.state) && run;
      },
      { what: `run ${runId} to be ${states.join(' or ')}` },
    );
  }

  /** The recorded tries of a run's steps, as `namespace try state`. */
  async recorded(runId: string): Promise<string[]> {
    const steps = await stepsOfRun(this.store.read, runId);
    return steps.map((step) => `${step.namespace} ${step.try} ${step.state}`);
  }

  /** Events on `$errors`, parsed, oldest first. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into events of every shape.
  async errors(): Promise<any[]> {
    const rows = await this.store.read
      .selectFrom('events')
      .select('event')
      .where('emitter_id', '=', 'p_1')
      .where('channel', '=', '$errors')
      .orderBy('ms')
      .orderBy('seq')
      .execute();
    return rows.map((row) => JSON.parse(row.event));
  }

  /** Lets so much time pass, and has what is due by then run. */
  pass(ms: number): void {
    this.clock.step(ms);
    this.pool.poke();
    this.service.flow.settingsChanged('p_1');
  }

  async #answer(request: CallRequest, options: CallOptions): Promise<CallOutcome> {
    const namespace = (request.module ?? '').slice('c_'.length);
    const call = request.call as StepCall;
    const seen: SeenCall = {
      namespace,
      steps: JSON.parse(call.steps) as SeenCall['steps'],
      context: JSON.parse(call.context) as Record<string, unknown>,
      request,
      call,
    };
    this.calls.push(seen);
    const script = this.#scripts[namespace] ?? {};
    const outcome = typeof script === 'function' ? await script(seen, options) : script;
    return {
      status: 'finished',
      emits: [],
      dbSets: {},
      logs: [],
      logsDropped: 0,
      durationMs: 5,
      ...outcome,
    };
  }
}
