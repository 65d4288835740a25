/** Never edited once released: a change is a new migration. */
export const registryMigration = {
  name: '0007-registry',
  statements: [
    `create table registry_packages (
      id text primary key, kind text not null, name text not null, version text not null, integrity text not null,
      apps text not null, problems text not null, files bigint not null, bytes bigint not null,
      user_id text, created_at_ms bigint not null, unique (name, version))`,
    `create index registry_packages_by_time on registry_packages (created_at_ms, id)`,
    `create table registry_files (
      package_id text not null references registry_packages (id) on delete cascade, path text not null,
      content text not null, encoding text not null, primary key (package_id, path))`,
    `create table registry_components (
      package_id text not null references registry_packages (id) on delete cascade, component_key text not null,
      version text not null, kind text not null, app text not null, name text not null, description text not null,
      path text not null, component_id text, primary key (package_id, component_key))`,
    `create index registry_components_by_key on registry_components (component_key)`,
  ],
};
