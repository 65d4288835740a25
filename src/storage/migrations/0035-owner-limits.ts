/** Limits of owners beside their daily quotas, and what else is counted by day. Never edited once released. */
export const ownerLimitsMigration = {
  name: '0035-owner-limits',
  statements: [
    `alter table owner_quotas add column sources_max bigint`,
    `alter table owner_quotas add column workflows_max bigint`,
    `alter table owner_quotas add column events_max bigint`,
    `alter table owner_quotas add column deliveries_max bigint`,
    `alter table owner_quotas add column stored_mb_max bigint`,
    `alter table owner_quotas add column streams_max bigint`,
    `alter table usage_days add column events bigint not null default 0`,
    `alter table usage_days add column deliveries bigint not null default 0`,
  ],
};
