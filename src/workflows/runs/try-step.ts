import { findComponent } from '#components/component-store.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { ShareObserver } from '#metering/share-records.ts';
import type { ComponentOwner } from '#registry/resolve-component.ts';
import type { Runner } from '#runner/runner.ts';
import type { DeploymentContext } from '#sources/deployment.ts';
import type { Store } from '#storage/store.ts';
import type { WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { bothRedactors, makeRedactor } from '#vault/redact.ts';
import type { WorkflowDeployer } from '#workflows/definitions/deploy-workflow.ts';
import { foreignAccountOf } from '#workflows/definitions/foreign-accounts.ts';
import type { Deployments } from '#workflows/definitions/load-deployment.ts';
import { loadStep } from '#workflows/definitions/load-step.ts';
import { type LoadedDeployment, packagesOf } from '#workflows/definitions/loaded-deployment.ts';
import type { StepInput } from '#workflows/definitions/step-input.ts';
import type { WorkflowDefinition } from '#workflows/definitions/workflow-definition.ts';
import { isNamespace } from '#workflows/definitions/workflow-input.ts';
import { findDeployment } from '#workflows/definitions/workflow-store.ts';
import { ActionSlots } from './action-slots.ts';
import { detachedRun } from './detached-run.ts';
import { type HttpAnswer, httpAnswer } from './http-answer.ts';
import type { StepResult, StepRunner } from './run-step.ts';

export interface StepTrial {
  /** Namespace of the step. */
  step: string;
  event: unknown;
  /** Exports of earlier steps by namespace. */
  steps: Record<string, Record<string, unknown>>;
  /** The step as it would be deployed; absent: as it is. */
  given?: Omit<StepInput, 'namespace'>;
}

/** The outcome of trying a step; redacted. */
export interface StepTrialResult extends StepResult {
  /** The answer of `$.respond`. */
  response: HttpAnswer | null;
}

export interface StepTrierOptions {
  store: Pick<Store, 'read'>;
  clock: Clock;
  context: Pick<DeploymentContext, 'credentials' | 'sealer'>;
  deployer: Pick<WorkflowDeployer, 'buildStep'>;
  deployments: Pick<Deployments, 'get'>;
  steps: StepRunner;
  runner: Pick<Runner, 'releaseScratch' | 'forget'>;
  platformVersion: string;
  /** Learns which owner has too many under way. */
  shares?: ShareObserver;
}

/**
 * Tries one step by itself, deployed or not: nothing is recorded, nothing sent, and waits are not waited for. Its code has
 * what a run would give it, no more: the same sandbox, owner, accounts and limits.
 */
export class StepTrier {
  readonly #options: StepTrierOptions;
  readonly #slots: ActionSlots;

  constructor(options: StepTrierOptions) {
    this.#options = options;
    this.#slots = new ActionSlots(options.clock, options.shares);
  }

  /**
   * Throws CallerError `not_found` for an unknown step, `invalid_parameter` for exports of what can be no step, and for those
   * given to a step with an account of another member, `actions_busy`, and the errors of building and checking a given step, each naming
   * `step` and the field.
   */
  async run(workflow: WorkflowTable, trial: StepTrial, owner: ComponentOwner): Promise<StepTrialResult> {
    const release = this.#slots.take(workflow.owner_id);
    try {
      const deployed = await this.#options.deployments.get(workflow.deployment_id);
      requireSteps(trial, deployed);
      if (trial.given === undefined) {
        await this.#requireAgreement(trial, deployed, owner);
        return await this.#runDeployed(workflow, trial, deployed);
      }
      const step = { ...trial.given, namespace: trial.step };
      const deployment = await this.#load(workflow, step, deployed, owner);
      try {
        return await this.#run(workflow, trial, deployment, 0);
      } finally {
        // Its process is for this trial alone.
        await this.#options.runner.forget(deployment.id);
      }
    } finally {
      release();
    }
  }

  /** A member whose account a step uses has agreed to its code with what the steps before it export, while it is enabled. */
  async #requireAgreement(
    trial: StepTrial,
    deployed: LoadedDeployment,
    { readableOwners: owners }: ComponentOwner,
  ): Promise<void> {
    const isDisabled = deployed.steps.some(({ namespace, disabled }) => namespace === trial.step && disabled);
    if (!isDisabled && Object.keys(trial.steps).length === 0) return;
    const { read } = this.#options.store;
    const deployment = await findDeployment(read, deployed.id);
    const { steps = [] } = JSON.parse(deployment?.definition ?? '{}') as Partial<WorkflowDefinition>;
    const usedIn = steps.find(({ namespace }) => namespace === trial.step)?.configuredProps ?? '';
    const account = await foreignAccountOf(read, deployed.id, { owners, usedIn });
    if (account === undefined) return;
    const whose = `account ${account} of step ${trial.step} belongs to another member, who`;
    const [parameter, why] = isDisabled
      ? ['namespace', `the step is disabled; ${whose} has not agreed to run it`]
      : [
          'steps',
          `${whose} has agreed to what the steps before it export, not to exports of a request: leave them out, or run the workflow with an event of yours`,
        ];
    throw new CallerError('invalid_parameter', `${parameter}: ${why}`, { parameter });
  }

  #runDeployed(
    workflow: WorkflowTable,
    trial: StepTrial,
    deployed: LoadedDeployment,
  ): Promise<StepTrialResult> {
    const position = deployed.steps.findIndex(({ namespace }) => namespace === trial.step);
    if (position === -1)
      throw new CallerError('not_found', `the workflow has no step ${JSON.stringify(trial.step)}`, {
        parameter: 'namespace',
      });
    return this.#run(workflow, trial, deployed, position);
  }

  /** A deployment of this one step, which is nowhere but here. */
  async #load(
    workflow: WorkflowTable,
    input: StepInput,
    deployed: LoadedDeployment,
    owner: ComponentOwner,
  ): Promise<LoadedDeployment> {
    const { store, context, deployer } = this.#options;
    const { step, accounts } = await deployer.buildStep(workflow.id, input, owner);
    const component = must(
      await findComponent(store.read, step.componentId),
      `component ${step.componentId} of a step that is tried`,
    );
    const opened = await loadStep(store.read, step, {
      ownerId: workflow.owner_id,
      usedBy: workflow.id,
      component,
      accountOwners: [workflow.owner_id, ...accounts.map((account) => account.owner_id)],
      context,
    });
    return {
      ...deployed,
      id: newId('d'),
      // An experiment harms nothing that runs.
      settings: { ...deployed.settings, isolated: true },
      steps: [opened.step],
      packages: packagesOf([opened.step]),
      trustDomain: opened.trustDomain,
      accountIds: opened.accountIds,
      freshUntilMs: opened.freshUntilMs,
      revision: '1',
      redact: bothRedactors(makeRedactor(opened.secrets), deployed.variables.redact),
    };
  }

  async #run(
    workflow: WorkflowTable,
    trial: StepTrial,
    deployment: LoadedDeployment,
    position: number,
  ): Promise<StepTrialResult> {
    const { clock, platformVersion, steps, runner } = this.#options;
    const { id: workflowId, owner_id: ownerId } = workflow;
    const live = detachedRun(
      { workflowId, ownerId, deploymentId: deployment.id, event: JSON.stringify(trial.event ?? {}) },
      { deployment, nowMs: clock.now(), platformVersion, isTest: true },
    );
    for (const [namespace, exports] of Object.entries(trial.steps))
      live.main.finished({ namespace, exports: JSON.stringify(exports) });
    try {
      const result = await steps.run(
        live,
        { strand: live.main, step: live.stepAt(position), position },
        { signal: new AbortController().signal, onRespond: () => undefined },
      );
      return { ...result, response: await httpAnswer(live.response, deployment) };
    } finally {
      // What it left there would count against the steps of runs.
      if (live.usedScratch) runner.releaseScratch(deployment.id, live.run.id);
    }
  }
}

/** Their names become a part of a JSON text. */
function requireSteps({ steps, given }: StepTrial, deployed: LoadedDeployment): void {
  for (const namespace of Object.keys(steps)) {
    const isKnown = deployed.steps.some((one) => one.namespace === namespace);
    if (isKnown || (given !== undefined && isNamespace(namespace))) continue;
    const shown = JSON.stringify(namespace.slice(0, 100));
    throw new CallerError(
      'invalid_parameter',
      given === undefined
        ? `steps: the workflow has no step ${shown}`
        : `steps: ${shown} cannot be the name of a step`,
      { parameter: 'steps' },
    );
  }
}
