/** How many workspaces a user may create, and who created each. Never edited once released. */
export const workspaceLimitsMigration = {
  name: '0047-workspace-limits',
  statements: [
    `alter table owner_quotas add column workspaces_max bigint`,
    `alter table workspaces add column created_by text`,
    `create index workspaces_created_by on workspaces (created_by)`,
  ],
};
