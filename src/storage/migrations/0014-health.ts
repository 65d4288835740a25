/** Never edited once released: a change is a new migration. */
export const healthMigration = {
  name: '0014-health',
  statements: [
    `create table health (
      subject_id text primary key, owner_id text not null, failing integer not null, since_ms bigint not null,
      failures integer not null, reason text)`,
    // A store that is upgraded has the last run of each workflow, what is known of accounts, and the webhooks that fail.
    `insert into health (subject_id, owner_id, failing, since_ms, failures, reason)
      select runs.workflow_id, runs.owner_id, case when runs.state = 'succeeded' then 0 else 1 end,
        coalesce(runs.ended_at_ms, runs.created_at_ms), case when runs.state = 'succeeded' then 0 else 1 end,
        case when runs.state = 'succeeded' then null else 'the last run before the upgrade failed' end
      from runs join (
        select workflow_id, max(id) as id from runs where state in ('succeeded', 'failed', 'quarantined')
        group by workflow_id) as latest on latest.id = runs.id
      join workflows on workflows.id = runs.workflow_id`,
    `insert into health (subject_id, owner_id, failing, since_ms, failures, reason)
      select id, owner_id, 1 - healthy, coalesce(checked_at_ms, updated_at_ms), (1 - healthy) * (check_failures + refresh_failures),
        case when healthy = 1 then null else error end
      from accounts where healthy = 0 or checked_at_ms is not null`,
    `insert into health (subject_id, owner_id, failing, since_ms, failures, reason)
      select id, owner_id, 1, failing_since_ms, 1, 'deliveries failed before the upgrade'
      from webhooks where failing_since_ms is not null`,
    // What waits is counted for each webhook and workflow of a page; both indexes contain nothing that is healthy.
    `create index deliveries_held on deliveries (listener_id, created_at_ms) where state = 'held'`,
    `create index runs_to_retry on runs (workflow_id, created_at_ms) where wait_kind = 'retry'`,
  ],
};
