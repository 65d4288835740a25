/** Never edited once released: a change is a new migration. */
export const componentUsesMigration = {
  name: '0015-component-uses',
  statements: [
    `create table component_uses (
      component_id text not null primary key, owner_id text not null, saved integer not null,
      used_at_ms bigint not null)`,
    // Which of those that are there a user has saved is not known: they stay.
    `insert into component_uses (component_id, owner_id, saved, used_at_ms)
      select id, owner_id, case when owner_id = 'registry' then 0 else 1 end, created_at_ms from components`,
    `create index component_uses_by_time on component_uses (used_at_ms) where saved = 0`,
    `create index component_uses_by_owner on component_uses (owner_id, used_at_ms) where saved = 0`,
    `create table deployment_components (
      component_id text not null, deployment_id text not null, primary key (component_id, deployment_id))`,
    `create index deployment_components_by_deployment on deployment_components (deployment_id)`,
    // Those that are there are listed by the service, which can read definitions.
    `alter table deployments add column components_listed integer not null default 0`,
    `create index deployments_unlisted on deployments (id) where components_listed = 0`,
    `create index sources_by_component on sources (component_id)`,
    `create index components_by_bundle on components (owner_id, bundle_hash)`,
    `create index registry_components_by_component on registry_components (component_id)
      where component_id is not null`,
  ],
};
