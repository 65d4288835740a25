import { ownedRows } from '#storage/owned-rows.ts';

/** What goes with an owner who is deleted, in this order. */
export const ownedAudit = {
  audit_records: ownedRows('audit_records', { key: ['id'], isIndexed: true }),
} as const;
