/** How many builds an owner may have. Never edited once released. */
export const buildLimitsMigration = {
  name: '0046-build-limits',
  statements: [`alter table owner_quotas add column builds_max bigint`],
};
