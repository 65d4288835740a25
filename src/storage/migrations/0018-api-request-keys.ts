/** Never edited once released: a change is a new migration. */
export const apiRequestKeysMigration = {
  name: '0018-api-request-keys',
  statements: [
    `alter table idempotency_keys add column node text`,
    `alter table idempotency_keys add column rights text`,
  ],
};
