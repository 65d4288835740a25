/** The flow control of one workflow or source: its lock, what it was last applied with, and how its events fared. */
export interface FlowQueueTable {
  /** p_… or dc_…; the lock of an account has its id. */
  subject_id: string;
  owner_id: string;
  /** `flow_control` of the workflow or source as the waiting runs were last looked at with it. */
  flow_control: string | null;
  /** The account of `rate_limit`, and the limit: the strictest of all workflows and sources that use the account applies to each. */
  rate_key: string | null;
  rate_limit: number | null;
  rate_seconds: number | null;
  /** When the queue is to be looked at next; null: when something happens to it. */
  wake_ms: number | null;
  /** Runs that were let begin, and events that did not become a run of their own. */
  started: number;
  skipped: number;
  replaced: number;
  debounced: number;
  batched: number;
}

/** Why the runs of a group wait. `source_concurrency`: as many runs of the source are under way as its own `concurrency` allows. */
export const flowBlocks = ['concurrency', 'throttle', 'rate_limit', 'source_concurrency'] as const;
export type FlowBlock = (typeof flowBlocks)[number];

/** Runs of a workflow or source that wait with the same keys. A row exists while some of them wait. */
export interface FlowGroupTable {
  subject_id: string;
  group_key: string;
  concurrency_key: string;
  throttle_key: string;
  rate_key: string | null;
  /** Null: it was not looked at yet. */
  blocked_by: FlowBlock | null;
  /** When it is to be looked at next; null: when a run with its concurrency key has ended. */
  wake_ms: number | null;
  /** When a run of it was last let begin; 0: never. Groups that were served longest ago come first. */
  served_ms: number;
}

/**
 * `collected`: debounced, or in a batch, until `due_ms`. `waiting`: for its turn. `started`: it may run, and holds its place until it
 * has ended. `ended`: kept until `due_ms`, because a throttle or rate limit still counts it.
 */
export const flowRunStates = ['collected', 'waiting', 'started', 'ended'] as const;
export type FlowRunState = (typeof flowRunStates)[number];

/** A run under flow control: a row of `runs`, or the job of a source. */
export interface FlowRunTable {
  run_id: string;
  subject_id: string;
  owner_id: string;
  state: FlowRunState;
  group_key: string;
  /** Keys are texts of at most 130 characters; empty without a key. */
  concurrency_key: string;
  throttle_key: string;
  /** Null: there is no such control, or the run passes it by. */
  singleton_key: string | null;
  coalesce_key: string | null;
  rate_key: string | null;
  /** Its place in the order of its group: when it arrived, earlier or later by its priority. */
  place_ms: number;
  arrived_ms: number;
  /** When the first event of its debounce or batch arrived. */
  first_ms: number;
  due_ms: number | null;
  /** Size of its event. */
  bytes: number;
  started_ms: number | null;
  /** Why a key is empty, or its priority 0, although there is an expression for it. */
  warning: string | null;
}

/** A run of a source that never began, or was replaced: the last hundred of each source. */
export interface FlowUnbegunTable {
  subject_id: string;
  run_id: string;
  owner_id: string;
  /** In words. */
  reason: string;
  ended_ms: number;
}
