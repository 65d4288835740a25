import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedUserData = {
  // A chunk has a megabyte.
  file_chunks: ownedRows('file_chunks', { key: ['file_id', 'number'], batchRows: 16 }),
  files: ownedRows('files', { key: ['id'], isIndexed: true }),
  data_store_entries: ownedRows('data_store_entries', { key: ['store_id', 'key'] }),
  data_stores: ownedRows('data_stores', { key: ['id'], isIndexed: true }),
  variables: ownedRows('variables', { key: ['id'], isIndexed: true }),
  variable_sets: ownedRows('variable_sets', { key: ['owner_id', 'project_id'], isIndexed: true }),
  variable_audit: ownedRows('variable_audit', { key: ['id'], isIndexed: true }),
} as const;
