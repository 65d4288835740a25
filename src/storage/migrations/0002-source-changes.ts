/** Never edited once released: a change is a new migration. */
export const sourceChangesMigration = {
  name: '0002-source-changes',
  statements: [
    `alter table sources add column sealed_props text`,
    `alter table sources add column change_id text`,
    `alter table sources add column change_node text`,
    `alter table sources add column before_change text`,
    `create index sources_under_change on sources (change_id) where change_id is not null`,
    `create table source_accounts (
      source_id text not null references sources (id) on delete cascade, account_id text not null,
      owner_id text not null, primary key (source_id, account_id))`,
    `create index source_accounts_by_account on source_accounts (account_id)`,
  ],
};
