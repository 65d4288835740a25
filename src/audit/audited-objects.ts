import type { Tables } from '#storage/tables.ts';
import type { Shown } from './describe-change.ts';

/** How the state of an object is read and shown. Columns that are not named are not recorded. */
export interface AuditedObject {
  table: keyof Tables;
  /** Values of the key, from the parameters of the path. */
  key: Readonly<Record<string, string>>;
  /** The column with the owner; null: the instance. */
  owner: string | null;
  columns: Readonly<Record<string, Shown>>;
  /** A row beside it that belongs to its state. */
  beside?: Pick<AuditedObject, 'table' | 'key' | 'columns'>;
}

type ObjectOf = (id: string, parameters: Readonly<Record<string, string>>) => AuditedObject;

function byId(
  table: keyof Tables,
  columns: Readonly<Record<string, Shown>>,
  owner: string | null = 'owner_id',
): ObjectOf {
  return (id) => ({ table, key: { id }, owner, columns });
}

const user: Readonly<Record<string, Shown>> = {
  username: 'plain',
  email: 'plain',
  kind: 'plain',
  is_admin: 'plain',
  disabled_at_ms: 'plain',
  disabled_reason: 'plain',
};
const apiKey: Readonly<Record<string, Shown>> = {
  name: 'plain',
  key_hint: 'plain',
  scopes: 'plain',
  expires_at_ms: 'plain',
  revoked_at_ms: 'plain',
};

/** By the name of the collection in the path. */
const objects: Readonly<Record<string, ObjectOf>> = {
  workspaces: byId('workspaces', { name: 'plain', orgname: 'plain', email: 'plain' }, 'id'),
  projects: byId('projects', { name: 'plain' }, 'org_id'),
  users: byId('users', user, null),
  service_accounts: (id, { id: workspaceId = '' }) => ({
    ...byId('users', user, 'workspace_id')(id, {}),
    beside: {
      table: 'members',
      key: { workspace_id: workspaceId, user_id: id },
      columns: { role: 'plain' },
    },
  }),
  members: (id, { id: workspaceId = '' }) => ({
    table: 'members',
    key: { workspace_id: workspaceId, user_id: id },
    owner: 'workspace_id',
    columns: { role: 'plain' },
  }),
  oauth_clients: byId(
    'api_clients',
    { name: 'plain', secret_hint: 'plain', secret_hash: 'hidden', revoked_at_ms: 'plain' },
    'workspace_id',
  ),
  api_keys: byId('api_keys', apiKey, 'user_id'),
  // Keys of service accounts: the path names the workspace.
  keys: byId('api_keys', apiKey, null),
  quotas: (id) => ({
    table: 'owner_quotas',
    key: { owner_id: id },
    owner: 'owner_id',
    columns: {
      ...({ credits: 'plain', compute_ms: 'plain', invocations: 'plain', enforced: 'plain' } as const),
      ...({ processes_max: 'plain', memory_mb_max: 'plain', billing_period_start_ms: 'plain' } as const),
      ...({ sources_max: 'plain', workflows_max: 'plain', events_max: 'plain' } as const),
      ...({ deliveries_max: 'plain', stored_mb_max: 'plain', streams_max: 'plain' } as const),
      ...({ builds_max: 'plain', workspaces_max: 'plain' } as const),
    },
  }),
  retention: (id) => ({
    table: 'workspace_retention',
    key: { workspace_id: id },
    owner: 'workspace_id',
    columns: {
      ...({ events_days: 'plain', runs_days: 'plain', deliveries_days: 'plain' } as const),
      ...({ audit_days: 'plain', files_days: 'plain', legal_hold: 'plain' } as const),
    },
  }),
  deletions: byId('deletions', { kind: 'plain', subject_id: 'plain', name: 'plain' }, null),
  sources: byId('sources', {
    ...({ name: 'plain', state: 'plain', component_id: 'plain', concurrency: 'plain' } as const),
    ...({ isolated: 'plain', configured_props: 'hidden', sealed_props: 'hidden' } as const),
  }),
  workflows: byId('workflows', { name: 'plain', state: 'plain', deployment_id: 'plain' }),
  webhooks: byId('webhooks', {
    ...({ name: 'plain', description: 'plain', url: 'origin', state: 'plain', secret: 'hidden' } as const),
  }),
  subscriptions: byId(
    'subscriptions',
    { emitter_id: 'plain', event_name: 'plain', listener_id: 'plain' },
    'emitter_owner_id',
  ),
  auto_subscriptions: byId('auto_subscriptions', { event_name: 'plain', listener_id: 'plain' }),
  accounts: byId('accounts', {
    ...({ name: 'plain', app_slug: 'plain', sealed: 'hidden', oauth_client_id: 'plain' } as const),
  }),
  data_stores: byId('data_stores', { name: 'plain' }),
  variables: (name, { owner_id = '', project_id = '' }) => ({
    table: 'variables',
    key: { owner_id, project_id, name },
    owner: 'owner_id',
    columns: { name: 'plain', project_id: 'plain', secret: 'plain', description: 'plain', sealed: 'hidden' },
  }),
  templates: byId('templates', { name: 'plain', definition: 'hidden' }),
  runs: byId('runs', { state: 'plain' }),
  replays: byId('replays', { state: 'plain', listener_id: 'plain' }),
  imports: byId('imports', { state: 'plain', format: 'plain' }),
  components: byId('components', {}),
  deliveries: byId('deliveries', { state: 'plain' }),
  repositories: byId('registry_repositories', { url: 'origin', ref: 'plain', state: 'plain' }, null),
};

/** True for collections whose objects' state is recorded. */
export function isAudited(collection: string): boolean {
  return Object.hasOwn(objects, collection);
}

/** How an object of a collection is read; undefined: its state is not recorded, the parameters of the request are. */
export function auditedObject(
  collection: string,
  id: string,
  parameters: Readonly<Record<string, string>>,
): AuditedObject | undefined {
  return Object.hasOwn(objects, collection) ? objects[collection]?.(id, parameters) : undefined;
}
