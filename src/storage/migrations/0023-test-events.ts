/** Never edited once released: a change is a new migration. */
export const testEventsMigration = {
  name: '0023-test-events',
  statements: [
    `create table test_events (
      id text primary key, workflow_id text not null, owner_id text not null, name text not null, event text not null,
      source_type text not null, created_at_ms bigint not null, unique (workflow_id, name))`,
    `create index test_events_by_workflow on test_events (workflow_id, created_at_ms, id)`,
  ],
};
