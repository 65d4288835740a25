/** For how many days a workspace keeps files. Never edited once released. */
export const fileDaysMigration = {
  name: '0040-file-days',
  statements: [`alter table workspace_retention add column files_days integer`],
};
