import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedComponents = {
  component_uses: ownedRows('component_uses', { key: ['component_id'] }),
  components: ownedRows('components', { key: ['id'], isIndexed: true }),
  bundles: ownedRows('bundles', { key: ['owner_id', 'hash'], isIndexed: true, batchRows: 20 }),
} as const;
