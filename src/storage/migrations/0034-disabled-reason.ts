/** Why the admin of the instance disabled a user. Never edited once released. */
export const disabledReasonMigration = {
  name: '0034-disabled-reason',
  statements: [`alter table users add column disabled_reason text`],
};
