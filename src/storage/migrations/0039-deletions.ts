/** Deletions of workspaces and users. Never edited once released. */
export const deletionsMigration = {
  name: '0039-deletions',
  statements: [
    `create table deletions (
      id text primary key, kind text not null, subject_id text not null unique, name text, owner_ids text not null,
      state text not null, removed_rows bigint not null, requested_by text not null, created_at_ms bigint not null,
      ended_at_ms bigint)`,
    `create index deletions_by_time on deletions (created_at_ms, id)`,
  ],
};
