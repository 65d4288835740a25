import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedHealth = {
  health: ownedRows('health', { key: ['subject_id'] }),
} as const;
