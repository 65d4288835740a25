/** Sign-in with an OpenID Connect provider. Never edited once released: a change is a new migration. */
export const singleSignOnMigration = {
  name: '0032-single-sign-on',
  statements: [
    `create table user_identities (
      id text primary key, user_id text not null references users (id) on delete cascade,
      issuer text not null, subject text not null, email text,
      key_id text not null unique references api_keys (id) on delete cascade, admin_by_groups integer not null,
      created_at_ms bigint not null, signed_in_at_ms bigint, unique (issuer, subject), unique (user_id, issuer))`,
    `create table group_memberships (
      workspace_id text not null, user_id text not null, role text not null, primary key (workspace_id, user_id),
      foreign key (workspace_id, user_id) references members (workspace_id, user_id) on delete cascade)`,
    `create index group_memberships_by_user on group_memberships (user_id)`,
    `create table used_sign_ins (state_hash text primary key, expires_at_ms bigint not null)`,
    `create index used_sign_ins_expiring on used_sign_ins (expires_at_ms)`,
  ],
};
