import { OldRowPruner, type OldRowPrunerOptions } from '#storage/old-row-pruner.ts';
import { removeAuditRecordsBefore } from './audit-store.ts';

/** Removes old records of the audit. */
export function auditPruner(options: OldRowPrunerOptions): OldRowPruner {
  return new OldRowPruner({
    ...options,
    removals: [removeAuditRecordsBefore],
    failure: 'audit.prune-failed',
  });
}
