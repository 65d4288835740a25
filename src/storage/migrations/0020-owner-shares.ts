/** Never edited once released: a change is a new migration. */
export const ownerSharesMigration = {
  name: '0020-owner-shares',
  statements: [
    `alter table owner_quotas add column processes_max integer`,
    `alter table owner_quotas add column memory_mb_max integer`,
  ],
};
