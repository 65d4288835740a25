export const sourceStates = ['deploying', 'active', 'inactive'] as const;
export type SourceState = (typeof sourceStates)[number];

/** An event source (dc_…). */
export interface SourceTable {
  id: string;
  owner_id: string;
  user_id: string;
  component_id: string;
  name: string;
  /** Unique per owner. */
  name_slug: string;
  /** JSON object of values as the caller gave them, without those of secret props. */
  configured_props: string;
  /** JSON object of the values of secret props, each sealed (vault/vault.ts) for this source and prop; null: none. */
  sealed_props: string | null;
  /** JSON object of definitions returned by additionalProps, by name; null when there are none. */
  dynamic_props: string | null;
  /** JSON array of the app events that it listens to (sources/apphooks.ts); null: no apphook prop. */
  apphooks: string | null;
  state: SourceState;
  /**
   * The change under way (creating, updating or removing it), which alone may write this row; null: none. Set before the
   * first hook and cleared by the write that ends the change, so what a crash interrupts is found and undone.
   */
  change_id: string | null;
  /** The node that does the change. */
  change_node: string | null;
  /** JSON of what the source was before the change (sources/source-change.ts); null while it is created. */
  before_change: string | null;
  /** Key of the HTTP endpoint, null for sources without one. */
  endpoint_key: string | null;
  /** Maximum of simultaneous runs on each node; 1: one after another over all nodes, each sees the state of the one before. */
  concurrency: number;
  /** JSON of when its runs may begin (flow-control/flow-control.ts); null: at once. */
  flow_control: string | null;
  /** 1: its code runs in a process that no other code of the owner shares. */
  isolated: number;
  /** Grows with every change of code or props: code is evaluated again for another revision. */
  revision: number;
  created_at_ms: number;
  updated_at_ms: number;
}

/**
 * Accounts that a source uses, each added by a user who may use it. The owner is that of the account: a run opens
 * accounts of the source's owner and of these.
 */
export interface SourceAccountTable {
  source_id: string;
  account_id: string;
  owner_id: string;
}

/** What a run answered to a request that came to another node, until that node has read it. */
export interface SourceReplyTable {
  job_id: string;
  /** Where the caller waits. */
  node: string;
  /** JSON text of the reply (runner/call-outcome.ts); null: the run ended without one. */
  reply: string | null;
  created_at_ms: number;
}

/** One name of the events of an app that a source listens to: `apphooks` of its row, to be found by it. */
export interface SourceApphookTable {
  source_id: string;
  owner_id: string;
  /** Slug. */
  app: string;
  /** As in the component; `*` matches any text. */
  event_name: string;
  /** The key of the look-up: the name or, if it has a `*`, its part up to and including the first one. */
  lookup: string;
}

/** The schedule of one timer prop or timer trigger. `next_at_ms` is the truth; nothing in memory is. */
export interface TimerTable {
  /** `<source id>:<prop>`, or the ti_ id. */
  id: string;
  /** The source (dc_…) or workflow (p_…) it belongs to. */
  subject_id: string;
  owner_id: string;
  /** The timer prop of a source; the ti_ id of a workflow's trigger. */
  prop: string;
  interval_seconds: number | null;
  cron: string | null;
  /** IANA zone; cron is in this zone's local time. */
  timezone: string;
  next_at_ms: number;
  schedule_changed_at_ms: number;
  created_at_ms: number;
  updated_at_ms: number;
}

/** `missed`: the service was down, or late by more than a period. */
export const ledgerOutcomes = ['fired', 'late', 'skipped', 'missed'] as const;
export type LedgerOutcome = (typeof ledgerOutcomes)[number];

export const tickRunStates = ['started', 'succeeded', 'failed'] as const;
export type TickRunState = (typeof tickRunStates)[number];

/** The schedule ledger: the outcome of each planned tick. */
export interface TickTable {
  /** dc_… or p_… */
  subject_id: string;
  timer_id: string;
  owner_id: string;
  planned_at_ms: number;
  recorded_at_ms: number;
  outcome: LedgerOutcome;
  /** In words: by how much it was late, or why nothing ran. */
  reason: string | null;
  /** How many planned ticks this row represents (missed while the service was down: one row). */
  ticks: number;
  /** The run of a workflow (its outcome is in `runs`); null for sources. */
  run_id: string | null;
  /** The state of a source's run, or `started` for a workflow; null: the tick has no run, or is older than this column. */
  run_state: TickRunState | null;
  /** Why the run failed, without secrets. */
  run_error: string | null;
  run_ended_at_ms: number | null;
}
