import type { Health, PropDefinition } from './types.ts';

/** Answers of the public API about workflows and their runs. Times are epoch seconds unless they say ISO 8601. */

export interface WorkflowStep {
  /** c_… */
  id: string;
  namespace: string;
  disabled: boolean;
  /** Of a code cell; null: it is a component. */
  code_raw: string | null;
  component_key: string | null;
  /** JSON; secrets are masked. */
  configured_props_json: string | null;
  /** apn_… by prop. */
  authProvisionIdMap: Record<string, string>;
  savedComponent: {
    id: string;
    code: string;
    key: string | null;
    version: string;
    configurableProps: PropDefinition[];
  } | null;
}

export type WorkflowTrigger = { id: string } & (
  | {
      type: 'http';
      endpoint_url: string;
      custom_response: boolean;
      auth: { type: 'none' | 'static_bearer_token' | 'oauth' };
    }
  | { type: 'email'; email_address: string }
  | { type: 'timer'; interval_seconds: number | null; cron: string | null; timezone: string }
  | { type: 'source'; name: string; active: boolean }
);

export interface WorkflowSettings {
  timeout_seconds: number | null;
  memory_mb: number;
  auto_retry: boolean;
  concurrency: number | null;
  throttle: { limit: number; seconds: number } | null;
  queue_size: number;
}

export interface Workflow {
  /** p_… */
  id: string;
  name: string;
  active: boolean;
  health: Health;
  steps: WorkflowStep[];
  triggers: WorkflowTrigger[];
  settings: WorkflowSettings | null;
  owner_id: string;
  deployment_id: string;
  created_at: number;
  updated_at: number;
}

/** As lists have it when they are asked for no more. */
export type ListedWorkflow = Pick<Workflow, 'id' | 'name' | 'active' | 'health' | 'updated_at'> & {
  /** Its time is ISO 8601. */
  last_run: { id: string; state: string; created_at: string } | null;
};

export interface Deployment {
  /** d_… */
  id: string;
  workflow_id: string;
  /** From 1. */
  number: number;
  user_id: string;
  steps: WorkflowStep[];
  settings: WorkflowSettings | null;
  created_at: number;
}

export interface RunFailure {
  code: string;
  msg: string;
  stack: string;
}

/** All times are ISO 8601. */
export interface Run {
  id: string;
  workflow_id: string;
  deployment_id: string;
  owner_id: string;
  /** See parts/run-state.tsx. */
  state: string;
  emitter_id: string | null;
  source_type: string;
  replay_of: string | null;
  wait: { kind: string; until: string } | null;
  error: (RunFailure & { cellId: string | null; namespace: string | null }) | null;
  reason: string | null;
  created_at: string;
  started_at: string | null;
  ended_at: string | null;
}

/** One try of a step, recorded when it has ended. */
export interface RunStep {
  id: string;
  namespace: string;
  position: number;
  try: number;
  state: string;
  input: unknown;
  exports: unknown;
  /** `ts`: epoch ms. */
  logs: { ts: number; level: string; message: string }[];
  error: RunFailure | null;
  /** ISO 8601. */
  started_at: string;
  /** ISO 8601. */
  ended_at: string;
}

export interface RunSend {
  kind: string;
  payload: unknown;
  state: string;
  result: unknown;
  ended_at: string | null;
}

export interface RunDetail extends Run {
  event: unknown;
  steps: RunStep[];
  sends: RunSend[];
}

/** What came of trying one step. */
export interface StepTestResult {
  state: 'succeeded' | 'failed';
  input: unknown;
  exports: Record<string, unknown> | null;
  logs: { ts: number; level: string; message: string }[];
  error: RunFailure | null;
  flow: unknown;
  response: unknown;
  sends: unknown[];
  duration_ms: number;
}
