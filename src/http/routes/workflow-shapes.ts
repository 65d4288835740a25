import { Type } from 'typebox';
import { OneOf } from '#http/route-support.ts';
import { runStates, triggerKinds } from '#storage/tables/workflow-tables.ts';
import { blockKinds, onErrors } from '#workflows/definitions/block-definition.ts';
import type { RuleInput } from '#workflows/definitions/rule-input.ts';
import type { StepInput } from '#workflows/definitions/step-input.ts';
import { noteMax } from '#workflows/definitions/workflow-input.ts';
import { FlowControl } from './flow-shapes.ts';
import { Health } from './health-shapes.ts';
import { ConfigurableProp } from './prop-shapes.ts';
import { Source } from './source-shapes.ts';

const StringOrNull = Type.Union([Type.String(), Type.Null()]);

function integerOrNull(options: { minimum: number; maximum: number; description: string }) {
  const { description, ...range } = options;
  return Type.Union([Type.Integer(range), Type.Null()], { description });
}

const Throttle = Type.Object(
  {
    limit: Type.Integer({ minimum: 0, maximum: 10_000, description: '0 holds all events' }),
    seconds: Type.Integer({ minimum: 1, maximum: 36_000_000 }),
  },
  { additionalProperties: false, description: 'At most `limit` runs begin in each window of `seconds`' },
);

const runSettings = {
  timeout_seconds: integerOrNull({
    minimum: 1,
    maximum: 750,
    description: 'Longest one step may take; null: 30 for HTTP and email, 60 for timers and events',
  }),
  memory_mb: Type.Integer({ minimum: 128, maximum: 10_240 }),
  auto_retry: Type.Boolean({ description: 'A failed step is tried again, up to 8 times over 10 hours' }),
  concurrency: integerOrNull({
    minimum: 1,
    maximum: 10_000,
    description: 'Maximum runs started by events that run at the same time; null: no limit',
  }),
  throttle: Type.Union([Throttle, Type.Null()]),
  queue_size: Type.Integer({
    minimum: 1,
    maximum: 10_000,
    description: 'Events that wait for their turn; those beyond are dropped, with an error event',
  }),
  isolated: Type.Boolean({
    description:
      'Addition: steps run in a process of their own; by default, code of one owner shares processes',
  }),
  flow_control: Type.Union([FlowControl, Type.Null()]),
};

/** `settings` of a request. */
export const SettingsInput = Type.Object(
  {
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    auto_deploy: Type.Optional(Type.Boolean({ description: 'Activates the workflow immediately' })),
    timeout_seconds: Type.Optional(runSettings.timeout_seconds),
    memory_mb: Type.Optional(runSettings.memory_mb),
    auto_retry: Type.Optional(runSettings.auto_retry),
    concurrency: Type.Optional(runSettings.concurrency),
    throttle: Type.Optional(runSettings.throttle),
    queue_size: Type.Optional(runSettings.queue_size),
    isolated: Type.Optional(runSettings.isolated),
    flow_control: Type.Optional(runSettings.flow_control),
  },
  { additionalProperties: false },
);

const stepFields = {
  props: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'Values of its props; texts may hold {{expressions}}, an account is { authProvisionId }',
    }),
  ),
  code: Type.Optional(Type.String({ description: 'Source text of a code cell, JavaScript or TypeScript' })),
  component: Type.Optional(Type.String({ description: 'Key, key@version, sc_… or URL of an action' })),
  disabled: Type.Optional(Type.Boolean()),
  note: Type.Optional(
    Type.String({
      maxLength: noteMax,
      description: 'For people: what the step is for, as Markdown or plain text',
    }),
  ),
};

/** A step without its name. */
export const GivenStep = Type.Object(stepFields, {
  additionalProperties: false,
  description: 'The step as it would be deployed, which it need not be; absent: as it is',
});

/** The schema has no steps within steps; docs/reference/workflow-schema.json does. */
const InnerSteps = Type.Unsafe<StepInput[]>(
  Type.Array(Type.Record(Type.String(), Type.Unknown()), {
    description: 'Steps with the same fields as those of the workflow',
  }),
);

const Rule = Type.Unsafe<RuleInput>(
  Type.Unknown({
    description:
      'An {{expression}}; or { value, condition, second_value, case_sensitive } with a condition of filter-continue-based-on-condition; or { all: [rules] }, { any: [rules] }, { not: rule }',
  }),
);

/** Which of them a kind of block has is checked with the steps in it (workflows/definitions/block-input.ts). */
const blockFields = {
  block: Type.Optional(
    OneOf(blockKinds, { description: 'The step is a block: it has the fields of its kind, and no code' }),
  ),
  branches: Type.Optional(
    Type.Array(
      Type.Object({
        slug: Type.Optional(Type.String({ description: 'Name of the branch' })),
        if: Type.Optional(Rule),
        case: Type.Optional(
          Type.Unknown({ description: 'switch: the value with which this branch is taken' }),
        ),
        steps: Type.Optional(InnerSteps),
      }),
      { description: 'if, switch, parallel' },
    ),
  ),
  items: Type.Optional(Type.Unknown({ description: 'map: a list, or an expression that gives one' })),
  concurrency: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, description: 'map: items at the same time; default 10' }),
  ),
  steps: Type.Optional(InnerSteps),
  value: Type.Optional(Type.Unknown({ description: 'switch: what the cases are compared with' })),
  if: Type.Optional(Rule),
  otherwise: Type.Optional(
    OneOf(['end', 'leave'], {
      description:
        'filter: a rule that is not met ends the run (default), or leaves the block around the filter',
    }),
  ),
  reason: Type.Optional(Type.String({ description: 'filter, end: why the run ends here' })),
  seconds: Type.Optional(Type.Unknown({ description: 'delay: a number, or an expression that gives one' })),
  workflow: Type.Optional(Type.String({ description: 'call: p_…' })),
  event: Type.Optional(Type.Unknown({ description: 'call: steps.trigger.event of that workflow' })),
  on_error: Type.Optional(
    OneOf(onErrors, {
      description:
        'What follows when a step in the block fails: the run fails (default), the block ends with the error, or error_steps run',
    }),
  ),
  error_steps: Type.Optional(InnerSteps),
};

/** `steps` of a request. Which fields have to be there depends on whether there is a template. */
export const StepInputs = Type.Array(
  Type.Object({
    namespace: Type.String({ description: 'Its exports are found under this name' }),
    ...stepFields,
    timeout_seconds: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 31_536_000,
        description:
          'Longest time that it may take: at most 750 for a step; for a block with steps in it the time of the whole block, at most a year',
      }),
    ),
    retries: Type.Optional(
      Type.Object(
        {
          times: Type.Integer({ minimum: 1, maximum: 10 }),
          seconds: Type.Integer({ minimum: 1, maximum: 3600 }),
        },
        {
          description:
            'A failed step, or a failed block with all steps in it, is run again after `seconds`, and twice as late each time',
        },
      ),
    ),
    ...blockFields,
  }),
);

/** `triggers` of a request. */
export const TriggerInputs = Type.Array(
  Type.Object({
    id: Type.Optional(Type.String({ description: 'The id of an existing trigger of the workflow' })),
    type: Type.Optional(
      OneOf(triggerKinds, {
        description: 'Required without a template; with one it says that this trigger is given whole',
      }),
    ),
    props: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          'http: custom_response, auth; timer: interval_seconds, or cron and timezone; source: source_id, or component (or code) with configured_props and name; email and on_failure: none',
      }),
    ),
  }),
);

export const definitionFields = {
  steps: Type.Optional(StepInputs),
  triggers: Type.Optional(TriggerInputs),
  settings: Type.Optional(SettingsInput),
};

const SavedComponent = Type.Object(
  {
    id: Type.String({ description: 'sc_…' }),
    code: Type.String(),
    codeHash: Type.String(),
    configurableProps: Type.Array(ConfigurableProp),
    key: StringOrNull,
    description: StringOrNull,
    entryPath: StringOrNull,
    version: Type.String(),
    apps: Type.Array(Type.Object({ appId: Type.String(), nameSlug: Type.String(), authType: Type.String() })),
  },
  { additionalProperties: true },
);

const Step = Type.Object(
  {
    id: Type.String({ description: 'c_…' }),
    type: Type.String(),
    namespace: Type.String(),
    disabled: Type.Boolean(),
    note: StringOrNull,
    code_raw: StringOrNull,
    codeRaw: StringOrNull,
    codeConfigJson: StringOrNull,
    lang: Type.String({ description: 'Runtime that runs it' }),
    text_raw: StringOrNull,
    appConnections: Type.Array(Type.Unknown()),
    flat_params_visibility_json: StringOrNull,
    params_json: Type.String({ description: 'JSON' }),
    component: Type.Boolean(),
    savedComponent: Type.Union([SavedComponent, Type.Null()]),
    component_key: StringOrNull,
    component_owner_id: StringOrNull,
    configured_props_json: Type.Union([
      Type.String({ description: 'JSON; secrets are masked' }),
      Type.Null(),
    ]),
    authProvisionIdMap: Type.Record(Type.String(), Type.String(), { description: 'apn_… by prop' }),
    authProvisionIds: Type.Array(Type.String()),
    block: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
      description:
        'Addition: the fields of a block as they were given, with the names of the steps in it instead of the steps. The list has every step, a block before the steps in it',
    }),
    timeout_seconds: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Addition: of this step alone',
    }),
    retries: Type.Union([Type.Object({ times: Type.Integer(), seconds: Type.Integer() }), Type.Null()], {
      description: 'Addition: of this step alone',
    }),
  },
  { additionalProperties: true },
);

const Settings = Type.Union([Type.Object(runSettings), Type.Null()]);

const triggerTimes = {
  created_at: Type.Integer({ description: 'Epoch seconds' }),
  updated_at: Type.Integer({ description: 'Epoch seconds' }),
};

/** By what it starts runs. */
const Trigger = Type.Union([
  Type.Object({
    id: Type.String({ description: 'hi_…' }),
    type: Type.Enum(['http']),
    key: StringOrNull,
    endpoint_url: Type.String(),
    custom_response: Type.Boolean({ description: 'A step answers the request' }),
    auth: Type.Object({ type: Type.Enum(['none', 'static_bearer_token', 'oauth']) }),
    ...triggerTimes,
  }),
  Type.Object({
    id: Type.String({ description: 'ei_…' }),
    type: Type.Enum(['email']),
    email_address: Type.String(),
    warning: Type.Union([Type.String(), Type.Null()], {
      description: 'Why no mail can come to it; null: it can',
    }),
    ...triggerTimes,
  }),
  Type.Object(
    {
      id: Type.String({ description: 'fi_…' }),
      type: Type.Enum(['on_failure']),
      ...triggerTimes,
    },
    { description: 'A failed run of another workflow of the owner' },
  ),
  Type.Object({
    id: Type.String({ description: 'ti_…' }),
    type: Type.Enum(['timer']),
    interval_seconds: Type.Union([Type.Integer(), Type.Null()]),
    cron: StringOrNull,
    timezone: Type.String({ description: 'IANA zone of cron' }),
    schedule_changed_at: Type.Integer({ description: 'Epoch seconds' }),
    ...triggerTimes,
  }),
  Type.Intersect([Type.Object({ type: Type.Enum(['source']) }), Source]),
]);

/** Specification, section 2, Workflow. */
const workflowFields = {
  id: Type.String({ description: 'p_…' }),
  name: Type.String(),
  active: Type.Boolean(),
  health: Health,
  steps: Type.Array(Step),
  triggers: Type.Array(Trigger),
  settings: Settings,
  warnings: Type.Array(Type.String(), {
    description:
      'Addition: steps that call a workflow which the owner does not have, or which is inactive: a call block, or $.flow.trigger with a plain id in code',
  }),
  owner_id: Type.String(),
  project_id: StringOrNull,
  deployment_id: Type.String({ description: 'd_… that new events run' }),
  created_at: Type.Integer({ description: 'Epoch seconds' }),
  updated_at: Type.Integer({ description: 'Epoch seconds' }),
};
export const Workflow = Type.Object(workflowFields, { additionalProperties: true });

/** In lists, with an addition. */
export const ListedWorkflow = Type.Object(
  {
    ...workflowFields,
    last_run: Type.Union([
      Type.Object({
        id: Type.String(),
        state: OneOf(runStates),
        created_at: Type.String({ description: 'ISO 8601' }),
      }),
      Type.Null(),
    ]),
  },
  { additionalProperties: true },
);

export const WorkflowDeployment = Type.Object(
  {
    id: Type.String({ description: 'd_…' }),
    workflow_id: Type.String(),
    number: Type.Integer({ description: 'Counts the versions of the workflow from 1' }),
    template_id: StringOrNull,
    user_id: Type.String({ description: 'The user who deployed it' }),
    owner_id: Type.String(),
    steps: Type.Array(Step),
    settings: Settings,
    created_at: Type.Integer({ description: 'Epoch seconds' }),
  },
  { additionalProperties: true },
);
