import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedSources = {
  source_apphooks: ownedRows('source_apphooks', { key: ['source_id', 'app', 'event_name'], isIndexed: true }),
  component_dbs: ownedRows('component_dbs', { key: ['source_id'] }),
  sources: ownedRows('sources', { key: ['id'], isIndexed: true }),
} as const;
