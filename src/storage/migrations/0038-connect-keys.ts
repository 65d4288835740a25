/** The key that made a connect link, so that the link ends with it. Links last ten minutes: those of before end. Never edited once released. */
export const connectKeysMigration = {
  name: '0038-connect-keys',
  statements: [
    `delete from connect_flows`,
    `alter table connect_flows add column key_id text not null default ''`,
  ],
};
