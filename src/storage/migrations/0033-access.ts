/** Scopes and ends of API keys, service accounts, disabled users, where sessions are used, and the audit of all changes. Never edited once released. */
export const accessMigration = {
  name: '0033-access',
  statements: [
    `alter table api_keys add column scopes text`,
    `alter table api_keys add column expires_at_ms bigint`,
    `alter table users add column kind text not null default 'person'`,
    `alter table users add column workspace_id text`,
    `alter table users add column created_by text`,
    `alter table users add column disabled_at_ms bigint`,
    `create index users_of_workspace on users (workspace_id) where workspace_id is not null`,
    `alter table sessions add column user_agent text`,
    `alter table sessions add column address text`,
    `alter table sessions add column last_used_at_ms bigint`,
    `create table audit_records (
      id text primary key, owner_id text, actor_kind text not null, user_id text, key_id text, session text, address text,
      operation text not null, object_kind text, object_id text, status integer, before text, after text,
      parameters text not null, request_id text, created_at_ms bigint not null)`,
    `create index audit_records_by_owner on audit_records (owner_id, created_at_ms, id)`,
    `create index audit_records_by_object on audit_records (object_id, created_at_ms) where object_id is not null`,
    `create index audit_records_by_time on audit_records (created_at_ms)`,
  ],
};
