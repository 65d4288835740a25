export const workflowStates = ['active', 'inactive'] as const;
export type WorkflowState = (typeof workflowStates)[number];

/** A workflow (p_…). What it does is in its deployments; this row says which of them new events use, and whether any do. */
export interface WorkflowTable {
  id: string;
  owner_id: string;
  user_id: string;
  /** proj_… of the same workspace; null for workflows of no project. */
  project_id: string | null;
  name: string;
  state: WorkflowState;
  /** The deployment that new events run; runs keep the one they began with. */
  deployment_id: string;
  /** JSON of the `FlowControl` of that deployment (workflows/definitions/flow-control.ts); null: its runs begin at once. */
  flow_control: string | null;
  created_at_ms: number;
  updated_at_ms: number;
}

/** One version of a workflow (d_…). Written once and never changed, except that its secrets are resealed. */
export interface DeploymentTable {
  id: string;
  workflow_id: string;
  owner_id: string;
  user_id: string;
  /** Counts the deployments of a workflow from 1. */
  number: number;
  /** The template it was made from; null when a definition was given. */
  template_id: string | null;
  /** JSON of a `WorkflowDefinition` (workflows/definitions/workflow-definition.ts). */
  definition: string;
  created_at_ms: number;
}

/** A deployment as it is stored. */
export interface StoredDeploymentTable extends DeploymentTable {
  /** 0: stored by an older version, and its components are not in `deployment_components` yet. */
  components_listed: number;
}

/** The saved components that the steps of a deployment run: these are not removed. */
export interface DeploymentComponentTable {
  component_id: string;
  deployment_id: string;
}

/**
 * Accounts that the steps of a deployment use, each added by a user who may use it. A run opens accounts of the
 * workflow's owner and of these owners.
 */
export interface DeploymentAccountTable {
  deployment_id: string;
  account_id: string;
  owner_id: string;
}

/** on_failure: a run of another workflow of the owner fails. */
export const triggerKinds = ['http', 'timer', 'email', 'source', 'on_failure'] as const;
export type TriggerKind = (typeof triggerKinds)[number];

/**
 * What starts runs of a workflow. A source trigger is beside it a subscription of the workflow to the source, and one of kind on_failure a
 * subscription to the errors of all workflows of the owner.
 */
export interface TriggerTable {
  workflow_id: string;
  /** hi_…, ti_…, ei_…, fi_…; of a source trigger the source's dc_… */
  id: string;
  owner_id: string;
  kind: TriggerKind;
  /** Place in the workflow's list, from 0. */
  position: number;
  /** http: `eo` and 13 base36 characters; email: `em` and 13. Unique. */
  key: string | null;
  /** http: 1 when the reply is `$.respond`. */
  custom_response: number;
  /** http: JSON, sealed: the bearer token that callers must send; null: no token is needed. */
  auth: string | null;
  interval_seconds: number | null;
  cron: string | null;
  /** IANA zone of `cron`. */
  timezone: string;
  /** source: 1 when the source was created with the workflow, and is removed with it. */
  owned: number;
  schedule_changed_at_ms: number;
  created_at_ms: number;
  updated_at_ms: number;
}

/**
 * A template (tch_…): a definition without accounts and secrets. The id is made from the content, so the same
 * definition has the same id; any user who knows it may use the template. A row per owner who made it.
 */
export interface TemplateTable {
  id: string;
  owner_id: string;
  user_id: string;
  name: string;
  /** JSON of a `TemplateDefinition` (workflows/definitions/template.ts). */
  definition: string;
  created_at_ms: number;
}

/** An event (te_…) that is kept with a workflow to try it. */
export interface TestEventTable {
  id: string;
  workflow_id: string;
  owner_id: string;
  /** Unique in the workflow. */
  name: string;
  /** JSON text: `steps.trigger.event`. */
  event: string;
  source_type: RunSourceType;
  created_at_ms: number;
}

/** The ways between them: workflows/runs/run-states.md. */
export const runStates = [
  'queued',
  'running',
  'waiting',
  'succeeded',
  'failed',
  'cancelled',
  'quarantined',
  'not_triggered',
] as const;
export type RunState = (typeof runStates)[number];

/** `steps.trigger.context.source_type`. */
export const runSourceTypes = ['HTTP', 'TIMER', 'EMAIL', 'COMPONENT', 'WORKFLOW', 'SDK'] as const;
export type RunSourceType = (typeof runSourceTypes)[number];

/**
 * What a run waits for: `$.flow.delay`, `suspend` and `rerun`, the next try of a failed step, the run that a `call` block has begun, or (`branches`) the waits of steps that run at the
 * same time, which are in `run_waits`.
 */
export const waitKinds = ['delay', 'suspend', 'rerun', 'retry', 'call', 'branches'] as const;
export type WaitKind = (typeof waitKinds)[number];

/**
 * One execution of a workflow for one event. States and what moves them: runs/run-states.md. While the state is
 * not terminal there is exactly one job `run_workflow` with the id of the run: it holds the lease, and the time at which
 * a waiting run continues.
 */
export interface RunTable {
  /** Time-ordered, 27 base62 characters; `steps.trigger.context.id`. */
  id: string;
  owner_id: string;
  workflow_id: string;
  deployment_id: string;
  state: RunState;
  /** What started it: hi_, ti_, ei_, dc_ or p_ id; null: a user. */
  emitter_id: string | null;
  source_type: RunSourceType;
  /** JSON text: `steps.trigger.event`. */
  event: string;
  /** The same for all retries and replays of one event. */
  trace_id: string;
  /** The secret that the tokens of its resume and cancel URLs are made with (workflows/runs/run-link.ts). */
  token: string;
  hops: number;
  /** Nothing of it is kept when it ends (`x-pd-nostore`). */
  no_store: number;
  /** The run that this one repeats; null: a new event. */
  replay_of: string | null;
  /** Null unless it waits. */
  wait_kind: WaitKind | null;
  wait_until_ms: number | null;
  /** Index of the step that waits, or that ended the run. */
  position: number;
  /** JSON of what the next call of the waiting step needs (runs/run.ts, `RunResumption`); null: nothing. */
  resumption: string | null;
  /** Failures of the step at `position` so far, for the retries of a workflow. */
  failures: number;
  /** JSON `{ code, msg, cell_id, namespace, stack, ts }`, redacted; null while there is none. */
  error: string | null;
  /** In words, why it ended before its last step: the reason of `$.flow.exit`, or who cancelled; null. */
  reason: string | null;
  /** What is wrong with the keys of its event (flow control), in words, redacted; null: nothing. */
  flow_warning: string | null;
  created_at_ms: number;
  started_at_ms: number | null;
  ended_at_ms: number | null;
}

/** workflows/runs/run-states.md says what follows from each; a step that is disabled, was not reached, or has not ended, has no row. */
export const stepStates = ['succeeded', 'failed', 'waiting', 'caught'] as const;
export type StepState = (typeof stepStates)[number];

/** A finished, failed or waiting step of a run, as it was recorded; a finished one never runs again. */
export interface RunStepTable {
  run_id: string;
  owner_id: string;
  workflow_id: string;
  /** Index of the step in its deployment. */
  position: number;
  /** Indexes of the items of the maps around the step, as `3` or `3-17`; '' outside of maps. */
  iteration: string;
  /** Numbers of the attempts of the blocks with retries around the step, as `2` or `2-1`, the outermost first; '' outside of such blocks. */
  attempt: string;
  /** Counts the tries of this step, in all attempts of its blocks, from 1; the last one counts. */
  try: number;
  step_id: string;
  namespace: string;
  state: StepState;
  /** JSON object: props as the step got them, secrets masked; null when they could not be evaluated. */
  input: string | null;
  /** JSON object: exports by name, `$return_value`, `$summary`. */
  exports: string;
  /** JSON array of `{ ts, level, message }`. */
  logs: string;
  /** JSON as in `RunTable`; null: it did not fail. */
  error: string | null;
  started_at_ms: number;
  ended_at_ms: number;
}

/** What the two URLs do that `$.flow.suspend`, `delay` and `rerun` answer. */
export const linkActions = ['resume', 'cancel'] as const;
export type LinkAction = (typeof linkActions)[number];

/**
 * A resume or cancel URL that was used, kept as long as the run: so each wait is answered once. One that was used before its step had
 * ended is taken up when the step waits.
 */
export interface RunResumeTable {
  run_id: string;
  owner_id: string;
  position: number;
  /** As in `RunStepTable`. */
  iteration: string;
  /** The try of the step, as in `RunStepTable`: each try has links of its own. */
  try: number;
  kind: LinkAction;
  /** JSON of the request; null once the run has it. */
  request: string | null;
  created_at_ms: number;
}

/** A wait of a step in a branch of a parallel block or in a map, while other steps of the run may run. */
export interface RunWaitTable {
  run_id: string;
  owner_id: string;
  position: number;
  iteration: string;
  kind: WaitKind;
  until_ms: number;
  /** As in `RunTable`. */
  failures: number;
  resumption: string | null;
}

/** The kinds of `$.send`. */
export const sendKinds = ['http', 'email', 's3', 'sse', 'emit'] as const;
export type SendKind = (typeof sendKinds)[number];

export const sendStates = ['queued', 'sent', 'failed'] as const;
export type SendState = (typeof sendStates)[number];

/** What a run sends when it has ended (`$.send.http`, `email`, `s3`, `sse`), and the outcome. */
export interface RunSendTable {
  run_id: string;
  number: number;
  owner_id: string;
  workflow_id: string;
  kind: SendKind;
  /** JSON text of the argument. */
  payload: string;
  state: SendState;
  /** JSON of the answer, or why it failed; null while queued. */
  result: string | null;
  created_at_ms: number;
  ended_at_ms: number | null;
}

/** A key-value store shared by the workflows of an owner (ds_…). */
export interface DataStoreTable {
  id: string;
  owner_id: string;
  user_id: string;
  /** Unique per owner. */
  name: string;
  /** What is in it, counted by every write: entries, expired ones too until they are pruned, and bytes of their keys and values. */
  entries: number;
  bytes: number;
  created_at_ms: number;
  updated_at_ms: number;
}

export interface DataStoreEntryTable {
  store_id: string;
  key: string;
  owner_id: string;
  /** JSON text. */
  value: string;
  expires_at_ms: number | null;
  created_at_ms: number;
  updated_at_ms: number;
}
