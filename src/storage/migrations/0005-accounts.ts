/** Never edited once released: a change is a new migration. */
export const accountsMigration = {
  name: '0005-accounts',
  statements: [
    ...[
      'version bigint not null default 1',
      `grant_type text not null default 'keys'`,
      'oauth_client_id text',
      'authorized_scopes text',
      'expires_at_ms bigint',
      'last_refreshed_at_ms bigint',
      'next_refresh_at_ms bigint',
      'refresh_failures integer not null default 0',
      'healthy integer not null default 1',
      'dead integer not null default 0',
      'error text',
      'checked_at_ms bigint',
      'next_check_at_ms bigint',
      'check_failures integer not null default 0',
      'lease_node text',
      'lease_until_ms bigint',
    ].map((column) => `alter table accounts add column ${column}`),
    // Those that are there are tested like new ones.
    'update accounts set next_check_at_ms = created_at_ms',
    `create index accounts_by_refresh on accounts (next_refresh_at_ms) where next_refresh_at_ms is not null`,
    `create index accounts_by_check on accounts (next_check_at_ms) where next_check_at_ms is not null`,
    `create index accounts_by_client on accounts (oauth_client_id) where oauth_client_id is not null`,
    'alter table data_keys add column retired_at_ms bigint',
    `create table key_rotations (
      kind text primary key, key_id text not null, owner_id text, started_at_ms bigint not null,
      finished_at_ms bigint)`,
    `create table apps (
      owner_id text not null, slug text not null, app_id text not null, user_id text not null,
      definition text not null, created_at_ms bigint not null, updated_at_ms bigint not null,
      primary key (owner_id, slug))`,
    `create table oauth_clients (
      id text primary key, owner_id text not null, user_id text not null, app_slug text not null,
      client_id text not null, sealed_secret text, scopes text, created_at_ms bigint not null,
      updated_at_ms bigint not null, unique (owner_id, app_slug))`,
    `create table connect_flows (
      id text primary key, owner_id text not null, user_id text not null, app_slug text not null,
      oauth_client_id text, account_id text, name text, redirect_url text, link_hash text not null unique,
      browser_hash text, state_hash text unique, sealed text not null, created_at_ms bigint not null,
      expires_at_ms bigint not null, used_at_ms bigint)`,
    `create index connect_flows_expiring on connect_flows (expires_at_ms)`,
    `create table account_audit (
      id text primary key, owner_id text not null, account_id text not null, app_slug text not null,
      action text not null, user_id text, key_id text, details text not null, created_at_ms bigint not null)`,
    `create index account_audit_by_account on account_audit (account_id, created_at_ms, id)`,
    `create index account_audit_by_owner on account_audit (owner_id, created_at_ms, id)`,
    `create index account_audit_by_time on account_audit (created_at_ms)`,
    `create table account_uses (
      account_id text not null, used_by text not null, day text not null, owner_id text not null,
      uses bigint not null, first_used_at_ms bigint not null, last_used_at_ms bigint not null,
      primary key (account_id, used_by, day))`,
    `create index account_uses_by_day on account_uses (day)`,
    `create table api_clients (
      id text primary key, workspace_id text not null references workspaces (id) on delete cascade,
      user_id text not null, name text not null, secret_hash text not null, secret_hint text not null,
      created_at_ms bigint not null, secret_changed_at_ms bigint not null, last_used_at_ms bigint,
      revoked_at_ms bigint)`,
    `create index api_clients_by_workspace on api_clients (workspace_id, created_at_ms)`,
    `create table api_tokens (
      id text primary key, client_id text not null references api_clients (id) on delete cascade,
      workspace_id text not null, token_hash text not null unique, created_at_ms bigint not null,
      expires_at_ms bigint not null)`,
    `create index api_tokens_by_client on api_tokens (client_id, expires_at_ms)`,
    `create index api_tokens_expiring on api_tokens (expires_at_ms)`,
  ],
};
