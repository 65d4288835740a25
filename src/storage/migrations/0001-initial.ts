/** Never edited once released: a change is a new migration. */
export const initialMigration = {
  name: '0001-initial',
  statements: [
    `create table users (
      id text primary key, username text not null unique, email text not null unique,
      is_admin integer not null, created_at_ms bigint not null)`,
    `create table api_keys (
      id text primary key, user_id text not null references users (id) on delete cascade, name text not null,
      key_hash text not null unique, key_hint text not null, created_at_ms bigint not null,
      last_used_at_ms bigint, revoked_at_ms bigint)`,
    `create index api_keys_by_user on api_keys (user_id)`,
    `create table workspaces (
      id text primary key, orgname text not null unique, name text not null, email text not null,
      created_at_ms bigint not null)`,
    `create table members (
      workspace_id text not null references workspaces (id) on delete cascade,
      user_id text not null references users (id) on delete cascade,
      role text not null, created_at_ms bigint not null, primary key (workspace_id, user_id))`,
    `create index members_by_user on members (user_id)`,
    `create table projects (
      id text primary key, hid text not null, name text not null, repository_id text, repository_path text,
      org_id text not null references workspaces (id) on delete cascade, exceptions text,
      allow_support integer not null, created_at_ms bigint not null, updated_at_ms bigint not null)`,
    `create index projects_by_workspace on projects (org_id, created_at_ms)`,
    `create table usage_days (
      owner_id text not null, day text not null, invocations bigint not null, compute_ms bigint not null,
      credits bigint not null, primary key (owner_id, day))`,
    `create table accounts (
      id text primary key, owner_id text not null, user_id text not null, app_slug text not null,
      app_id text not null, app_name text not null, name text, sealed text not null,
      created_at_ms bigint not null, updated_at_ms bigint not null)`,
    `create index accounts_by_owner on accounts (owner_id, created_at_ms, id)`,
    `create table data_keys (
      owner_id text not null, key_id text not null, wrapped text not null, created_at_ms bigint not null,
      primary key (owner_id, key_id))`,
    `create table components (
      id text primary key, owner_id text not null, user_id text not null, component_key text, code text not null,
      code_hash text not null, tree_hash text not null, url text, name text not null, version text not null,
      shape text not null, bundle_hash text not null, lock text not null, created_at_ms bigint not null,
      updated_at_ms bigint not null)`,
    `create index components_by_key on components (owner_id, component_key, created_at_ms)`,
    `create index components_by_tree on components (owner_id, tree_hash)`,
    `create index components_by_code on components (owner_id, code_hash)`,
    `create table bundles (
      owner_id text not null, hash text not null, format text not null, code text not null,
      created_at_ms bigint not null, primary key (owner_id, hash))`,
    `create table sources (
      id text primary key, owner_id text not null, user_id text not null, component_id text not null,
      name text not null, name_slug text not null, configured_props text not null, dynamic_props text,
      state text not null, endpoint_key text unique, revision bigint not null,
      created_at_ms bigint not null, updated_at_ms bigint not null, unique (owner_id, name_slug))`,
    `create index sources_by_owner on sources (owner_id, created_at_ms, id)`,
    `create table timers (
      id text primary key, source_id text not null references sources (id) on delete cascade,
      owner_id text not null, prop text not null, interval_seconds bigint, cron text, timezone text not null,
      next_at_ms bigint not null, schedule_changed_at_ms bigint not null, created_at_ms bigint not null,
      updated_at_ms bigint not null)`,
    `create index timers_by_next on timers (next_at_ms)`,
    `create index timers_by_source on timers (source_id)`,
    `create table ticks (
      source_id text not null, timer_id text not null, owner_id text not null, planned_at_ms bigint not null,
      recorded_at_ms bigint not null, outcome text not null, reason text, ticks bigint not null)`,
    `create index ticks_by_source on ticks (source_id, planned_at_ms)`,
    `create table emitters (
      id text primary key, owner_id text not null, last_ms bigint not null, last_seq bigint not null,
      dedupe text not null)`,
    `create table component_dbs (source_id text primary key, owner_id text not null, db text not null)`,
    `create table events (
      emitter_id text not null, channel text not null, ms bigint not null, seq bigint not null,
      owner_id text not null, emit_id text not null, given_id text, summary text, ts_ms bigint, event text not null,
      deliver_channel text, deliver_at_ms bigint, hops integer not null,
      primary key (emitter_id, channel, ms, seq))`,
    `create table jobs (
      id text primary key, kind text not null, owner_id text not null, lane text, state text not null,
      run_at_ms bigint not null, attempts integer not null, lease_node text, payload text not null, error text,
      created_at_ms bigint not null, updated_at_ms bigint not null)`,
    `create index jobs_queued on jobs (run_at_ms, created_at_ms) where state = 'queued'`,
    `create index jobs_running on jobs (lease_node) where state = 'running'`,
    `create index jobs_by_lane on jobs (lane) where lane is not null`,
    `create index jobs_quarantined on jobs (updated_at_ms) where state = 'quarantined'`,
    `create index jobs_queued_by_lane on jobs (lane, run_at_ms, created_at_ms) where state = 'queued'`,
    `create table nodes (
      id text primary key, started_at_ms bigint not null, expires_at_ms bigint not null)`,
  ],
};
