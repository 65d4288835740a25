/** Never edited once released: a change is a new migration. */
export const ticksAndNodesMigration = {
  name: '0017-ticks-and-nodes',
  statements: [
    // Existing ticks keep null: the outcome of their runs was not recorded.
    `alter table ticks add column run_id text`,
    `alter table ticks add column run_state text`,
    `alter table ticks add column run_error text`,
    `alter table ticks add column run_ended_at_ms bigint`,
    `create table node_states (
      id text not null primary key, started_at_ms bigint not null, seen_at_ms bigint not null, lease_ms bigint not null,
      clock_state text, clock_offset_ms bigint, clock_since_ms bigint, stopping_since_ms bigint)`,
  ],
};
