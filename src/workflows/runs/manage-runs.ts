import type { EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { insertNewJobs } from '#jobs/job-store.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import type { RunStepTable, RunTable, WorkflowTable } from '#storage/tables/workflow-tables.ts';
import type { WorkflowDefinition } from '#workflows/definitions/workflow-definition.ts';
import { findDeployment, findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { endRunOutside } from './end-run.ts';
import { isTerminal } from './run.ts';
import { insertRuns, insertSteps, stepsOfRun } from './run-store.ts';
import type { RunStarter } from './start-run.ts';
import { cancelNotice, type WorkflowRuns } from './workflow-runs.ts';

/** What users do with runs: cancel, run again, continue from a step. */
export class RunManager {
  readonly #store: Store;
  readonly #router: EventRouter;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #starter: RunStarter;
  readonly #runs: WorkflowRuns;
  readonly #onEnded: (workflowId: string) => void;

  constructor(options: {
    store: Store;
    router: EventRouter;
    bus: EventBus;
    clock: Clock;
    starter: RunStarter;
    runs: WorkflowRuns;
    onEnded: (workflowId: string) => void;
  }) {
    this.#store = options.store;
    this.#router = options.router;
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#starter = options.starter;
    this.#runs = options.runs;
    this.#onEnded = options.onEnded;
  }

  /** Ends a run, whatever it does. Throws CallerError `conflict` when it has ended. */
  async cancel(run: Pick<RunTable, 'id' | 'workflow_id'>, reason: string): Promise<void> {
    const options = { store: this.#store, router: this.#router, clock: this.#clock };
    const notice = `${cancelNotice}${run.id}`;
    const stored = await endRunOutside(options, { runId: run.id, state: 'cancelled', reason, notice });
    if (stored === undefined) throw new CallerError('conflict', `run ${run.id} has ended already`);
    this.#bus.publish(stored);
    this.#runs.abandon(run.id);
    this.#onEnded(run.workflow_id);
  }

  /** A new run of the same event, with the current deployment. Throws `not_found` when the workflow is gone. */
  async replay(run: RunTable): Promise<{ runId: string }> {
    const workflow = await this.#workflowOf(run);
    return this.#starter.start({
      workflowId: workflow.id,
      ownerId: workflow.owner_id,
      deploymentId: workflow.deployment_id,
      emitterId: run.emitter_id,
      sourceType: run.source_type,
      event: run.event,
      hops: 0,
      traceId: run.trace_id,
      replayOf: run.id,
    });
  }

  /**
   * A new run of the same event and deployment that continues at a step, with what the steps before it had exported.
   * Without `fromStep` it continues where the run ended. Throws CallerError `conflict` for a run that has not ended,
   * `invalid_parameter` for a step from which the run cannot continue.
   */
  async restart(run: RunTable, fromStep: string | undefined): Promise<{ runId: string }> {
    if (!isTerminal(run)) throw new CallerError('conflict', `run ${run.id} has not ended: cancel it first`);
    await this.#workflowOf(run);
    const deployment = await findDeployment(this.#store.read, run.deployment_id);
    if (deployment === undefined)
      throw new CallerError('not_found', `deployment ${run.deployment_id} is gone`);
    const { steps } = JSON.parse(deployment.definition) as WorkflowDefinition;
    const recorded = (await stepsOfRun(this.#store.read, run.id)).filter(
      (step) => step.state === 'succeeded',
    );
    const from =
      fromStep === undefined
        ? Math.max(-1, ...recorded.map(({ position }) => position)) + 1
        : steps.findIndex((step) => step.namespace === fromStep);
    if (from === -1)
      throw fromStepError(`the deployment of this run has no step ${JSON.stringify(fromStep)}`);
    const kept = recorded.filter(({ position }) => position < from);
    const missing = steps
      .slice(0, from)
      .find((step, position) => !step.disabled && !kept.some((one) => one.position === position));
    if (missing !== undefined)
      throw fromStepError(
        `step ${missing.namespace} before it has not succeeded in this run; restart from there or earlier`,
      );
    const prepared = this.#starter.prepare(
      {
        workflowId: run.workflow_id,
        ownerId: run.owner_id,
        deploymentId: run.deployment_id,
        emitterId: run.emitter_id,
        sourceType: run.source_type,
        event: run.event,
        hops: 0,
        traceId: run.trace_id,
        replayOf: run.id,
      },
      { inStore: true },
    );
    const copies = kept.map((step): RunStepTable => ({ ...step, run_id: prepared.run.id, try: 1 }));
    const latest = new Map(copies.map((step) => [step.position, step]));
    await this.#store.transaction(async (tx) => {
      await insertRuns(this.#store, tx, [prepared.run]);
      await insertSteps(this.#store, tx, [...latest.values()]);
      await insertNewJobs(this.#store, tx, [prepared.job]);
      await this.#store.notify(tx, 'millrace_jobs', '');
    });
    prepared.stored();
    return { runId: prepared.run.id };
  }

  async #workflowOf(run: RunTable): Promise<WorkflowTable> {
    const workflow = await findWorkflow(this.#store.read, run.workflow_id);
    if (workflow === undefined)
      throw new CallerError('not_found', `the workflow of run ${run.id} was deleted`);
    return workflow;
  }
}

function fromStepError(message: string): CallerError {
  return new CallerError('invalid_parameter', `from_step: ${message}`, { parameter: 'from_step' });
}
