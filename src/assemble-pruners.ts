import { join } from 'node:path';
import { removeAccountAuditOf } from '#accounts/account-audit-store.ts';
import { auditPruner } from '#audit/audit-pruner.ts';
import { removeAuditRecordsOf } from '#audit/audit-store.ts';
import { NpmCacheKeeper } from '#components/npm-cache.ts';
import { removeDeliveriesBefore } from '#delivery/prune-deliveries.ts';
import { removeEventsBefore } from '#events/event-store.ts';
import { IdempotencyKeyPruner } from '#idempotency/prune-keys.ts';
import { RetentionPruner } from '#identity/retention-pruner.ts';
import { ComponentPruner } from '#registry/prune-components.ts';
import { EntryPruner } from '#user-data/data-stores/entry-pruner.ts';
import { retireFilesBefore } from '#user-data/files/file-store.ts';
import { FilePruner } from '#user-data/files/prune-files.ts';
import { variableAuditPruner } from '#user-data/variables/variable-audit-pruner.ts';
import { removeVariableAuditOf } from '#user-data/variables/variable-store.ts';
import { listDeployments } from '#workflows/definitions/workflow-store.ts';
import { removeRunsBefore } from '#workflows/runs/forget-run-store.ts';
import type { Deliveries } from './assemble-delivery.ts';
import type { Platform } from './assemble-platform.ts';
import type { Runs } from './assemble-runs.ts';
import type { UserData } from './assemble-user-data.ts';

/** What is kept bounded, each by its name. */
export function assemblePruners(
  { settings, store, clock, logger, eventPruner }: Platform,
  {
    workflowRuns,
    delivery,
    fileContents,
  }: Pick<Runs, 'workflowRuns'> & Pick<Deliveries, 'delivery'> & Pick<UserData, 'fileContents'>,
) {
  return {
    event: eventPruner,
    run: workflowRuns.pruner,
    'data store': new EntryPruner({ store, clock, logger }),
    file: new FilePruner({ store, contents: fileContents.contents, clock, logger }),
    ...(fileContents.bucket === undefined ? {} : { bucket: fileContents.bucket.sweeper }),
    audit: auditPruner({ store, clock, logger, daysKept: settings.auditDays }),
    'variable audit': variableAuditPruner({ store, clock, logger, daysKept: settings.auditDays }),
    'idempotency key': new IdempotencyKeyPruner({ store, clock, logger }),
    'npm cache': new NpmCacheKeeper({ folder: join(settings.data, 'components', 'npm'), logger }),
    component: new ComponentPruner({
      ...{ store, clock, logger },
      listDeployments: (limit) => listDeployments(store, limit),
    }),
    delivery: delivery.pruner,
    retention: new RetentionPruner({
      ...{ store, clock, logger },
      removals: {
        events: [removeEventsBefore],
        runs: [removeRunsBefore],
        deliveries: [removeDeliveriesBefore],
        audit: [removeAuditRecordsOf, removeVariableAuditOf, removeAccountAuditOf],
        files: [retireFilesBefore],
      },
    }),
  };
}
