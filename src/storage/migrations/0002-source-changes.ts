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
    // Sources could use the accounts of their owner and of who created them: those they use stay theirs. Found
    // by "replace", since "like" has wildcards and, in SQLite, no letter case.
    `insert into source_accounts (source_id, account_id, owner_id)
      select s.id, a.id, a.owner_id from sources s join accounts a on a.owner_id in (s.owner_id, s.user_id)
      where replace(s.configured_props, '"authProvisionId":"' || a.id || '"', '') <> s.configured_props`,
    // Creations that a crash interrupted: no node continues them, and the sweep removes them.
    `update sources set change_id = 'chg_' || id, change_node = '' where state = 'deploying'`,
  ],
};
