/** Never edited once released: a change is a new migration. */
export const gitRegistriesMigration = {
  name: '0024-git-registries',
  statements: [
    `create table registry_repositories (
      id text primary key, url text not null, ref text not null, commit_id text, generation bigint not null,
      state text not null, state_since_ms bigint not null, error text, error_code text, progress text,
      commits bigint not null, components bigint not null, versions bigint not null, problems text not null,
      user_id text, created_at_ms bigint not null, indexed_at_ms bigint, unique (url, ref))`,
    `create index registry_repositories_by_time on registry_repositories (created_at_ms, id)`,
    `create table registry_versions (
      repository_id text not null references registry_repositories (id) on delete cascade, generation bigint not null,
      component_key text not null, version text not null, kind text not null, app text not null, name text not null,
      description text not null, path text not null, commit_id text not null, committed_at_ms bigint not null,
      is_head bigint not null, primary key (repository_id, generation, component_key, version))`,
    `create index registry_versions_by_key on registry_versions (component_key)`,
  ],
};
