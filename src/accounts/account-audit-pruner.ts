import { OldRowPruner, type OldRowPrunerOptions } from '#storage/old-row-pruner.ts';
import { removeAuditBefore } from './account-audit-store.ts';
import { removeUsesBefore } from './account-uses-store.ts';

/** Removes old entries of the audit of accounts, and old uses of accounts. */
export function accountAuditPruner(options: OldRowPrunerOptions): OldRowPruner {
  return new OldRowPruner({
    ...options,
    removals: [removeAuditBefore, removeUsesBefore],
    failure: 'account-audit.prune-failed',
  });
}
