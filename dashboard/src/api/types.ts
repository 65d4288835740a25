/** Answers of the public API, as far as the pages read them. Times are epoch seconds unless they say ms. */

export interface Page<T> {
  page_info: { total_count?: number; count: number; start_cursor?: string; end_cursor?: string };
  data: T[];
}

export interface Workspace {
  id: string;
  orgname: string;
  name: string;
  daily_credits_quota: number;
  daily_credits_used: number;
  daily_compute_time_quota: number;
  daily_compute_time_used: number;
  daily_invocations_quota: number;
  daily_invocations_used: number;
}

export interface Me {
  id: string;
  username: string;
  email: string;
  /** Absent on the paid plan. */
  daily_compute_time_quota?: number;
  daily_compute_time_used?: number;
  daily_invocations_quota?: number;
  daily_invocations_used?: number;
  orgs?: Workspace[];
}

export interface Member {
  user_id: string;
  username: string;
  email: string;
  role: 'admin' | 'member' | 'viewer';
  /** Seconds since 1970. */
  created_at: number;
}

export type HealthState = 'healthy' | 'failing' | 'paused' | 'disabled' | 'waiting' | 'untested';
export type HealthKind = 'source' | 'workflow' | 'webhook' | 'account';

/** What happened last, of sources, workflows, webhooks and accounts. */
export interface Health {
  state: HealthState;
  /** Epoch seconds. */
  since: number | null;
  reason: string | null;
  failures: number;
  waiting: number;
}

export interface Source {
  id: string;
  user_id: string;
  owner_id: string;
  component_id: string;
  configured_props: Record<string, unknown>;
  active: boolean;
  health: Health;
  created_at: number;
  updated_at: number;
  name: string;
  name_slug: string;
}

export interface PropDefinition {
  name: string;
  type: string;
  label?: string;
  description?: string;
  optional?: boolean;
  default?: unknown;
  app?: string;
  options?: unknown[];
  remoteOptions?: boolean;
  useQuery?: boolean;
  reloadProps?: boolean;
  withLabel?: boolean;
  secret?: boolean;
  hidden?: boolean;
  disabled?: boolean;
  min?: number;
  max?: number;
  static?: unknown;
  content?: string;
  alertType?: string;
}

export interface Component {
  id: string;
  code: string;
  key?: string;
  name: string;
  version: string;
  description?: string;
  type: string;
  configurable_props: PropDefinition[];
}

export interface ListedComponent {
  key: string;
  name: string;
  version: string;
  description: string;
  type: 'source' | 'action';
  app: string;
  app_details: { name: string } | null;
  /** null: it comes with the service. */
  package: { name: string; version: string } | null;
}

export interface EventSummary {
  /** `<ms>-<sequence>` */
  id: string;
  indexed_at_ms: number;
  event: unknown;
  truncated?: boolean;
  metadata: { emit_id: string; name: string; emitter_id: string; summary?: string; [field: string]: unknown };
}

export interface LogLine {
  id: string;
  /** Epoch ms. */
  ts: number;
  level: string;
  message: string;
  error?: Record<string, string>;
}

export interface Account {
  id: string;
  user_id: string;
  owner_id: string;
  name: string | null;
  app: { id: string; name: string; name_slug: string };
  health: Health;
  healthy: boolean;
  dead: boolean;
  error: string | null;
  authorized_scopes: string[] | null;
  /** ISO 8601, as all times of accounts. */
  last_refreshed_at: string | null;
  next_refresh_at: string | null;
  checked_at: string | null;
  created_at: string;
  updated_at: string;
}

export interface Subscription {
  id: string;
  emitter_id: string;
  listener_id: string;
  event_name: string;
  /** Who made it. */
  user_id: string;
  created_at: number;
}

export interface Webhook {
  id: string;
  owner_id: string;
  name: string | null;
  description: string | null;
  url: string;
  state: 'active' | 'paused' | 'disabled';
  health: Health;
  disabled_reason: string | null;
  disabled_at: number | null;
  failing_since: number | null;
  removed_records: number;
  created_at: number;
  updated_at: number;
}

/** Of the answers that create a webhook or rotate its secret, and of no others. */
export interface WebhookSecret {
  signing_secret: string;
  old_secret_valid_until?: number;
}

export interface Attempt {
  at_ms: number;
  latency_ms: number;
  status?: number;
  error?: string;
  response?: string;
}

export interface Delivery {
  /** dlv_… */
  id: string;
  listener_id: string;
  subscription_id: string | null;
  replay_id: string | null;
  emitter_id: string;
  event_name: string;
  event_id: string;
  state: string;
  reason: string | null;
  attempt_count: number;
  attempts: Attempt[];
  status: number | null;
  next_attempt_at: number | null;
  created_at: number;
  ended_at: number | null;
  /** With expand=event, as long as it is kept. */
  event?: unknown;
}

export interface Trouble {
  id: string;
  name: string | null;
  reason: string | null;
  since: number | null;
}

export interface Overview {
  owner_id: string;
  health: Record<'sources' | 'workflows' | 'webhooks' | 'accounts', Record<HealthState, number>>;
  attention: { kind: HealthKind; id: string; name: string; health: Health }[];
  rates: { since: number; minutes: { at: number; events: number; errors: number }[] };
  failing: { id: string; name: string; errors: number; last_at: number }[];
  jobs_waiting: { count: number; oldest_at: number | null };
  deliveries_waiting: { count: number; oldest_at: number | null };
  dead_letters: number;
  quarantined_runs: (Trouble & { workflow_id: string })[];
}

export interface PropChoice {
  label: string;
  value: unknown;
}

export interface ConfigureAnswer {
  options: PropChoice[];
  context: Record<string, unknown>;
  errors: string[];
}

export interface ReloadedProps {
  dynamicProps: { id: string; configurableProps: PropDefinition[] } | null;
  errors: string[];
}
