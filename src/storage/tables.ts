import type {
  AccountAuditTable,
  AccountTable,
  AccountUseTable,
  AppTable,
  ConnectFlowTable,
  DataKeyTable,
  KeyRotationTable,
  OAuthClientTable,
} from './tables/account-tables.ts';
import type { AuditRecordTable } from './tables/audit-tables.ts';
import type { BundleTable, ComponentTable, ComponentUseTable } from './tables/component-tables.ts';
import type { DeletionTable } from './tables/deletion-tables.ts';
import type {
  AutoSubscriptionTable,
  DeliveryPayloadTable,
  DeliveryTable,
  ReplayTable,
  SubscriptionTable,
  WebhookTable,
} from './tables/delivery-tables.ts';
import type { ComponentDbTable, EmitterTable, EventTable } from './tables/event-tables.ts';
import type { FileBucketTable, FileChunkTable, FileTable } from './tables/file-tables.ts';
import type { FlowGroupTable, FlowQueueTable, FlowRunTable, FlowUnbegunTable } from './tables/flow-tables.ts';
import type { HealthTable } from './tables/health-tables.ts';
import type { IdempotencyKeyTable } from './tables/idempotency-tables.ts';
import type {
  ApiClientTable,
  ApiKeyTable,
  ApiTokenTable,
  GroupMembershipTable,
  MemberTable,
  OwnerQuotaTable,
  ProjectTable,
  SessionTable,
  UsageDayTable,
  UsedSignInTable,
  UserIdentityTable,
  UserTable,
  WorkspaceRetentionTable,
  WorkspaceTable,
} from './tables/identity-tables.ts';
import type { ImportedObjectTable, ImportItemTable, ImportTable } from './tables/import-tables.ts';
import type {
  JobTable,
  LaneLeaseTable,
  NodeStateTable,
  NodeTable,
  WriteProbeTable,
} from './tables/job-tables.ts';
import type {
  RegistryComponentTable,
  RegistryFileTable,
  RegistryPackageTable,
  RegistryRepositoryTable,
  RegistryVersionTable,
} from './tables/registry-tables.ts';
import type {
  SourceAccountTable,
  SourceApphookTable,
  SourceReplyTable,
  SourceTable,
  TickTable,
  TimerTable,
} from './tables/source-tables.ts';
import type { VariableAuditTable, VariableSetTable, VariableTable } from './tables/variable-tables.ts';
import type {
  DataStoreEntryTable,
  DataStoreTable,
  DeploymentAccountTable,
  DeploymentComponentTable,
  RunResumeTable,
  RunSendTable,
  RunStepTable,
  RunTable,
  RunWaitTable,
  StoredDeploymentTable,
  TemplateTable,
  TestEventTable,
  TriggerTable,
  WorkflowTable,
} from './tables/workflow-tables.ts';

/**
 * Table of contents 3: every table. The same tables and statements on both dialects; times are epoch milliseconds,
 * flags 0 or 1, structured values JSON text. Every table that grows carries its owner, so that owners can be spread.
 */
export interface Tables {
  users: UserTable;
  api_keys: ApiKeyTable;
  sessions: SessionTable;
  api_clients: ApiClientTable;
  api_tokens: ApiTokenTable;
  workspaces: WorkspaceTable;
  members: MemberTable;
  user_identities: UserIdentityTable;
  group_memberships: GroupMembershipTable;
  used_sign_ins: UsedSignInTable;
  projects: ProjectTable;
  usage_days: UsageDayTable;
  owner_quotas: OwnerQuotaTable;
  workspace_retention: WorkspaceRetentionTable;
  deletions: DeletionTable;
  accounts: AccountTable;
  account_audit: AccountAuditTable;
  account_uses: AccountUseTable;
  connect_flows: ConnectFlowTable;
  oauth_clients: OAuthClientTable;
  apps: AppTable;
  data_keys: DataKeyTable;
  key_rotations: KeyRotationTable;
  components: ComponentTable;
  bundles: BundleTable;
  component_uses: ComponentUseTable;
  registry_packages: RegistryPackageTable;
  registry_files: RegistryFileTable;
  registry_components: RegistryComponentTable;
  registry_repositories: RegistryRepositoryTable;
  registry_versions: RegistryVersionTable;
  sources: SourceTable;
  source_accounts: SourceAccountTable;
  source_apphooks: SourceApphookTable;
  timers: TimerTable;
  ticks: TickTable;
  emitters: EmitterTable;
  component_dbs: ComponentDbTable;
  events: EventTable;
  subscriptions: SubscriptionTable;
  auto_subscriptions: AutoSubscriptionTable;
  webhooks: WebhookTable;
  deliveries: DeliveryTable;
  delivery_payloads: DeliveryPayloadTable;
  replays: ReplayTable;
  workflows: WorkflowTable;
  deployments: StoredDeploymentTable;
  deployment_components: DeploymentComponentTable;
  deployment_accounts: DeploymentAccountTable;
  triggers: TriggerTable;
  templates: TemplateTable;
  test_events: TestEventTable;
  runs: RunTable;
  run_steps: RunStepTable;
  run_resumes: RunResumeTable;
  run_waits: RunWaitTable;
  run_sends: RunSendTable;
  flow_queues: FlowQueueTable;
  flow_groups: FlowGroupTable;
  flow_runs: FlowRunTable;
  flow_unbegun: FlowUnbegunTable;
  data_stores: DataStoreTable;
  data_store_entries: DataStoreEntryTable;
  variables: VariableTable;
  variable_sets: VariableSetTable;
  variable_audit: VariableAuditTable;
  audit_records: AuditRecordTable;
  files: FileTable;
  file_chunks: FileChunkTable;
  file_buckets: FileBucketTable;
  health: HealthTable;
  jobs: JobTable;
  idempotency_keys: IdempotencyKeyTable;
  imports: ImportTable;
  import_items: ImportItemTable;
  imported_objects: ImportedObjectTable;
  nodes: NodeTable;
  node_states: NodeStateTable;
  lane_leases: LaneLeaseTable;
  source_replies: SourceReplyTable;
  write_probes: WriteProbeTable;
}
