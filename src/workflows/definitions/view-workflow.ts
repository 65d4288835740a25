import { appIdOf } from '#accounts/apps/app-id.ts';
import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { findComponents } from '#components/component-store.ts';
import type { ConfiguredProps } from '#components/validate-props.ts';
import { type Health, newHealth } from '#health/health.ts';
import { healthOf } from '#health/health-store.ts';
import { epochSeconds } from '#lib/clock.ts';
import { Pauses } from '#lib/pauses.ts';
import { type DeploymentContext, loadSourceDefinitions } from '#sources/deployment.ts';
import { accountProps, viewProps } from '#sources/source-props.ts';
import { findSources } from '#sources/source-store.ts';
import { viewSource } from '#sources/view-source.ts';
import type { Db } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import type { DeploymentTable, TriggerTable, WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { type BlockDefinition, positionsIn, type StepRange } from './block-definition.ts';
import { blockFields } from './block-input.ts';
import { callWarnings } from './called-workflows.ts';
import { definitionsOfStep, sealedStep } from './load-step.ts';
import { triggerAuthType } from './trigger-auth.ts';
import { triggersOfMany } from './trigger-store.ts';
import type { StepDefinition, WorkflowDefinition } from './workflow-definition.ts';
import { viewSettings } from './workflow-input.ts';
import { findDeployments } from './workflow-store.ts';

/** What answers about workflows need of the service. */
export interface WorkflowViewContext extends Pick<DeploymentContext, 'endpointUrl'> {
  /** The address of an email trigger's key. */
  emailAddress(key: string): string;
  /** Why no mail can come to email triggers; null: it can. */
  noMail: string | null;
  /** Epoch ms. */
  now(): number;
}

/** The runtime that runs steps, in the form of the specification. */
const lang = `nodejs${process.versions.node.split('.')[0]}.x`;

/** Workflows as the API answers them (specification, section 2), with what they have in a fixed number of queries. */
export async function viewWorkflows(
  db: Db,
  workflows: readonly WorkflowTable[],
  context: WorkflowViewContext,
) {
  const deployments = await findDeployments(
    db,
    workflows.map((workflow) => workflow.deployment_id),
  );
  const ids = workflows.map((workflow) => workflow.id);
  const triggers = await triggersOfMany(db, ids);
  const health = await healthOf(db, 'workflow', ids, context.now());
  const views = new Map(
    (await viewDeployments(db, [...deployments.values()])).map((view) => [view.id, view]),
  );
  const triggerViews = await viewTriggers(db, [...triggers.values()].flat(), context);
  const warnings = await callWarnings(
    db,
    workflows.map(({ owner_id, deployment_id }) => ({
      ownerId: owner_id,
      steps: views.get(deployment_id)?.steps ?? [],
    })),
  );
  return workflows.map((workflow, index) => {
    const deployment = views.get(workflow.deployment_id);
    return {
      id: workflow.id,
      name: workflow.name,
      active: workflow.state === 'active',
      health: withWarning(
        health.get(workflow.id) ?? newHealth('workflow'),
        triggers.get(workflow.id),
        context,
      ),
      steps: deployment?.steps ?? [],
      triggers: (triggers.get(workflow.id) ?? []).flatMap((trigger) => {
        const view = triggerViews.get(trigger);
        return view === undefined ? [] : [view];
      }),
      settings: deployment?.settings ?? null,
      warnings: warnings[index] ?? [],
      owner_id: workflow.owner_id,
      project_id: workflow.project_id,
      deployment_id: workflow.deployment_id,
      created_at: epochSeconds(workflow.created_at_ms),
      updated_at: epochSeconds(workflow.updated_at_ms),
    };
  });
}

/** The health of a workflow whose mails cannot come says so where it has no other reason. */
function withWarning(
  health: Health,
  triggers: readonly TriggerTable[] = [],
  { noMail }: Pick<WorkflowViewContext, 'noMail'>,
): Health {
  const hasMail = triggers.some(({ kind }) => kind === 'email');
  const isUnexplained = health.reason === null || health.state === 'untested';
  return hasMail && noMail !== null && isUnexplained ? { ...health, reason: noMail } : health;
}

/** Versions of workflows, with their steps. */
export async function viewDeployments(db: Db, deployments: readonly DeploymentTable[]) {
  const definitions = deployments.map((row) => JSON.parse(row.definition) as WorkflowDefinition);
  const ids = new Set(definitions.flatMap(({ steps }) => steps.map((step) => step.componentId)));
  const components = await findComponents(db, [...ids]);
  const pauses = new Pauses();
  const viewSteps = async (definition: WorkflowDefinition | undefined, ownerId: string) => {
    const views = [];
    for (const step of definition?.steps ?? []) {
      views.push({
        ...viewStep(step, components.get(step.componentId), ownerId),
        block: step.block === undefined ? null : viewBlock(step, step.block, definition?.steps ?? []),
        timeout_seconds: step.block?.timeoutSeconds ?? step.timeoutSeconds ?? null,
        retries: step.retries ?? null,
      });
      await pauses.pause();
    }
    return views;
  };
  const views = [];
  for (const [index, row] of deployments.entries()) {
    const definition = definitions[index];
    views.push({
      id: row.id,
      workflow_id: row.workflow_id,
      number: row.number,
      template_id: row.template_id,
      user_id: row.user_id,
      owner_id: row.owner_id,
      steps: await viewSteps(definition, row.owner_id),
      settings: definition === undefined ? null : viewSettings(definition.settings),
      created_at: epochSeconds(row.created_at_ms),
    });
  }
  return views;
}

function viewStep(step: StepDefinition, component: ComponentTable | undefined, ownerId: string) {
  const code = step.origin === 'code' ? (component?.code ?? null) : null;
  const definitions = component === undefined ? [] : definitionsOfStep(component, step.dynamicProps);
  const accounts = accountProps(definitions, JSON.parse(step.configuredProps));
  return {
    id: step.id,
    type: 'CodeCell',
    namespace: step.namespace,
    disabled: step.disabled,
    note: step.note ?? null,
    code_raw: code,
    codeRaw: code,
    codeConfigJson: null,
    lang,
    text_raw: null,
    appConnections: [],
    flat_params_visibility_json: null,
    // Parameters of steps before components had props; always none.
    params_json: '{}',
    component: true,
    savedComponent: component === undefined ? null : viewSavedComponent(component, definitions),
    component_key: step.componentKey,
    component_owner_id: component?.owner_id ?? null,
    configured_props_json: JSON.stringify(viewProps(sealedStep(step, ownerId), definitions, undefined)),
    authProvisionIdMap: Object.fromEntries(accounts.map(({ prop, accountId }) => [prop, accountId])),
    authProvisionIds: [...new Set(accounts.map(({ accountId }) => accountId))],
  };
}

/** The fields of a block as a request gives them, with the names of the steps in it. */
function viewBlock(step: StepDefinition, block: BlockDefinition, steps: readonly StepDefinition[]) {
  const fields = blockFields(block, JSON.parse(step.configuredProps) as ConfiguredProps);
  const namesIn = (range: StepRange | null | undefined) =>
    range ? positionsIn(steps, range).flatMap((position) => steps[position]?.namespace ?? []) : [];
  return {
    ...fields,
    ...(fields.branches === undefined
      ? {}
      : {
          branches: fields.branches.map((branch, index) => ({
            ...branch,
            steps: namesIn(block.branches[index]),
          })),
        }),
    ...(block.kind === 'map' ? { steps: namesIn(block.branches[0]) } : {}),
    ...(block.error === null ? {} : { error_steps: namesIn(block.error) }),
  };
}

function viewSavedComponent(component: ComponentTable, definitions: readonly PropDefinition[]) {
  const shape = JSON.parse(component.shape) as ComponentShape;
  const slugs = new Set(
    definitions.flatMap(({ type, app }) => (type === 'app' && app !== undefined ? [app] : [])),
  );
  return {
    id: component.id,
    code: component.code,
    codeHash: component.code_hash,
    configurableProps: [...definitions],
    key: component.component_key,
    description: shape.description ?? null,
    entryPath: component.url,
    version: component.version,
    apps: [...slugs].map((slug) => ({
      appId: appIdOf(slug),
      nameSlug: slug,
      authType: authTypeOf(definitions, slug),
    })),
  };
}

/** Accounts hold static credentials, which the specification calls keys, unless the definition says otherwise. */
function authTypeOf(definitions: readonly PropDefinition[], slug: string): string {
  const authType = definitions.find(({ app }) => app === slug)?.authType;
  return typeof authType === 'string' ? authType : 'keys';
}

type TriggerView = ReturnType<typeof viewOwnTrigger> | ({ type: 'source' } & ReturnType<typeof viewSource>);

/**
 * Triggers by row; one whose source was deleted is not there. Of a source of another owner, such as a member's own, others who
 * see the workflow are not shown the props.
 */
async function viewTriggers(db: Db, triggers: readonly TriggerTable[], context: WorkflowViewContext) {
  const sources = await findSources(
    db,
    triggers.filter(({ kind }) => kind === 'source').map(({ id }) => id),
  );
  const definitions = await loadSourceDefinitions(db, [...sources.values()]);
  const health = await healthOf(db, 'source', [...sources.keys()], context.now());
  const views = new Map<TriggerTable, TriggerView>();
  const viewSourceTrigger = (source: SourceTable, trigger: TriggerTable) => {
    const known = health.get(source.id) ?? newHealth('source');
    const view = viewSource(source, definitions.get(source.id) ?? [], context.endpointUrl, known);
    if (source.owner_id === trigger.owner_id) return { type: 'source' as const, ...view };
    // What went wrong in it is as private as what it was given.
    return {
      type: 'source' as const,
      ...view,
      configured_props: {},
      health: { ...known, reason: null },
    };
  };
  for (const trigger of triggers) {
    const source = sources.get(trigger.id);
    const view =
      trigger.kind === 'source'
        ? source && viewSourceTrigger(source, trigger)
        : viewOwnTrigger(trigger, context);
    if (view !== undefined) views.set(trigger, view);
  }
  return views;
}

function viewOwnTrigger(trigger: TriggerTable, context: WorkflowViewContext) {
  const times = {
    created_at: epochSeconds(trigger.created_at_ms),
    updated_at: epochSeconds(trigger.updated_at_ms),
  };
  const { id, key } = trigger;
  if (trigger.kind === 'http') {
    return {
      type: 'http' as const,
      id,
      key,
      // It has a key, and so an address.
      endpoint_url: context.endpointUrl(key) ?? '',
      custom_response: trigger.custom_response === 1,
      // The token is never shown; a definition sent back in this form keeps it.
      auth: { type: triggerAuthType(trigger) },
      ...times,
    };
  }
  if (trigger.kind === 'email')
    return {
      type: 'email' as const,
      id,
      email_address: context.emailAddress(key ?? ''),
      warning: context.noMail,
      ...times,
    };
  if (trigger.kind === 'on_failure') return { type: 'on_failure' as const, id, ...times };
  return {
    type: 'timer' as const,
    id,
    interval_seconds: trigger.interval_seconds,
    cron: trigger.cron,
    timezone: trigger.timezone,
    schedule_changed_at: epochSeconds(trigger.schedule_changed_at_ms),
    ...times,
  };
}
