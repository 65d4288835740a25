/** What a job does; `JobPayloads` (jobs/job-kinds.ts) says what each needs. */
export const jobKinds = [
  'run_source',
  'delete_events',
  'deliver_scheduled_event',
  'fan_out_event',
  'change_deliveries',
  'fan_out_apphook',
  'run_workflow',
  'delete_workflow',
  'send_from_run',
  'queue_replay',
  'update_repository',
  'import_project',
  'delete_owner',
] as const;
export type JobKind = (typeof jobKinds)[number];

/** The comment of `JobTable` has the ways between them. */
export const jobStates = ['queued', 'running', 'quarantined'] as const;
export type JobState = (typeof jobStates)[number];

/**
 * Work that must happen. States and their ways:
 *
 *   queued -> running     claimed by a node (attempts + 1), or inserted running by the node that accepted it
 *   running -> (deleted)  settled; what it caused commits in the same transaction
 *   running -> queued     its node's lease expired, or the attempt could not be stored: run again after a backoff
 *   running -> quarantined  it was to blame too often (`blames`)
 *   queued -> (deleted)   its subject was removed
 *
 * Only the node that holds a row (`lease_node` and `attempts` both match) may settle it: compare-and-swap.
 */
export interface JobTable {
  id: string;
  kind: JobKind;
  owner_id: string;
  /** Jobs of one lane are claimed oldest first, by one node at a time unless it is shared (jobs/shared-lane.ts); null: no order. */
  lane: string | null;
  state: JobState;
  run_at_ms: number;
  attempts: number;
  /** How often its node died under it since it last made progress, for whatever reason. */
  losses: number;
  /** So often there is evidence that it is at fault: it failed, its sandbox died, or its node died while it ran there alone. */
  blames: number;
  /** 1: nothing else has begun on its node since this one began. */
  alone: number;
  /** The node that runs it; for a quarantined job, the node that has still to report it; null: none. */
  lease_node: string | null;
  /** JSON text, by kind (jobs/job-kinds.ts). */
  payload: string;
  error: string | null;
  created_at_ms: number;
  updated_at_ms: number;
}

/** A process. Its jobs are leased to it while `expires_at_ms` is ahead; one heartbeat renews them all. */
export interface NodeTable {
  id: string;
  started_at_ms: number;
  expires_at_ms: number;
  /** 1: it has the worker role. */
  claims: number;
}

/**
 * `synchronized`: the clock of this machine agrees with that of the database. `corrected`: it does not, and only the
 * correction makes the due times of this node right. `unreliable`: it is so far off that something is broken, and
 * which of the two clocks is right is unknown.
 */
export const clockStates = ['synchronized', 'corrected', 'unreliable'] as const;
export type ClockState = (typeof clockStates)[number];

/** What a node said of itself last. Unlike its lease, it is kept for an hour after the node is gone. */
export interface NodeStateTable {
  id: string;
  started_at_ms: number;
  /** Its last heartbeat. */
  seen_at_ms: number;
  /** Without a heartbeat for so long it counts as gone. */
  lease_ms: number;
  /** Null: the store has no clock of its own. */
  clock_state: ClockState | null;
  clock_offset_ms: number | null;
  clock_since_ms: number | null;
  /** Null: it is not stopping. */
  stopping_since_ms: number | null;
}

/**
 * Whose turn a lane is, over all nodes: only this node runs jobs of it, and delivers to the source whose lane it is. Rows of
 * a node that is gone are removed once nothing is leased to it. The embedded store has one node, and no rows.
 */
export interface LaneLeaseTable {
  lane: string;
  node: string;
}

/** The last write by which a process proved that the store takes writes (storage/write-probe.ts). */
export interface WriteProbeTable {
  id: string;
  at_ms: number;
  fill: string;
}
