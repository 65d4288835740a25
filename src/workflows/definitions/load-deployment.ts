import { createHash } from 'node:crypto';
import { findComponent } from '#components/component-store.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { trustDomainOf } from '#runner/trust-domain.ts';
import type { DeploymentContext } from '#sources/deployment.ts';
import { soonest } from '#sources/open-accounts.ts';
import type { Db, Store } from '#storage/store.ts';
import type { OpenVariables } from '#user-data/variables/variables.ts';
import { bothRedactors, makeRedactor } from '#vault/redact.ts';
import { loadStep, type OpenedStep } from './load-step.ts';
import { type LoadedDeployment, packagesOf } from './loaded-deployment.ts';
import type { WorkflowDefinition } from './workflow-definition.ts';
import { deploymentAccounts, deploymentStamp, findDeployment, findWorkflow } from './workflow-store.ts';

/** Functions of other parts that deployments need. */
export interface WorkflowContext extends Pick<DeploymentContext, 'credentials' | 'sealer'> {
  /** The variables of workflows of an owner in this project (null: in none). Throws as `loadDeployment` does. */
  variables(ownerId: string, projectId: string | null): Promise<OpenVariables>;
}

/**
 * Everything needed to run a deployment. Throws `not_found` when it, its workflow, or an account of a step is gone
 * (the message names the step), UnavailableError when a secret cannot be opened.
 */
export async function loadDeployment(
  db: Db,
  deploymentId: string,
  context: WorkflowContext,
): Promise<LoadedDeployment> {
  const deployment = await findDeployment(db, deploymentId);
  if (deployment === undefined) throw gone('deployment', deploymentId);
  const workflow = await findWorkflow(db, deployment.workflow_id);
  if (workflow === undefined) throw gone('workflow', deployment.workflow_id);
  const definition = JSON.parse(deployment.definition) as WorkflowDefinition;
  const ownerId = deployment.owner_id;
  const granted = await deploymentAccounts(db, deploymentId);
  const accountOwners = [ownerId, ...granted.map((account) => account.owner_id)];
  const opened: OpenedStep[] = [];
  for (const step of definition.steps) {
    const component = must(
      await findComponent(db, step.componentId),
      `component ${step.componentId} of step ${step.id}`,
    );
    opened.push(
      await loadStep(db, step, { ownerId, usedBy: workflow.id, component, accountOwners, context }).catch(
        (error: unknown) => {
          throw inStep(step.namespace, error);
        },
      ),
    );
  }
  const steps = opened.map(({ step }) => step);
  // Code cannot change under this id; credentials and variables can.
  const variables = await context.variables(ownerId, workflow.project_id);
  const digest = createHash('sha256')
    .update(JSON.stringify(steps.map(({ props }) => props)))
    .update(variables.digest);
  return {
    id: deploymentId,
    workflowId: workflow.id,
    ownerId,
    workflowName: workflow.name,
    projectId: workflow.project_id,
    settings: definition.settings,
    steps,
    packages: packagesOf(steps),
    freshUntilMs: opened.reduce<number | null>((until, step) => soonest(until, step.freshUntilMs), null),
    trustDomain: trustDomainOf(ownerId, accountOwners),
    accountIds: [...new Set(opened.flatMap(({ accountIds }) => accountIds))],
    revision: `${deployment.number}-${digest.digest('hex').slice(0, 16)}`,
    variables,
    redact: bothRedactors(makeRedactor(opened.flatMap(({ secrets }) => secrets)), variables.redact),
  };
}

function gone(what: string, id: string): CallerError {
  return new CallerError('not_found', `${what} ${id} was deleted`, { id });
}

function inStep(namespace: string, error: unknown): unknown {
  if (!(error instanceof CallerError)) return error;
  const details = { ...error.details, namespace };
  return new CallerError(error.code, `step ${namespace}: ${error.message}`, details, { cause: error });
}

/** An unused deployment is forgotten after this long, with the code and credentials it holds. */
const idleMs = 60_000;
/** Deployments held at a time; the one used least recently is dropped first. */
const heldMax = 1_000;
/** With other processes on the store, how long a change made by one of them may go unseen. */
const freshMs = 1_000;

interface Held {
  deployment: Promise<LoadedDeployment>;
  /** What it was loaded from, as it was before it was loaded; undefined while that is not known. */
  stamp: string | undefined;
  checkedAtMs: number;
  usedAtMs: number;
  /** The expiry of the deployment's tokens, once it is loaded. */
  freshUntilMs: number | null;
}

/** The deployments that run in this process, or did a moment ago: each is loaded once, by its first user. */
export class Deployments {
  readonly #store: Pick<Store, 'isShared' | 'read'>;
  readonly #clock: Clock;
  readonly #context: WorkflowContext;
  /** In the order of their use. */
  readonly #held = new Map<string, Held>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(options: {
    store: Pick<Store, 'isShared' | 'read'>;
    clock: Clock;
    context: WorkflowContext;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#context = options.context;
    this.#sweeper = setInterval(() => this.#forgetIdle(), idleMs / 2);
    this.#sweeper.unref();
  }

  /** Throws as `loadDeployment` does; what failed is not kept. */
  get(deploymentId: string): Promise<LoadedDeployment> {
    const nowMs = this.#clock.now();
    const held = this.#held.get(deploymentId);
    if (held === undefined) return this.#load(deploymentId, nowMs);
    held.usedAtMs = nowMs;
    this.#held.delete(deploymentId);
    this.#held.set(deploymentId, held);
    if (held.freshUntilMs !== null && held.freshUntilMs <= nowMs) return this.#load(deploymentId, nowMs);
    const isFresh = !this.#store.isShared || Math.abs(nowMs - held.checkedAtMs) < freshMs;
    return isFresh ? held.deployment : this.#check(deploymentId, held, nowMs);
  }

  forget(deploymentId: string): void {
    this.#held.delete(deploymentId);
  }

  /** The workflow was renamed or removed. */
  forgetWorkflow(workflowId: string): void {
    this.#forgetWhere((deployment) => deployment.workflowId === workflowId);
  }

  /** Variables of the owner changed: runs that begin from now on get the new ones. */
  forgetOwner(ownerId: string): void {
    this.#forgetWhere((deployment) => deployment.ownerId === ownerId);
  }

  /** Credentials changed: runs that continue from now on get the new ones. */
  forgetAccount(accountId: string): void {
    this.#forgetWhere((deployment) => deployment.accountIds.includes(accountId));
  }

  close(): void {
    clearInterval(this.#sweeper);
    this.#held.clear();
  }

  #load(deploymentId: string, nowMs: number): Promise<LoadedDeployment> {
    const deployment = loadDeployment(this.#store.read, deploymentId, this.#context);
    const held: Held = {
      deployment,
      stamp: undefined,
      checkedAtMs: nowMs,
      usedAtMs: nowMs,
      freshUntilMs: null,
    };
    this.#held.set(deploymentId, held);
    if (this.#held.size > heldMax) {
      const oldest = this.#held.keys().next().value;
      if (oldest !== undefined) this.#held.delete(oldest);
    }
    this.#watch(deploymentId, held);
    return deployment;
  }

  /**
   * Another process may have changed an account, a variable or the name since. A deployment that was never compared is loaded once more:
   * what it depends on is known only after loading, and may have changed meanwhile.
   */
  #check(deploymentId: string, held: Held, nowMs: number): Promise<LoadedDeployment> {
    const { deployment: before, stamp: known } = held;
    held.checkedAtMs = nowMs;
    held.deployment = (async () => {
      const loaded = await before;
      const stamp = await deploymentStamp(this.#store.read, loaded);
      if (stamp === known) return loaded;
      const fresh = await loadDeployment(this.#store.read, deploymentId, this.#context);
      held.stamp = stamp;
      return fresh;
    })();
    this.#watch(deploymentId, held);
    return held.deployment;
  }

  /** What failed to load is not kept; what was loaded says how long its credentials are good. */
  #watch(deploymentId: string, held: Held): void {
    held.deployment.then(
      ({ freshUntilMs }) => {
        held.freshUntilMs = freshUntilMs;
      },
      () => {
        if (this.#held.get(deploymentId) === held) this.#held.delete(deploymentId);
      },
    );
  }

  #forgetWhere(isMeant: (deployment: LoadedDeployment) => boolean): void {
    for (const [id, held] of this.#held) {
      held.deployment
        .then((deployment) => {
          if (isMeant(deployment) && this.#held.get(id) === held) this.#held.delete(id);
        })
        .catch(() => {});
    }
  }

  #forgetIdle(): void {
    const oldest = this.#clock.now() - idleMs;
    for (const [id, held] of this.#held) if (held.usedAtMs < oldest) this.#held.delete(id);
  }
}
