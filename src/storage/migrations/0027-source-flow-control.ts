/** Flow control holds back the runs of sources too. Never edited once released: a change is a new migration. */
export const sourceFlowControlMigration = {
  name: '0027-source-flow-control',
  statements: [
    `alter table sources add column flow_control text`,
    `alter table flow_queues rename column workflow_id to subject_id`,
    `alter table flow_groups rename column workflow_id to subject_id`,
    `alter table flow_runs rename column workflow_id to subject_id`,
    `create index flow_groups_by_source on flow_groups (subject_id, served_ms) where blocked_by = 'source_concurrency'`,
    `create table flow_unbegun (
      subject_id text not null, run_id text not null, owner_id text not null, reason text not null, ended_ms bigint not null,
      primary key (subject_id, ended_ms, run_id))`,
  ],
};
