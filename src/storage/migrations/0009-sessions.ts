/** Never edited once released: a change is a new migration. */
export const sessionsMigration = {
  name: '0009-sessions',
  statements: [
    `create table sessions (
      id text primary key, key_id text not null references api_keys (id) on delete cascade, token_hash text not null unique,
      created_at_ms bigint not null, expires_at_ms bigint not null)`,
    `create index sessions_by_key on sessions (key_id, expires_at_ms)`,
    `create index sessions_expiring on sessions (expires_at_ms)`,
    // Each open dashboard asks every few seconds which accounts of an owner need attention.
    `create index accounts_unhealthy on accounts (owner_id, updated_at_ms) where healthy = 0`,
    `create index webhooks_disabled on webhooks (owner_id, disabled_at_ms) where state = 'disabled'`,
    `create index runs_quarantined on runs (owner_id, created_at_ms) where state = 'quarantined'`,
  ],
};
