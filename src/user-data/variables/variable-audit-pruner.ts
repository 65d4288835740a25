import { OldRowPruner, type OldRowPrunerOptions } from '#storage/old-row-pruner.ts';
import { removeVariableAuditBefore } from './variable-store.ts';

/** Removes old entries of the audit of variables. */
export function variableAuditPruner(options: OldRowPrunerOptions): OldRowPruner {
  return new OldRowPruner({
    ...options,
    removals: [removeVariableAuditBefore],
    failure: 'variable-audit.prune-failed',
  });
}
