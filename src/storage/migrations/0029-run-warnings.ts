/** What is wrong with the keys of a run's event is kept with the run. Never edited once released: a change is a new migration. */
export const runWarningsMigration = {
  name: '0029-run-warnings',
  statements: [`alter table runs add column flow_warning text`],
};
