/** Never edited once released: a change is a new migration. */
export const apphooksMigration = {
  name: '0006-apphooks',
  statements: [
    'alter table sources add column apphooks text',
    `create table source_apphooks (
      source_id text not null references sources (id) on delete cascade, owner_id text not null, app text not null,
      event_name text not null, lookup text not null, primary key (source_id, app, event_name))`,
    `create index source_apphooks_by_event on source_apphooks (owner_id, app, lookup, source_id)`,
  ],
};
