/** Never edited once released: a change is a new migration. */
export const workflowsMigration = {
  name: '0004-workflows',
  statements: [
    `create table workflows (
      id text primary key, owner_id text not null, user_id text not null, project_id text, name text not null,
      state text not null, deployment_id text not null, created_at_ms bigint not null, updated_at_ms bigint not null)`,
    `create index workflows_by_owner on workflows (owner_id, created_at_ms, id)`,
    `create index workflows_by_project on workflows (project_id, created_at_ms, id) where project_id is not null`,
    `create table deployments (
      id text primary key, workflow_id text not null, owner_id text not null, user_id text not null,
      number integer not null, template_id text, definition text not null, created_at_ms bigint not null,
      unique (workflow_id, number))`,
    `create index deployments_by_workflow on deployments (workflow_id, created_at_ms, id)`,
    `create table deployment_accounts (
      deployment_id text not null, account_id text not null, owner_id text not null,
      primary key (deployment_id, account_id))`,
    `create index deployment_accounts_by_account on deployment_accounts (account_id)`,
    `create table triggers (
      workflow_id text not null, id text not null, owner_id text not null, kind text not null, position integer not null,
      key text unique, custom_response integer not null, auth text, interval_seconds bigint, cron text,
      timezone text not null, owned integer not null, schedule_changed_at_ms bigint not null,
      created_at_ms bigint not null, updated_at_ms bigint not null, primary key (workflow_id, id))`,
    `create index triggers_by_id on triggers (id)`,
    `create table templates (
      id text not null, owner_id text not null, user_id text not null, name text not null, definition text not null,
      created_at_ms bigint not null, primary key (id, owner_id))`,
    `create index templates_by_owner on templates (owner_id, created_at_ms, id)`,
    `create table runs (
      id text primary key, owner_id text not null, workflow_id text not null, deployment_id text not null,
      state text not null, emitter_id text, source_type text not null, event text not null, trace_id text not null,
      token text not null, hops integer not null, no_store integer not null, replay_of text, wait_kind text,
      wait_until_ms bigint, position integer not null, resumption text, failures integer not null, error text,
      reason text, created_at_ms bigint not null, started_at_ms bigint, ended_at_ms bigint)`,
    `create index runs_by_workflow on runs (workflow_id, created_at_ms, id)`,
    `create index runs_unfinished on runs (workflow_id, state) where ended_at_ms is null`,
    `create table run_steps (
      run_id text not null, owner_id text not null, workflow_id text not null, position integer not null,
      try integer not null, step_id text not null, namespace text not null, state text not null, input text,
      exports text not null, logs text not null, error text, started_at_ms bigint not null, ended_at_ms bigint not null,
      primary key (run_id, position, try))`,
    `create table run_resumes (
      run_id text not null, owner_id text not null, position integer not null, kind text not null,
      request text not null, created_at_ms bigint not null, primary key (run_id, position))`,
    `create table run_sends (
      run_id text not null, number integer not null, owner_id text not null, workflow_id text not null,
      kind text not null, payload text not null, state text not null, result text, created_at_ms bigint not null,
      ended_at_ms bigint, primary key (run_id, number))`,
    `create table data_stores (
      id text primary key, owner_id text not null, user_id text not null, name text not null,
      entries bigint not null, bytes bigint not null, created_at_ms bigint not null, updated_at_ms bigint not null,
      unique (owner_id, name))`,
    `create index data_stores_by_owner on data_stores (owner_id, created_at_ms, id)`,
    `create table data_store_entries (
      store_id text not null, key text not null, owner_id text not null, value text not null, expires_at_ms bigint,
      created_at_ms bigint not null, updated_at_ms bigint not null, primary key (store_id, key))`,
    `create index data_store_entries_expiring on data_store_entries (expires_at_ms) where expires_at_ms is not null`,
    `create table files (
      id text primary key, owner_id text not null, folder text not null, path text not null,
      content_type text not null, size bigint not null, sha256 text not null, complete integer not null,
      expires_at_ms bigint, created_at_ms bigint not null, updated_at_ms bigint not null)`,
    `create unique index files_by_path on files (owner_id, folder, path) where complete = 1`,
    `create index files_expiring on files (expires_at_ms) where expires_at_ms is not null`,
    // What an owner keeps is summed up from this index alone.
    `create index files_by_owner on files (owner_id, complete, size)`,
    // SQLite keeps bytes as they are under any type name.
    `create table file_chunks (
      file_id text not null, number integer not null, owner_id text not null, bytes bytea not null,
      primary key (file_id, number))`,
    `create table owner_quotas (
      owner_id text primary key, credits bigint, compute_ms bigint, invocations bigint, enforced integer,
      billing_period_start_ms bigint, updated_at_ms bigint not null)`,
    // Timers of sources and of workflows: what they belong to is `subject_id`, a dc_ or a p_ id.
    `create table timers_of_subjects (
      id text primary key, subject_id text not null, owner_id text not null, prop text not null,
      interval_seconds bigint, cron text, timezone text not null, next_at_ms bigint not null,
      schedule_changed_at_ms bigint not null, created_at_ms bigint not null, updated_at_ms bigint not null)`,
    `insert into timers_of_subjects (id, subject_id, owner_id, prop, interval_seconds, cron, timezone, next_at_ms,
        schedule_changed_at_ms, created_at_ms, updated_at_ms)
      select id, source_id, owner_id, prop, interval_seconds, cron, timezone, next_at_ms, schedule_changed_at_ms,
        created_at_ms, updated_at_ms from timers`,
    `drop table timers`,
    `alter table timers_of_subjects rename to timers`,
    `create index timers_by_next on timers (next_at_ms)`,
    `create index timers_by_subject on timers (subject_id)`,
    `alter table ticks rename column source_id to subject_id`,
  ],
};
