import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedKeys = {
  data_keys: ownedRows('data_keys', { key: ['owner_id', 'key_id'], isIndexed: true }),
} as const;
