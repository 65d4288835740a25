import { ownedAccounts } from '#accounts/owned-accounts.ts';
import { ownedAudit } from '#audit/owned-audit.ts';
import { ownedComponents } from '#components/owned-components.ts';
import { ownedDeliveries } from '#delivery/owned-deliveries.ts';
import { ownedEvents } from '#events/owned-events.ts';
import { ownedFlow } from '#flow-control/owned-flow.ts';
import { ownedHealth } from '#health/owned-health.ts';
import { ownedRequestKeys } from '#idempotency/owned-request-keys.ts';
import { ownedRetention } from '#identity/owned-retention.ts';
import { ownedImports } from '#imports/owned-imports.ts';
import { ownedJobs } from '#jobs/owned-jobs.ts';
import { ownedUsage } from '#metering/owned-usage.ts';
import { ownedTimers } from '#schedule/owned-timers.ts';
import { ownedSources } from '#sources/owned-sources.ts';
import type { OwnedRows } from '#storage/owned-rows.ts';
import type { Tables } from '#storage/tables.ts';
import { ownedUserData } from '#user-data/owned-user-data.ts';
import { ownedKeys } from '#vault/owned-keys.ts';
import { ownedWorkflows } from '#workflows/definitions/owned-workflows.ts';
import { ownedRuns } from '#workflows/runs/owned-runs.ts';

const withUser = 'goes with the row of its user, in the transaction that accepts the deletion';
const withWorkspace = 'goes with the row of its workspace, in the transaction that accepts the deletion';
const ofInstance = 'belongs to the instance';

/**
 * Table of contents of a deletion: every table, in the order in which its rows are removed, or why none are. Jobs come first, so that a run
 * that is under way stores nothing any longer; data keys last, because what is sealed with them is gone then.
 */
export const removedTables: Readonly<Record<keyof Tables, OwnedRows | string>> = {
  ...ownedJobs,
  ...ownedTimers,
  ...ownedFlow,
  ...ownedDeliveries,
  ...ownedRuns,
  ...ownedWorkflows,
  ...ownedAccounts,
  ...ownedSources,
  ...ownedEvents,
  ...ownedImports,
  ...ownedUserData,
  ...ownedRequestKeys,
  ...ownedComponents,
  ...ownedHealth,
  ...ownedUsage,
  ...ownedRetention,
  ...ownedAudit,
  ...ownedKeys,
  users: 'goes in the transaction that accepts the deletion',
  api_keys: withUser,
  sessions: withUser,
  user_identities: withUser,
  workspaces: 'goes in the transaction that accepts the deletion',
  members: withWorkspace,
  group_memberships: withWorkspace,
  projects: withWorkspace,
  api_clients: withWorkspace,
  api_tokens: withWorkspace,
  deletions: 'says that the owner is gone',
  deployment_components: 'goes with its deployment',
  flow_groups: 'goes with its queue',
  source_replies: 'goes within a minute of its request',
  used_sign_ins: ofInstance,
  key_rotations:
    'is about a rotation of the instance; the id that it may name is that of an owner who is gone',
  registry_packages: ofInstance,
  registry_files: ofInstance,
  registry_components: ofInstance,
  registry_repositories: ofInstance,
  registry_versions: ofInstance,
  nodes: ofInstance,
  node_states: ofInstance,
  lane_leases: 'goes with the node',
  write_probes: ofInstance,
  file_buckets: ofInstance,
};

export const tablesToEmpty: readonly OwnedRows[] = Object.values(removedTables).filter(
  (rows) => typeof rows !== 'string',
);
