/** Never edited once released: a change is a new migration. */
export const isolatedSourcesMigration = {
  name: '0019-isolated-sources',
  statements: [`alter table sources add column isolated integer not null default 0`],
};
