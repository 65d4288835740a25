/** Never edited once released: a change is a new migration. */
export const flowControlMigration = {
  name: '0025-flow-control',
  statements: [
    `alter table workflows add column flow_control text`,
    `create table flow_queues (
      workflow_id text primary key, owner_id text not null, flow_control text, rate_key text, rate_limit integer,
      rate_seconds integer, wake_ms bigint, started bigint not null default 0, skipped bigint not null default 0,
      replaced bigint not null default 0, debounced bigint not null default 0, batched bigint not null default 0)`,
    `create index flow_queues_to_wake on flow_queues (wake_ms) where wake_ms is not null`,
    `create index flow_queues_by_rate on flow_queues (rate_key) where rate_key is not null`,
    `create table flow_groups (
      workflow_id text not null, group_key text not null, concurrency_key text not null, throttle_key text not null,
      rate_key text, blocked_by text, wake_ms bigint, served_ms bigint not null, primary key (workflow_id, group_key))`,
    `create index flow_groups_to_wake on flow_groups (workflow_id, wake_ms) where wake_ms is not null`,
    `create index flow_groups_blocked on flow_groups (workflow_id, concurrency_key, served_ms) where wake_ms is null`,
    `create index flow_groups_by_rate on flow_groups (rate_key, workflow_id) where blocked_by = 'rate_limit'`,
    `create table flow_runs (
      run_id text primary key, workflow_id text not null, owner_id text not null, state text not null,
      group_key text not null, concurrency_key text not null, throttle_key text not null, singleton_key text,
      coalesce_key text, rate_key text, place_ms bigint not null, arrived_ms bigint not null, first_ms bigint not null,
      due_ms bigint, bytes bigint not null, started_ms bigint, warning text)`,
    `create index flow_runs_waiting on flow_runs (workflow_id, group_key, place_ms, run_id) where state = 'waiting'`,
    `create index flow_runs_collected on flow_runs (workflow_id, coalesce_key, arrived_ms, run_id) where state = 'collected'`,
    `create index flow_runs_due on flow_runs (workflow_id, due_ms) where due_ms is not null`,
    `create index flow_runs_started on flow_runs (workflow_id, concurrency_key) where state = 'started'`,
    `create index flow_runs_singleton on flow_runs (workflow_id, singleton_key) where singleton_key is not null`,
    `create index flow_runs_throttled on flow_runs (workflow_id, throttle_key, started_ms) where started_ms is not null`,
    `create index flow_runs_rated on flow_runs (rate_key, started_ms) where rate_key is not null and started_ms is not null`,
  ],
};
