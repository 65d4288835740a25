import { insertNewJobs } from '#jobs/job-store.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { RunStepTable, RunTable, WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { isStructured, positionsIn } from '#workflows/definitions/block-definition.ts';
import { foreignAccountOf } from '#workflows/definitions/foreign-accounts.ts';
import type { StepDefinition, WorkflowDefinition } from '#workflows/definitions/workflow-definition.ts';
import {
  deploymentAccounts,
  findDeployment,
  findWorkflow,
  lockWorkflow,
} from '#workflows/definitions/workflow-store.ts';
import { presentRecords } from './block-attempts.ts';
import { repeatedAmong } from './repeated-run-store.ts';
import { isTerminal, type RunTrigger } from './run.ts';
import { insertSteps, stepsOfRun } from './run-step-store.ts';
import { insertRuns } from './run-store.ts';
import type { PreparedRun, RunStarter } from './start-run.ts';

/** What a repeated run gets instead of what the run before it had. */
export interface RunEdits {
  /** JSON text: `steps.trigger.event`. */
  event?: string;
  /** JSON object of exports by the namespace of the step, of steps that do not run again. */
  exports?: Readonly<Record<string, string>>;
  /** Owners whose accounts the caller may put to any use; absent: none. */
  owners?: readonly string[];
}

/** A new run that is not stored yet, with the steps that it takes over. */
export interface RepeatedRun {
  prepared: PreparedRun;
  steps: RunStepTable[];
}

/** Makes runs of runs: the same event once more, from the start or from a step. */
export class RunRepeater {
  readonly #store: Store;
  readonly #starter: RunStarter;

  constructor(options: { store: Store; starter: RunStarter }) {
    this.#store = options.store;
    this.#starter = options.starter;
  }

  /** The trigger of a run of the same event, with the current deployment. Throws `not_found` when the workflow is gone. */
  async replayTrigger(run: RunTable, edits: RunEdits = {}): Promise<RunTrigger> {
    const { deployment_id: deploymentId, flow_control: flowControl } = await this.#workflowOf(run);
    return { ...triggerOf(run, edits), deploymentId, flowControl };
  }

  async prepareReplay(run: RunTable, edits: RunEdits = {}): Promise<RepeatedRun> {
    const trigger = await this.replayTrigger(run, edits);
    return { prepared: this.#starter.prepare(trigger, { inStore: true }), steps: [] };
  }

  /**
   * A run of the same event and deployment that continues at a step, with what the steps before it had exported. Without `fromStep` it continues
   * where the run ended. Throws CallerError `conflict` for a run that has not ended, and for one with an account of a member that the workflow
   * no longer uses, `invalid_parameter` for a step from which the run cannot
   * continue, for exports of a step that it does not take over, and for any beside an account of another member.
   */
  async prepareRestart(run: RunTable, fromStep?: string, edits: RunEdits = {}): Promise<RepeatedRun> {
    if (!isTerminal(run)) throw new CallerError('conflict', `run ${run.id} has not ended: cancel it first`);
    const { flow_control: flowControl, deployment_id: current } = await this.#workflowOf(run);
    const deployment = await findDeployment(this.#store.read, run.deployment_id);
    if (deployment === undefined)
      throw new CallerError('not_found', `deployment ${run.deployment_id} is gone`);
    await this.#requireAgreedAccounts(run, current);
    const { steps } = JSON.parse(deployment.definition) as WorkflowDefinition;
    const recorded = presentRecords(steps, await stepsOfRun(this.#store.read, run.id)).filter(
      (step) => step.state === 'succeeded' || step.state === 'caught',
    );
    const from = startOf(steps, recorded, fromStep);
    const { exports = {}, owners = [] } = edits;
    if (Object.keys(exports).length > 0) await this.#refuseExportsForForeignAccounts(run, owners);
    const kept = recorded.filter(({ position }) => position < from);
    const unknown = Object.keys(exports).find((name) => !kept.some(({ namespace }) => namespace === name));
    if (unknown !== undefined)
      throw new CallerError(
        'invalid_parameter',
        `steps.${unknown}: expected exports of steps that do not run again (${kept.map(({ namespace }) => namespace).join(', ') || 'there are none'}); a step that failed, and those after it, run again`,
        { parameter: `steps.${unknown}` },
      );
    const block = steps.find((step) => Object.hasOwn(exports, step.namespace) && isBlockWithSteps(step));
    if (block !== undefined)
      throw new CallerError(
        'invalid_parameter',
        `steps.${block.namespace}: this is a block, whose result follows from the steps in it; give theirs`,
        { parameter: `steps.${block.namespace}` },
      );
    const prepared = this.#starter.prepare({ ...triggerOf(run, edits), flowControl }, { inStore: true });
    const latest = new Map(
      kept.map((step): [string, RunStepTable] => [
        `${step.position} ${step.iteration}`,
        {
          ...step,
          run_id: prepared.run.id,
          // Its blocks may fail as often as in a new run.
          attempt: step.attempt.replaceAll(/\d+/g, '1'),
          try: 1,
          exports: exports[step.namespace] ?? step.exports,
        },
      ]),
    );
    return { prepared, steps: [...latest.values()] };
  }

  /** Stores runs in one commit; they run in the order in which they are given. */
  async store(repeated: readonly RepeatedRun[]): Promise<void> {
    await this.#store.transaction((tx) => this.#insert(tx, repeated));
    for (const { prepared } of repeated) prepared.stored();
  }

  /**
   * The same, without those whose run was repeated meanwhile: of requests that come at the same moment, also on several nodes, one repeats
   * a run. Returns how many were stored.
   */
  async storeOnce(workflowId: string, repeated: readonly RepeatedRun[]): Promise<number> {
    const stored = await this.#store.transaction(async (tx) => {
      const workflow = await lockWorkflow(this.#store, tx, workflowId);
      if (workflow === undefined) return [];
      const origins = repeated.flatMap(({ prepared }) => prepared.run.replay_of ?? []);
      const taken = await repeatedAmong(tx, origins);
      const free = repeated.filter(({ prepared }) => !taken.has(prepared.run.replay_of ?? ''));
      if (free.length > 0) await this.#insert(tx, free);
      return free;
    });
    for (const { prepared } of stored) prepared.stored();
    return stored.length;
  }

  async #insert(tx: Tx, repeated: readonly RepeatedRun[]): Promise<void> {
    await insertRuns(
      this.#store,
      tx,
      repeated.map(({ prepared }) => prepared.run),
    );
    await insertSteps(
      this.#store,
      tx,
      repeated.flatMap(({ steps }) => steps),
    );
    await insertNewJobs(
      this.#store,
      tx,
      repeated.map(({ prepared }) => prepared.job),
    );
    await this.#store.notify(tx, 'millrace_jobs', '');
  }

  /** A member who took an account of their own out of the workflow has not agreed to further runs with it. */
  async #requireAgreedAccounts(run: RunTable, currentId: string): Promise<void> {
    if (run.deployment_id === currentId) return;
    const { read } = this.#store;
    const used = await deploymentAccounts(read, run.deployment_id);
    const personal = used.filter(({ owner_id }) => owner_id !== run.owner_id);
    if (personal.length === 0) return;
    const still = new Set((await deploymentAccounts(read, currentId)).map(({ account_id }) => account_id));
    const gone = personal.find(({ account_id }) => !still.has(account_id));
    if (gone !== undefined)
      throw new CallerError(
        'conflict',
        `run ${run.id} had account ${gone.account_id} of a member, which the workflow no longer uses: replay the run, which takes the current version`,
      );
  }

  /** They could hand its credentials to any address, as other code of the steps before could. */
  async #refuseExportsForForeignAccounts(run: RunTable, owners: readonly string[]): Promise<void> {
    const account = await foreignAccountOf(this.#store.read, run.deployment_id, { owners });
    if (account === undefined) return;
    throw new CallerError(
      'invalid_parameter',
      `steps: account ${account} of the workflow belongs to another member, who has agreed to what its steps export, not to exports of a request: leave them out, or give another event`,
      { parameter: 'steps' },
    );
  }

  async #workflowOf(run: RunTable): Promise<WorkflowTable> {
    const workflow = await findWorkflow(this.#store.read, run.workflow_id);
    if (workflow === undefined)
      throw new CallerError('not_found', `the workflow of run ${run.id} was deleted`);
    return workflow;
  }
}

function triggerOf(run: RunTable, { event = run.event }: RunEdits): Omit<RunTrigger, 'flowControl'> {
  return {
    workflowId: run.workflow_id,
    ownerId: run.owner_id,
    deploymentId: run.deployment_id,
    emitterId: run.emitter_id,
    sourceType: run.source_type,
    event,
    hops: 0,
    traceId: run.trace_id,
    replayOf: run.id,
  };
}

/** The position from which on nothing is taken over; without `fromStep` all that has ended is, wherever it is. */
function startOf(
  steps: readonly StepDefinition[],
  recorded: readonly RunStepTable[],
  fromStep: string | undefined,
): number {
  if (fromStep === undefined) return steps.length;
  const from = steps.findIndex((step) => step.namespace === fromStep);
  if (from === -1) throw fromStepError(`the deployment of this run has no step ${JSON.stringify(fromStep)}`);
  const isRecorded = (position: number) => recorded.some((one) => one.position === position);
  const whole = positionsIn(steps, { from: 0, to: steps.length });
  for (const position of [...whole, ...blocksAround(steps, from)].filter((one) => one < from)) {
    const step = steps[position];
    if (step !== undefined && !step.disabled && !isRecorded(position))
      throw fromStepError(
        `step ${step.namespace} before it has not succeeded in this run; restart from there or earlier`,
      );
  }
  for (const position of blocksAround(steps, from)) requireTaken(steps, { recorded, position, from });
  return from;
}

/** The positions of the blocks that a step is in, the outermost first. */
function blocksAround(steps: readonly StepDefinition[], inside: number): number[] {
  return steps.flatMap(({ block }, position) =>
    block !== undefined && position < inside && inside < block.end ? [position] : [],
  );
}

/** Throws when the run took no branch that the step at `from` is in. */
function requireTaken(
  steps: readonly StepDefinition[],
  at: { recorded: readonly RunStepTable[]; position: number; from: number },
): void {
  const step = steps[at.position];
  const branch = step?.block?.branches.find(({ from, to }) => from <= at.from && at.from < to);
  if (step === undefined || step.block?.kind === 'map') return;
  const decisions = at.recorded.filter(({ position }) => position === at.position);
  const isTaken = decisions.some(({ exports }) => {
    const { branch: one, branches = [one] } = JSON.parse(exports) as { branch?: string; branches?: string[] };
    return branch !== undefined && branches.includes(branch.slug);
  });
  if (!isTaken)
    throw fromStepError(
      `this run has not taken the branch that the step is in; restart from ${step.namespace}`,
    );
}

function isBlockWithSteps({ block }: StepDefinition): boolean {
  return block !== undefined && isStructured(block.kind);
}

function fromStepError(message: string): CallerError {
  return new CallerError('invalid_parameter', `from_step: ${message}`, { parameter: 'from_step' });
}
