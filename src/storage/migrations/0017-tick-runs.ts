/** Never edited once released: a change is a new migration. */
export const tickRunsMigration = {
  name: '0017-tick-runs',
  statements: [
    // Ticks that are there keep null: what became of their runs was not recorded.
    `alter table ticks add column run_id text`,
    `alter table ticks add column run_state text`,
    `alter table ticks add column run_error text`,
    `alter table ticks add column run_ended_at_ms bigint`,
  ],
};
