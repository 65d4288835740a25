import type { EventAllowance, EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { FlowKeeper } from '#flow-control/flow-keeper.ts';
import type { FlowTarget } from '#flow-control/flow-target.ts';
import type { OutcomeRecorder } from '#health/outcome-store.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { ActiveOwners } from '#lib/active-owners.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { UserCodeError } from '#runner/call-outcome.ts';
import type { Runner } from '#runner/runner.ts';
import type { Store } from '#storage/store.ts';
import { noTracer, type Tracer } from '#telemetry/tracer.ts';
import type { Deployments } from '#workflows/definitions/load-deployment.ts';
import { KeyEvaluator } from '#workflows/flow-control/evaluate-keys.ts';
import { RunFlowTarget } from '#workflows/flow-control/run-flow-target.ts';
import { BulkRuns } from './bulk-runs.ts';
import { WorkflowCalls } from './call-workflow.ts';
import { RunManager } from './manage-runs.ts';
import { RunPruner } from './prune-runs.ts';
import { RunRepeater } from './repeat-run.ts';
import { RunResumer } from './resume-by-link.ts';
import { answerHostCalls, type OwnerHostCalls } from './run-host-calls.ts';
import { StepRunner } from './run-step.ts';
import type { SettingsOf } from './run-turns.ts';
import { RunWaits } from './run-waits.ts';
import { type AnswerKeeper, WorkflowRuns } from './run-workflow.ts';
import { RunStarter } from './start-run.ts';
import { triggerHostCalls } from './trigger-workflow.ts';
import { reportUnattributedError } from './unattributed-error.ts';

/** Below this a wait is over before the pool looks for due jobs by itself. */
const soonMs = 1_000;

/** The parts that run workflows, put together. */
export class RunService {
  /** Does the jobs `run_workflow`. */
  readonly runs: WorkflowRuns;
  readonly starter: RunStarter;
  readonly resumer: RunResumer;
  readonly manager: RunManager;
  readonly bulk: BulkRuns;
  /** Says what runs wait for. */
  readonly waits: RunWaits;
  /** Runs single steps; what they did is for the caller to keep. */
  readonly steps: StepRunner;
  /** Keeps the records of ended runs bounded. */
  readonly pruner: RunPruner;
  /** Lets runs of workflows with flow control begin. */
  readonly flow: FlowKeeper;
  /** Reports an error that no step caught and that belongs to no running step. */
  readonly unattributedError: (deploymentId: string, error: UserCodeError) => Promise<void>;

  constructor(options: {
    store: Store;
    bus: EventBus;
    router: EventRouter;
    outcomes: OutcomeRecorder;
    clock: Clock;
    logger: Logger;
    node: string;
    runner: Runner;
    deployments: Pick<Deployments, 'get'>;
    /** Asked for when it is needed, since it also does the jobs of this folder. */
    pool: WorkerPool;
    /** Base of the URLs that resume and cancel a run: `{public_url}/in`. */
    inboundUrl: () => string;
    platformVersion: string;
    hostCalls: { data_store: OwnerHostCalls; file: OwnerHostCalls };
    mayRun: (ownerId: string) => boolean;
    /** Absent: an owner is alone. */
    activeOwners?: Pick<ActiveOwners, 'areSeveral'>;
    settingsOf: SettingsOf;
    keptAnswers: AnswerKeeper;
    /** Flow control of sources, whose queues the same keeper looks after. */
    sourceFlow: FlowTarget;
    /** A run of a source was replaced. */
    onReplaced: (jobId: string) => void;
    /** As in `WorkflowRuns`. */
    allowance?: EventAllowance;
    tracer?: Tracer;
    /** Ended runs kept of each workflow. */
    runsKept: number;
  }) {
    const { store, clock, logger, pool, runner } = options;
    this.unattributedError = (deploymentId, error) => reportUnattributedError(options, deploymentId, error);
    this.pruner = new RunPruner({ store, logger, keep: options.runsKept });
    const starter = () => this.starter;
    const calls = new WorkflowCalls({
      ...{ store, clock, logger, starter, runs: () => this.runs },
      onJobs: () => pool.poke(),
    });
    this.steps = new StepRunner({
      db: store.read,
      runner,
      clock,
      inboundUrl: options.inboundUrl,
      hostCalls: answerHostCalls({
        ...options.hostCalls,
        trigger_workflow: triggerHostCalls({ db: store.read, starter, calls }),
      }),
    });
    const { steps } = this;
    this.waits = new RunWaits({ db: store.read, steps });
    const onEnded = (workflowId: string) => {
      this.pruner.ended(workflowId);
      this.flow.runEnded(workflowId);
      calls.ended(workflowId);
    };
    this.runs = new WorkflowRuns({
      ...options,
      hasOthers: () => pool.lanes.hasOthers,
      steps,
      surroundings: { platformVersion: options.platformVersion },
      observers: {
        ended: (workflowId) => onEnded(workflowId),
        parked: (untilMs) => {
          if (untilMs - clock.now() <= soonMs) pool.poke();
        },
        callWaits: (called, caller) => calls.waits(called, caller),
      },
    });
    const keys = new KeyEvaluator({
      ...{ store, logger, runner, deployments: options.deployments },
      surroundings: { platformVersion: options.platformVersion },
      onEvaluated: (workflowId) => this.flow.poke(workflowId),
    });
    const runFlow = new RunFlowTarget({ store, router: options.router, clock });
    this.flow = new FlowKeeper({
      ...{ store, clock, logger, bus: options.bus },
      targetOf: (subjectId) => (subjectId.startsWith('dc_') ? options.sourceFlow : runFlow),
      evaluator: keys,
      owners: options.activeOwners,
      onStarted: () => pool.poke(),
      onCancelled: (runId) => {
        this.runs.abandon(runId);
        options.onReplaced(runId);
      },
      onRecorded: (workflowId) => this.pruner.ended(workflowId),
    });
    this.starter = new RunStarter({
      ...{ store, pool, runs: this.runs, clock, tracer: options.tracer ?? noTracer },
      onRecorded: onEnded,
      onArrived: (workflowId, { isEvaluated }) =>
        isEvaluated ? this.flow.poke(workflowId) : this.flow.evaluate(workflowId),
    });
    const outside = { ...options, onJobs: () => pool.poke(), onEnded };
    this.resumer = new RunResumer({ ...outside, runs: this.runs });
    const repeater = new RunRepeater({ store, starter: this.starter });
    this.manager = new RunManager({ ...outside, repeater, starter: this.starter, runs: this.runs });
    this.bulk = new BulkRuns({ store, repeater, manager: this.manager, starter: this.starter });
  }
}
