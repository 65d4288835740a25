/** Never edited once released: a change is a new migration. */
export const importsMigration = {
  name: '0028-imports',
  statements: [
    `create table imports (
      id text primary key, owner_id text not null, user_id text not null, key_id text not null,
      project_id text not null, format text not null, state text not null, activate integer not null,
      sealed text, summary text not null, workflows bigint not null, error text,
      created_at_ms bigint not null, updated_at_ms bigint not null)`,
    `create index imports_by_owner on imports (owner_id, created_at_ms, id)`,
    `create table import_items (
      import_id text not null references imports (id) on delete cascade, owner_id text not null,
      position integer not null, item text not null, primary key (import_id, position))`,
    `create table imported_objects (
      owner_id text not null, project_id text not null, kind text not null, old_id text not null, new_id text not null,
      import_id text not null, fingerprint text not null, mark text not null, created_at_ms bigint not null,
      primary key (owner_id, project_id, kind, old_id))`,
    `create index imported_objects_by_import on imported_objects (import_id)`,
  ],
};
