import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedRetention = {
  workspace_retention: ownedRows('workspace_retention', {
    ...{ key: ['workspace_id'], owners: ['workspace_id'], isIndexed: true },
  }),
} as const;
