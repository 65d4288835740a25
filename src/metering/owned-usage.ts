import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedUsage = {
  usage_days: ownedRows('usage_days', { key: ['owner_id', 'day'], isIndexed: true }),
  owner_quotas: ownedRows('owner_quotas', { key: ['owner_id'], isIndexed: true }),
} as const;
