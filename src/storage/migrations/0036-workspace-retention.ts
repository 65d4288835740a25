/** How long a workspace keeps what happened, and legal holds. Never edited once released. */
export const workspaceRetentionMigration = {
  name: '0036-workspace-retention',
  statements: [
    `create table workspace_retention (
      workspace_id text primary key, events_days integer, runs_days integer, deliveries_days integer, audit_days integer,
      legal_hold integer not null, updated_at_ms bigint not null)`,
  ],
};
