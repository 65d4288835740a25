import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedTimers = {
  timers: ownedRows('timers', { key: ['id'] }),
  // Its table has no primary key; this is its index.
  ticks: ownedRows('ticks', { key: ['subject_id', 'planned_at_ms'] }),
} as const;
