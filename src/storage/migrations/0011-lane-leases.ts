/** Never edited once released: a change is a new migration. */
export const laneLeasesMigration = {
  name: '0011-lane-leases',
  statements: [
    `create table lane_leases (lane text not null primary key, node text not null)`,
    `create index lane_leases_by_node on lane_leases (node)`,
    // Nodes of the previous version run what they accept, whatever their roles: none of them counts as one that claims.
    `alter table nodes add column claims integer not null default 0`,
    `create table source_replies (
      job_id text not null primary key, node text not null, reply text, created_at_ms bigint not null)`,
    `create index source_replies_by_age on source_replies (created_at_ms)`,
    `alter table sources add column concurrency integer not null default 1`,
  ],
};
