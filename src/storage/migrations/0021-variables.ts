/** Never edited once released: a change is a new migration. */
export const variablesMigration = {
  name: '0021-variables',
  statements: [
    `create table variables (
      id text primary key, owner_id text not null, project_id text not null, name text not null, secret integer not null,
      sealed text not null, bytes integer not null, description text not null, user_id text not null,
      created_at_ms bigint not null, updated_at_ms bigint not null,
      unique (owner_id, project_id, name))`,
    `create table variable_sets (
      owner_id text not null, project_id text not null, version bigint not null, primary key (owner_id, project_id))`,
    `create table variable_audit (
      id text primary key, owner_id text not null, project_id text not null, name text not null, action text not null,
      user_id text not null, key_id text not null, details text not null, created_at_ms bigint not null)`,
    `create index variable_audit_by_owner on variable_audit (owner_id, created_at_ms, id)`,
    `create index variable_audit_by_time on variable_audit (created_at_ms)`,
  ],
};
