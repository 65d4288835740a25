import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedImports = {
  import_items: ownedRows('import_items', { key: ['import_id', 'position'] }),
  imported_objects: ownedRows('imported_objects', {
    ...{ key: ['owner_id', 'project_id', 'kind', 'old_id'], isIndexed: true },
  }),
  imports: ownedRows('imports', { key: ['id'], isIndexed: true }),
} as const;
