import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedEvents = {
  events: ownedRows('events', { key: ['emitter_id', 'channel', 'ms', 'seq'] }),
  emitters: ownedRows('emitters', { key: ['id'] }),
} as const;
