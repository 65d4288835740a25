/** Blocks that fail are run again; each record of a step says in which attempt. Never edited once released: a change is a new migration. */
export const blockAttemptsMigration = {
  name: '0030-block-attempts',
  statements: [`alter table run_steps add column attempt text not null default ''`],
};
