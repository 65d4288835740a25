import { isDeepStrictEqual } from 'node:util';
import { notFound } from '#identity/permissions.ts';
import { lockProject, projectOfWorkspace } from '#identity/project-store.ts';
import { refuseLostAccess } from '#identity/refuse-lost-access.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import type { QuotaGuard } from '#metering/quota-guard.ts';
import type { ComponentOwner, ComponentResolver } from '#registry/resolve-component.ts';
import type { Runner } from '#runner/runner.ts';
import { deleteTimersOf, insertTimers } from '#schedule/timer-store.ts';
import type { SourceDeployer, SourceRemoval } from '#sources/deploy-source.ts';
import type { DeploymentContext } from '#sources/deployment.ts';
import { findSource } from '#sources/source-store.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { TriggerTable, WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { atParameter, invalidAt } from './at-parameter.ts';
import { type FormerSteps, StepBuilder } from './build-steps.ts';
import { holdForeignSources, planTriggers, type TriggerPlan } from './plan-triggers.ts';
import type { StepInput } from './step-input.ts';
import { layOverTemplate } from './template.ts';
import { findTemplate } from './template-store.ts';
import { checkTriggers } from './trigger-definition.ts';
import { triggersOf } from './trigger-store.ts';
import type { StepDefinition, WorkflowDefinition } from './workflow-definition.ts';
import { refuseCodeBesideForeignAccounts, workflowFlowControl } from './workflow-flow-control.ts';
import { checkSteps, type DefinitionInput, settingsOf } from './workflow-input.ts';
import {
  type DeploymentAccount,
  deploymentAccounts,
  findDeployment,
  findWorkflow,
  lockWorkflow,
  nextDeploymentNumber,
  updateWorkflow,
} from './workflow-store.ts';
import {
  deploymentRow,
  eraseWorkflow,
  timersOf,
  type WorkflowLinks,
  writeDeployment,
  writeWorkflow,
} from './write-workflow.ts';

/** What a change of a workflow leaves out of date in memory. */
export interface WorkflowChange {
  workflowId: string;
  /** Keys (eo…, em…) of the triggers that it has or had. */
  endpointKeys: string[];
  /** Timers were added or changed. */
  timers: boolean;
  /** It is gone, with its runs. */
  removed: boolean;
}

export interface WorkflowCreation extends DefinitionInput {
  projectId?: string;
  templateId?: string;
}

interface WorkflowDeployerOptions {
  store: Store;
  resolver: Pick<ComponentResolver, 'resolve' | 'resolveText'>;
  runner: Pick<Runner, 'call' | 'forget'>;
  /** Creates and removes the sources that come and go with a workflow. */
  sources: Pick<SourceDeployer, 'create' | 'remove'>;
  links: WorkflowLinks;
  context: Pick<DeploymentContext, 'credentials' | 'sealer'>;
  clock: Clock;
  logger: Logger;
  /** The time limit of additionalProps. */
  deadlineMs: number;
  /** Called after each change is on disk. */
  onChange: (change: WorkflowChange) => void;
  /** A job was queued. */
  onJobs: () => void;
  /** Absent: owners may have any number of active workflows. */
  quotas?: Pick<QuotaGuard, 'requireRoom'>;
}

/** Written in the transaction that writes the workflow, so that there is never one without the other. */
export interface WrittenWith {
  alongside?: (tx: Tx, workflow: WorkflowTable) => Promise<void>;
}

const nameDefault = 'Untitled workflow';

/**
 * Creates, changes and removes workflows. Code is built and everything is checked first; then one transaction writes
 * all there is: nothing is left half made. A deployment is never changed: a change of steps or settings is a new one.
 */
export class WorkflowDeployer {
  readonly #options: WorkflowDeployerOptions;
  readonly #steps: StepBuilder;

  constructor(options: WorkflowDeployerOptions) {
    this.#options = options;
    this.#steps = new StepBuilder({ db: options.store.read, ...options });
  }

  async create(
    creation: WorkflowCreation,
    owner: ComponentOwner,
    { alongside }: WrittenWith = {},
  ): Promise<WorkflowTable> {
    const { store, clock, links } = this.#options;
    const input = await this.#withTemplate(creation);
    const projectId =
      creation.projectId === undefined
        ? null
        : await projectOfWorkspace(store.read, creation.projectId, owner.ownerId);
    const id = newId('p');
    const built = await this.#steps.build(input.steps ?? [], { ...owner, workflowId: id });
    const nowMs = clock.now();
    const workflow: WorkflowTable = {
      id,
      owner_id: owner.ownerId,
      user_id: owner.userId,
      project_id: projectId,
      name: input.settings?.name ?? nameDefault,
      state: input.settings?.auto_deploy === true ? 'active' : 'inactive',
      deployment_id: newId('d'),
      flow_control: null,
      created_at_ms: nowMs,
      updated_at_ms: nowMs,
    };
    const plan = await this.#planTriggers(input.triggers ?? [], {
      workflowId: workflow.id,
      owner,
      before: [],
      nowMs,
    });
    const definition: WorkflowDefinition = { steps: built.steps, settings: settingsOf(input.settings) };
    workflow.flow_control = flowControlOf(definition, plan.rows);
    const deployment = deploymentRow(workflow, definition, {
      number: 1,
      templateId: creation.templateId ?? null,
      userId: owner.userId,
    });
    await this.#withSources(plan, owner, () =>
      store.transaction(async (tx) => {
        await refuseLostAccess(tx, store, owner);
        await this.#requireRoom(tx, undefined, workflow);
        await holdForeignSources(store, tx, plan, owner);
        // It may have been deleted while the steps were built.
        if (projectId !== null) {
          await lockProject(tx, store, projectId);
          await projectOfWorkspace(tx, projectId, owner.ownerId);
        }
        await writeWorkflow({ store, links }, tx, {
          workflow,
          deployment,
          accounts: built.accounts,
          triggers: plan.rows,
        });
        await alongside?.(tx, workflow);
      }),
    );
    this.#changed(workflow, plan.rows);
    this.#options.logger.info(
      { workflow: workflow.id, owner: workflow.owner_id, steps: built.steps.length },
      'workflow.created',
    );
    return workflow;
  }

  /**
   * A new version: what is not given stays as it is. Runs under way end with the one they began with. `follows`: the
   * deployment that it is made from; `conflict` when it is no longer the current one. `active`: absent, it stays as it is.
   */
  async deploy(
    id: string,
    { follows, active, ...input }: DefinitionInput & { follows?: string; active?: boolean },
    owner: ComponentOwner,
    { alongside }: WrittenWith = {},
  ): Promise<WorkflowTable> {
    const { store, clock, links } = this.#options;
    const workflow = await this.#mustFind(id);
    if (follows !== undefined && follows !== workflow.deployment_id) throw changedMeanwhile(id);
    const former = await this.#formerSteps(workflow);
    const before = await triggersOf(store.read, id);
    await checkSteps(input.steps ?? [], { fromTemplate: false });
    checkTriggers(input.triggers ?? []);
    const built =
      input.steps === undefined
        ? { steps: former.definition.steps, accounts: former.accounts }
        : await this.#steps.build(input.steps, { ...owner, workflowId: id }, former);
    const nowMs = clock.now();
    const plan: TriggerPlan =
      input.triggers === undefined
        ? { rows: await this.#withoutLostSources(before), newForeignSources: [], newSources: [] }
        : await this.#planTriggers(input.triggers, { workflowId: id, owner, before, nowMs });
    const definition = {
      steps: built.steps,
      settings: settingsOf(input.settings, former.definition.settings),
    };
    refuseCodeBesideForeignAccounts(definition.settings.flowControl, {
      former: former.definition.settings.flowControl,
      accounts: built.accounts,
      owners: [workflow.owner_id, owner.userId],
    });
    const changed: WorkflowTable = {
      ...workflow,
      name: input.settings?.name ?? workflow.name,
      state: stateAfter(workflow.state, active ?? (input.settings?.auto_deploy === true ? true : undefined)),
      deployment_id: newId('d'),
      flow_control: flowControlOf(definition, plan.rows),
      updated_at_ms: nowMs,
    };
    await this.#withSources(plan, owner, () =>
      store.transaction(async (tx) => {
        await refuseLostAccess(tx, store, { ownerId: workflow.owner_id, userId: owner.userId });
        await holdForeignSources(store, tx, plan, owner);
        const present = await lockWorkflow(store, tx, id);
        if (present === undefined) throw notFound('workflow', id);
        if (present.deployment_id !== workflow.deployment_id || present.state !== workflow.state)
          throw changedMeanwhile(id);
        await this.#requireRoom(tx, workflow.state, changed);
        const number = await nextDeploymentNumber(tx, id);
        const deployment = deploymentRow(changed, definition, {
          number,
          templateId: null,
          userId: owner.userId,
        });
        const written = { workflow: changed, deployment, accounts: built.accounts, triggers: plan.rows };
        const hasSameSteps = isDeepStrictEqual(
          [built.steps, built.accounts],
          [former.definition.steps, former.accounts],
        );
        await writeDeployment(
          { store, links },
          tx,
          { workflow, triggers: before },
          { ...written, hasSameSteps },
        );
        await alongside?.(tx, changed);
      }),
    );
    this.#changed(changed, [...before, ...plan.rows]);
    const kept = new Set(plan.rows.map((row) => row.id));
    for (const trigger of before)
      if (trigger.owned === 1 && !kept.has(trigger.id)) await this.#attemptRemoval(trigger.id);
    this.#options.logger.info(
      { workflow: id, owner: workflow.owner_id, deployment: changed.deployment_id },
      'workflow.deployed',
    );
    return changed;
  }

  /**
   * A step as it would be deployed, for a user who tries it: nothing of the workflow changes. Throws as `deploy` does,
   * naming `step` and the field.
   */
  async buildStep(
    id: string,
    input: StepInput,
    owner: ComponentOwner,
  ): Promise<{ step: StepDefinition; accounts: DeploymentAccount[] }> {
    const workflow = await this.#mustFind(id);
    return atParameter({ parameter: 'step', names: { 'steps[0]': 'step' } }, async () => {
      await checkSteps([input], { fromTemplate: false });
      const former = await this.#formerSteps(workflow);
      const { steps, accounts } = await this.#steps.build([input], { ...owner, workflowId: id }, former);
      return { step: must(steps[0], 'a step that was built'), accounts };
    });
  }

  /** Timers tick while it is active: they restart when it is activated. */
  async update(id: string, change: { active?: boolean; name?: string }): Promise<WorkflowTable> {
    const { store, clock } = this.#options;
    const nowMs = clock.now();
    const { changed, triggers } = await store.transaction(async (tx) => {
      const workflow = await lockWorkflow(store, tx, id);
      if (workflow === undefined) throw notFound('workflow', id);
      const state = change.active === undefined ? workflow.state : change.active ? 'active' : 'inactive';
      const name = change.name ?? workflow.name;
      await this.#requireRoom(tx, workflow.state, { ...workflow, state });
      await updateWorkflow(tx, id, { state, name, updated_at_ms: nowMs });
      const rows = await triggersOf(tx, id);
      if (state !== workflow.state) {
        await deleteTimersOf(tx, id);
        if (state === 'active') await insertTimers(tx, timersOf(rows, nowMs));
      }
      return { changed: { ...workflow, state, name, updated_at_ms: nowMs }, triggers: rows };
    });
    this.#changed(changed, triggers);
    this.#options.logger.info({ workflow: id, state: changed.state }, 'workflow.updated');
    return changed;
  }

  /**
   * Sources that came with it go first, with their `deactivate`: one that fails is answered with `hook_failed`, and the
   * workflow stays. What its runs left is removed by a job. `alongside` is done in the transaction that removes it; where it throws, the
   * workflow stays.
   */
  async remove(
    id: string,
    {
      alongside,
      ...options
    }: SourceRemoval & { alongside?: (tx: Tx, workflow: WorkflowTable) => Promise<void> },
  ): Promise<void> {
    const { store, clock, links, sources } = this.#options;
    const workflow = await this.#mustFind(id);
    const triggers = await triggersOf(store.read, id);
    for (const trigger of triggers) {
      if (trigger.owned !== 1 || (await findSource(store.read, trigger.id)) === undefined) continue;
      await sources.remove(trigger.id, options);
    }
    await store.transaction(async (tx) => {
      const locked = await lockWorkflow(store, tx, id);
      if (locked === undefined) throw notFound('workflow', id);
      await alongside?.(tx, locked);
      await eraseWorkflow({ store, links }, tx, workflow, clock.now());
    });
    this.#changed(workflow, triggers, { removed: true });
    this.#options.onJobs();
    this.#options.logger.info({ workflow: id, owner: workflow.owner_id }, 'workflow.removed');
  }

  /** Where the workflow becomes active, its owner may have one more. */
  async #requireRoom(
    tx: Tx,
    before: WorkflowTable['state'] | undefined,
    { state, owner_id }: Pick<WorkflowTable, 'state' | 'owner_id'>,
  ): Promise<void> {
    if (state === 'active' && before !== 'active')
      await this.#options.quotas?.requireRoom(tx, 'workflows', owner_id);
  }

  async #withTemplate(creation: WorkflowCreation): Promise<DefinitionInput> {
    const { templateId, steps = [], triggers = [], settings } = creation;
    await checkSteps(steps, { fromTemplate: templateId !== undefined });
    checkTriggers(triggers);
    const given = { steps, triggers, ...(settings === undefined ? {} : { settings }) };
    if (templateId === undefined) return given;
    const template = await findTemplate(this.#options.store.read, templateId);
    if (template === undefined)
      throw invalidAt('template_id', `there is no template ${JSON.stringify(templateId)}`);
    const whole = layOverTemplate(template, given);
    checkTriggers(whole.triggers ?? []);
    return whole;
  }

  #planTriggers(
    inputs: Parameters<typeof planTriggers>[1],
    subject: Parameters<typeof planTriggers>[2],
  ): Promise<TriggerPlan> {
    const { store, resolver, context } = this.#options;
    return planTriggers({ db: store.read, resolver, context }, inputs, subject);
  }

  /** Creates the sources of the plan, does the work, and removes them again when it fails. */
  async #withSources(plan: TriggerPlan, owner: ComponentOwner, work: () => Promise<void>): Promise<void> {
    const made: string[] = [];
    try {
      for (const { row, at, source } of plan.newSources) {
        const names = { configured_props: `${at}.configured_props`, component_id: `${at}.component` };
        const created = await atParameter({ parameter: at, names }, () =>
          this.#options.sources.create(source, { ...owner, readableOwners: [...owner.readableOwners] }),
        );
        made.push(created.source.id);
        row.id = created.source.id;
      }
      await work();
    } catch (error) {
      for (const id of made.reverse()) await this.#attemptRemoval(id);
      throw error;
    }
  }

  async #attemptRemoval(sourceId: string): Promise<void> {
    try {
      await this.#options.sources.remove(sourceId, { ignoreHookErrors: true });
    } catch (error) {
      if (error instanceof CallerError && error.code === 'not_found') return;
      this.#options.logger.warn(
        { source: sourceId, error: toError(error).message },
        'workflow.source-not-removed',
      );
    }
  }

  async #mustFind(id: string): Promise<WorkflowTable> {
    const workflow = await findWorkflow(this.#options.store.read, id);
    if (workflow === undefined) throw notFound('workflow', id);
    return workflow;
  }

  async #formerSteps(workflow: WorkflowTable): Promise<FormerSteps & { accounts: DeploymentAccount[] }> {
    const { read } = this.#options.store;
    const deployment = must(
      await findDeployment(read, workflow.deployment_id),
      `deployment ${workflow.deployment_id} of ${workflow.id}`,
    );
    return {
      definition: JSON.parse(deployment.definition) as WorkflowDefinition,
      accounts: await deploymentAccounts(read, deployment.id),
    };
  }

  /** Triggers whose source was deleted meanwhile start nothing. */
  async #withoutLostSources(triggers: readonly TriggerTable[]): Promise<TriggerTable[]> {
    const rows: TriggerTable[] = [];
    for (const trigger of triggers) {
      if (trigger.kind === 'source' && (await findSource(this.#options.store.read, trigger.id)) === undefined)
        continue;
      rows.push({ ...trigger, position: rows.length });
    }
    return rows;
  }

  #changed(
    workflow: WorkflowTable,
    triggers: readonly TriggerTable[],
    { removed = false }: { removed?: boolean } = {},
  ): void {
    this.#options.onChange({
      workflowId: workflow.id,
      endpointKeys: [...new Set(triggers.flatMap(({ key }) => (key === null ? [] : [key])))],
      timers: triggers.some(({ kind }) => kind === 'timer'),
      removed,
    });
  }
}

function stateAfter(before: WorkflowTable['state'], active: boolean | undefined): WorkflowTable['state'] {
  if (active === undefined) return before;
  return active ? 'active' : 'inactive';
}

/** Checked against what else the workflow is; as its row has it. */
function flowControlOf(
  { steps, settings }: WorkflowDefinition,
  triggers: readonly TriggerTable[],
): string | null {
  const { flowControl = null, concurrency, throttle } = settings;
  if (flowControl === null) return null;
  const repliesOf = triggers.flatMap(({ id, custom_response }) => (custom_response === 1 ? [id] : []));
  return workflowFlowControl(flowControl, { steps, concurrency, throttle, repliesOf });
}

function changedMeanwhile(id: string): CallerError {
  return new CallerError('conflict', `workflow ${id} was changed by another request; read it and try again`, {
    id,
  });
}
