import type { Role } from '#storage/tables/identity-tables.ts';
import { serveReference } from './openapi.ts';
import type { App } from './route-support.ts';
import { type AccountAuditRouteOptions, accountAuditRoutes } from './routes/account-audit-routes.ts';
import { type AccountHealthRouteOptions, accountHealthRoutes } from './routes/account-health-routes.ts';
import { type AccountListRouteOptions, accountListRoutes } from './routes/account-list-routes.ts';
import { type AccountRouteOptions, accountRoutes } from './routes/account-routes.ts';
import { type ActionRouteOptions, actionRoutes } from './routes/action-routes.ts';
import { type ApiClientRouteOptions, apiClientRoutes } from './routes/api-client-routes.ts';
import { type ApiKeyRouteOptions, apiKeyRoutes } from './routes/api-key-routes.ts';
import { type AppRouteOptions, appRoutes } from './routes/app-routes.ts';
import { type ApphookRouteOptions, apphookRoutes } from './routes/apphook-routes.ts';
import { type AuditRouteOptions, auditRoutes } from './routes/audit-routes.ts';
import { type BulkRunRouteOptions, bulkRunRoutes } from './routes/bulk-run-routes.ts';
import { type ComponentRouteOptions, componentRoutes } from './routes/component-routes.ts';
import { type ConfigureRouteOptions, configureRoutes } from './routes/configure-routes.ts';
import { type ConnectRouteOptions, connectPageRoutes, connectRoutes } from './routes/connect-routes.ts';
import { type DashboardRouteOptions, dashboardRoutes, pagePaths } from './routes/dashboard-routes.ts';
import { type DataStoreRouteOptions, dataStoreRoutes } from './routes/data-store-routes.ts';
import { type DeletionRouteOptions, deletionRoutes } from './routes/deletion-routes.ts';
import { type DeliveryRouteOptions, deliveryRoutes } from './routes/delivery-routes.ts';
import { type DeploymentRouteOptions, deploymentRoutes } from './routes/deployment-routes.ts';
import { type EmitterRouteOptions, emitterRoutes } from './routes/emitter-routes.ts';
import { type EventRouteOptions, eventRoutes, eventStreamRoutes } from './routes/event-routes.ts';
import { type ExportRouteOptions, exportRoutes } from './routes/export-routes.ts';
import { type FileRouteOptions, fileRoutes } from './routes/file-routes.ts';
import { type FlowRouteOptions, flowRoutes } from './routes/flow-routes.ts';
import { type HealthRouteOptions, healthRoutes } from './routes/health-routes.ts';
import { type ImportRouteOptions, importRoutes } from './routes/import-routes.ts';
import { type InstanceRouteOptions, instanceRoutes } from './routes/instance-routes.ts';
import { type ManualRouteOptions, manualRoutes } from './routes/manual-routes.ts';
import { type OAuthClientRouteOptions, oauthClientRoutes } from './routes/oauth-client-routes.ts';
import { type OAuthTokenRouteOptions, oauthTokenRoutes } from './routes/oauth-token-routes.ts';
import { type OAuth1RouteOptions, oauth1Routes } from './routes/oauth1-routes.ts';
import { type OverviewRouteOptions, overviewRoutes } from './routes/overview-routes.ts';
import { type OwnerEventRouteOptions, ownerEventRoutes } from './routes/owner-event-routes.ts';
import { type ProjectRouteOptions, projectRoutes } from './routes/project-routes.ts';
import { type QueueRouteOptions, queueRoutes } from './routes/queue-routes.ts';
import { type QuotaRouteOptions, quotaRoutes } from './routes/quota-routes.ts';
import { type RegistryRouteOptions, registryRoutes } from './routes/registry-routes.ts';
import { type ReplayRouteOptions, replayRoutes } from './routes/replay-routes.ts';
import { type RepositoryRouteOptions, repositoryRoutes } from './routes/repository-routes.ts';
import { type RetentionRouteOptions, retentionRoutes } from './routes/retention-routes.ts';
import { type RunRouteOptions, runRoutes } from './routes/run-routes.ts';
import { type ServiceAccountRouteOptions, serviceAccountRoutes } from './routes/service-account-routes.ts';
import { type SessionRouteOptions, sessionRoutes } from './routes/session-routes.ts';
import { type SignInPageRouteOptions, signInPageRoutes } from './routes/sign-in-page-routes.ts';
import { type SingleSignOnRouteOptions, singleSignOnRoutes } from './routes/single-sign-on-routes.ts';
import { type SourceRouteOptions, sourceRoutes } from './routes/source-routes.ts';
import { type SourceTimerRouteOptions, sourceTimerRoutes } from './routes/source-timer-routes.ts';
import { type SubscriptionRouteOptions, subscriptionRoutes } from './routes/subscription-routes.ts';
import { type TemplateRouteOptions, templateRoutes } from './routes/template-routes.ts';
import { type TestEventRouteOptions, testEventRoutes } from './routes/test-event-routes.ts';
import { type UserAccessRouteOptions, userAccessRoutes } from './routes/user-access-routes.ts';
import { type UserRouteOptions, userRoutes } from './routes/user-routes.ts';
import { type VariableRouteOptions, variableRoutes } from './routes/variable-routes.ts';
import { type WebhookRouteOptions, webhookRoutes } from './routes/webhook-routes.ts';
import { type WorkflowListRouteOptions, workflowListRoutes } from './routes/workflow-list-routes.ts';
import { type WorkflowRouteOptions, workflowRoutes } from './routes/workflow-routes.ts';
import { type WorkflowStreamRouteOptions, workflowStreamRoutes } from './routes/workflow-stream-routes.ts';
import { type WorkflowTickRouteOptions, workflowTickRoutes } from './routes/workflow-tick-routes.ts';
import { type WorkspaceRouteOptions, workspaceRoutes } from './routes/workspace-routes.ts';

/** Options of all route files. Each file declares its own. */
export type RouteOptions = HealthRouteOptions &
  UserRouteOptions &
  WorkspaceRouteOptions &
  ApiClientRouteOptions &
  ApiKeyRouteOptions &
  UserAccessRouteOptions &
  ServiceAccountRouteOptions &
  OAuthTokenRouteOptions &
  OAuthClientRouteOptions &
  ConnectRouteOptions &
  QuotaRouteOptions &
  ExportRouteOptions &
  DeletionRouteOptions &
  RetentionRouteOptions &
  DataStoreRouteOptions &
  VariableRouteOptions &
  WorkflowStreamRouteOptions &
  QueueRouteOptions &
  WorkflowTickRouteOptions &
  AppRouteOptions &
  ApphookRouteOptions &
  ComponentRouteOptions &
  ConfigureRouteOptions &
  ActionRouteOptions &
  RegistryRouteOptions &
  RepositoryRouteOptions &
  SourceRouteOptions &
  SourceTimerRouteOptions &
  WorkflowListRouteOptions &
  WorkflowRouteOptions &
  DeploymentRouteOptions &
  TemplateRouteOptions &
  TestEventRouteOptions &
  ImportRouteOptions &
  BulkRunRouteOptions &
  EmitterRouteOptions &
  EventRouteOptions &
  SubscriptionRouteOptions &
  ReplayRouteOptions &
  WebhookRouteOptions &
  RunRouteOptions &
  DeliveryRouteOptions &
  FileRouteOptions &
  OAuth1RouteOptions &
  AccountAuditRouteOptions &
  AuditRouteOptions &
  AccountHealthRouteOptions &
  OwnerEventRouteOptions &
  OverviewRouteOptions &
  InstanceRouteOptions &
  ProjectRouteOptions &
  FlowRouteOptions &
  SessionRouteOptions &
  SingleSignOnRouteOptions &
  SignInPageRouteOptions &
  DashboardRouteOptions &
  ManualRouteOptions &
  AccountListRouteOptions &
  AccountRouteOptions & { settings: { /** '' when none was set. */ publicUrl: string } };

/**
 * The right that an operation needs. In a workspace a right includes the weaker ones: viewer, member, creator, admin. A user has every
 * right over what belongs to them personally. An id that the caller may not see is answered like an id that does not exist.
 *
 * - anyone: no API key is needed
 * - key: any API key, access token or session. The operation is about the caller's own objects, the registry, or a template by its id
 * - viewer, member, admin: at least this role in the workspace that owns the object in the path or body, or in the one that org_id names
 * - creator: the user who created the account, while a member of its workspace, and admins of the workspace
 * - instance admin: the admin of the instance
 */
export type Right = 'anyone' | 'key' | Role | 'creator' | 'instance admin';

/**
 * Method, path, `operationId` (null: not in the OpenAPI document) and right of a route. A GET route also answers HEAD. `no tokens`: access
 * tokens of OAuth clients are refused, because the operation is about a user or brings code into the service.
 */
export type Row = readonly [
  method: 'GET' | 'POST' | 'PUT' | 'DELETE',
  path: string,
  operationId: string | null,
  right: Right,
  tokens?: 'no tokens',
];

interface Part {
  prefix: string;
  register: (app: App, options: RouteOptions) => void | Promise<void>;
  rows: readonly Row[];
}

function part(prefix: string, register: Part['register'], rows: readonly Row[]): Part {
  return { prefix, register, rows };
}

/** Routes that every process serves, also one without the role `api`: its own health, and requests of user code on that node. */
export const routesOfEveryRole: readonly Part[] = [
  part('', healthRoutes, [
    ['GET', '/healthz', 'getHealth', 'anyone'],
    ['GET', '/readyz', 'getReadiness', 'anyone'],
    ['GET', '/metrics', 'getMetrics', 'anyone'],
  ]),
  part('', fileRoutes, [['GET', '/files/:id', null, 'anyone']]),
  part('', oauth1Routes, [['POST', '/oauth1/sign/:capability', null, 'anyone']]),
];

/**
 * All routes of the API, grouped by the function that registers them. Endpoints below /in are in
 * ingress/http-endpoints.ts. follow-table.ts registers each route as its row says. The service does not start if a route has no row.
 */
export const routes: readonly Part[] = [
  ...routesOfEveryRole,
  part('/v1/users', userRoutes, [
    ['GET', '/v1/users/me', 'getMe', 'key', 'no tokens'],
    ['POST', '/v1/users', 'createUser', 'instance admin', 'no tokens'],
    ['GET', '/v1/users', 'listUsers', 'instance admin', 'no tokens'],
  ]),
  part('/v1/users', apiKeyRoutes, [
    ['GET', '/v1/users/me/api_keys', 'listApiKeys', 'key', 'no tokens'],
    ['POST', '/v1/users/me/api_keys', 'createApiKey', 'key', 'no tokens'],
    ['DELETE', '/v1/users/me/api_keys/:id', 'revokeApiKey', 'key', 'no tokens'],
    ['GET', '/v1/users/me/sessions', 'listSessions', 'key', 'no tokens'],
    ['DELETE', '/v1/users/me/sessions', 'revokeOtherSessions', 'key', 'no tokens'],
    ['DELETE', '/v1/users/me/sessions/:id', 'revokeSession', 'key', 'no tokens'],
  ]),
  part('/v1/users', userAccessRoutes, [
    ['PUT', '/v1/users/:id', 'updateUser', 'instance admin', 'no tokens'],
    ['POST', '/v1/users/:id/disable', 'disableUser', 'instance admin', 'no tokens'],
    ['POST', '/v1/users/:id/enable', 'enableUser', 'instance admin', 'no tokens'],
  ]),
  part('/v1', serviceAccountRoutes, [
    ['GET', '/v1/workspaces/:id/service_accounts', 'listServiceAccounts', 'admin'],
    ['POST', '/v1/workspaces/:id/service_accounts', 'createServiceAccount', 'admin'],
    ['PUT', '/v1/workspaces/:id/service_accounts/:account_id', 'updateServiceAccount', 'admin'],
    ['DELETE', '/v1/workspaces/:id/service_accounts/:account_id', 'deleteServiceAccount', 'admin'],
    ['GET', '/v1/workspaces/:id/service_accounts/:account_id/keys', 'listServiceAccountKeys', 'admin'],
    ['POST', '/v1/workspaces/:id/service_accounts/:account_id/keys', 'createServiceAccountKey', 'admin'],
    [
      ...(['DELETE', '/v1/workspaces/:id/service_accounts/:account_id/keys/:key_id'] as const),
      ...(['revokeServiceAccountKey', 'admin'] as const),
    ],
  ]),
  part('/v1/workspaces', workspaceRoutes, [
    ['POST', '/v1/workspaces', 'createWorkspace', 'key', 'no tokens'],
    ['GET', '/v1/workspaces', 'listWorkspaces', 'key', 'no tokens'],
    ['GET', '/v1/workspaces/:id', 'getWorkspace', 'viewer'],
    ['PUT', '/v1/workspaces/:id', 'updateWorkspace', 'admin'],
    ['GET', '/v1/workspaces/:id/projects', 'listProjects', 'viewer'],
    ['POST', '/v1/workspaces/:id/projects', 'createProject', 'member'],
    ['GET', '/v1/workspaces/:id/members', 'listMembers', 'viewer'],
    ['POST', '/v1/workspaces/:id/members', 'putMember', 'admin'],
    // Members with any role may remove themselves.
    ['DELETE', '/v1/workspaces/:id/members/:user_id', 'deleteMember', 'admin'],
  ]),
  part('/v1', apiClientRoutes, [
    ['GET', '/v1/workspaces/:id/oauth_clients', 'listApiClients', 'admin'],
    ['POST', '/v1/workspaces/:id/oauth_clients', 'createApiClient', 'admin'],
    ['POST', '/v1/workspaces/:id/oauth_clients/:client_id/rotate_secret', 'rotateApiClientSecret', 'admin'],
    ['DELETE', '/v1/workspaces/:id/oauth_clients/:client_id', 'deleteApiClient', 'admin'],
  ]),
  part('/v1/oauth', oauthTokenRoutes, [
    ['POST', '/v1/oauth/token', 'createAccessToken', 'anyone'],
    ['POST', '/v1/oauth/revoke', 'revokeAccessToken', 'anyone'],
  ]),
  part('/v1', sessionRoutes, [
    ['POST', '/v1/session', 'startSession', 'anyone'],
    ['GET', '/v1/session', 'getSession', 'key'],
    ['DELETE', '/v1/session', 'endSession', 'key'],
  ]),
  part('/v1', singleSignOnRoutes, [
    ['GET', '/v1/session/methods', 'getSignInMethods', 'anyone'],
    ['POST', '/v1/session/single_sign_on', 'startSingleSignOn', 'anyone'],
    ['GET', '/v1/users/me/identities', 'listIdentities', 'key', 'no tokens'],
    ['POST', '/v1/users/me/identities', 'linkIdentity', 'key', 'no tokens'],
    ['DELETE', '/v1/users/me/identities/:id', 'unlinkIdentity', 'key', 'no tokens'],
  ]),
  part('', signInPageRoutes, [['GET', '/oidc/callback', null, 'anyone']]),
  part('/v1', quotaRoutes, [
    ['GET', '/v1/quotas/:id', 'getQuota', 'instance admin'],
    ['PUT', '/v1/quotas/:id', 'putQuota', 'instance admin'],
    ['GET', '/v1/users/me/usage', 'getMyUsage', 'key', 'no tokens'],
    ['GET', '/v1/users/me/shares', 'getMyShares', 'key', 'no tokens'],
    ['GET', '/v1/workspaces/:id/usage', 'getWorkspaceUsage', 'viewer'],
    ['GET', '/v1/workspaces/:id/shares', 'getWorkspaceShares', 'viewer'],
  ]),
  part('/v1', retentionRoutes, [
    ['GET', '/v1/workspaces/:id/retention', 'getWorkspaceRetention', 'viewer'],
    ['PUT', '/v1/workspaces/:id/retention', 'updateWorkspaceRetention', 'admin'],
    ['GET', '/v1/retention/:id', 'getRetention', 'instance admin'],
    ['PUT', '/v1/retention/:id', 'putRetention', 'instance admin'],
  ]),
  part('/v1', deletionRoutes, [
    ['DELETE', '/v1/workspaces/:id', 'deleteWorkspace', 'admin'],
    ['DELETE', '/v1/users/me', 'deleteMe', 'key', 'no tokens'],
    ['DELETE', '/v1/users/:id', 'deleteUser', 'instance admin', 'no tokens'],
    ['GET', '/v1/deletions', 'listDeletions', 'instance admin', 'no tokens'],
    ['GET', '/v1/deletions/:id', 'getDeletion', 'key', 'no tokens'],
  ]),
  part('/v1', exportRoutes, [
    ['GET', '/v1/workspaces/:id/export', 'exportWorkspace', 'admin'],
    ['GET', '/v1/users/me/export', 'exportMe', 'key', 'no tokens'],
  ]),
  part('/v1', overviewRoutes, [
    ['GET', '/v1/users/me/overview', 'getMyOverview', 'key', 'no tokens'],
    ['GET', '/v1/workspaces/:id/overview', 'getWorkspaceOverview', 'viewer'],
  ]),
  part('/v1', instanceRoutes, [
    ['GET', '/v1/instance', 'getInstance', 'instance admin'],
    ['GET', '/v1/instance/processes', 'getProcesses', 'instance admin'],
  ]),
  part('/v1', projectRoutes, [
    ['PUT', '/v1/projects/:id', 'updateProject', 'member'],
    ['DELETE', '/v1/projects/:id', 'deleteProject', 'member'],
  ]),
  part('/v1', flowRoutes, [
    ['GET', '/v1/users/me/flow', 'getMyFlow', 'key', 'no tokens'],
    ['GET', '/v1/workspaces/:id/flow', 'getWorkspaceFlow', 'viewer'],
  ]),
  part('/v1', dataStoreRoutes, [
    ['POST', '/v1/data_stores', 'createDataStore', 'member'],
    ['GET', '/v1/users/me/data_stores', 'listMyDataStores', 'key', 'no tokens'],
    ['GET', '/v1/workspaces/:id/data_stores', 'listWorkspaceDataStores', 'viewer'],
    ['GET', '/v1/data_stores/:id', 'getDataStore', 'viewer'],
    ['DELETE', '/v1/data_stores/:id', 'deleteDataStore', 'member'],
    ['GET', '/v1/data_stores/:id/entries', 'listDataStoreEntries', 'viewer'],
    ['GET', '/v1/data_stores/:id/entries/:key', 'getDataStoreEntry', 'viewer'],
    ['PUT', '/v1/data_stores/:id/entries/:key', 'putDataStoreEntry', 'member'],
    ['DELETE', '/v1/data_stores/:id/entries/:key', 'deleteDataStoreEntry', 'member'],
  ]),
  part('/v1', variableRoutes, [
    ['GET', '/v1/variables', 'listVariables', 'viewer'],
    ['PUT', '/v1/variables', 'setVariables', 'member'],
    ['GET', '/v1/variables/:name', 'getVariable', 'viewer'],
    ['PUT', '/v1/variables/:name', 'setVariable', 'member'],
    ['DELETE', '/v1/variables/:name', 'deleteVariable', 'member'],
    ['GET', '/v1/variable_audit', 'listVariableAudit', 'admin'],
  ]),
  part('/v1', appRoutes, [
    ['GET', '/v1/apps', 'listApps', 'viewer'],
    ['GET', '/v1/apps/:id', 'getApp', 'viewer'],
    ['POST', '/v1/apps', 'createApp', 'admin'],
    ['PUT', '/v1/apps/:id', 'replaceApp', 'admin'],
    ['DELETE', '/v1/apps/:id', 'deleteApp', 'admin'],
  ]),
  part('/v1', apphookRoutes, [['POST', '/v1/apphooks', 'pushAppEvent', 'member']]),
  part('/v1', accountListRoutes, [
    ['GET', '/v1/accounts', 'listAccounts', 'viewer'],
    ['GET', '/v1/workspaces/:id/accounts', 'listWorkspaceAccounts', 'viewer'],
  ]),
  part('/v1', accountRoutes, [
    ['POST', '/v1/accounts', 'createAccount', 'member'],
    // With include_credentials: creator.
    ['GET', '/v1/accounts/:id', 'getAccount', 'viewer'],
    ['PUT', '/v1/accounts/:id', 'updateAccount', 'creator'],
    ['DELETE', '/v1/accounts/:id', 'deleteAccount', 'creator'],
  ]),
  // With account_id: creator.
  part('/v1', connectRoutes, [['POST', '/v1/accounts/connect', 'connectAccount', 'member']]),
  part('', connectPageRoutes, [
    ['GET', '/connect/callback', null, 'anyone'],
    ['GET', '/connect/:link', null, 'anyone'],
    ['POST', '/connect/:link', null, 'anyone'],
  ]),
  part('/v1', oauthClientRoutes, [
    ['GET', '/v1/apps/:id/oauth_client', 'getOAuthClient', 'viewer'],
    ['PUT', '/v1/apps/:id/oauth_client', 'putOAuthClient', 'admin'],
    ['DELETE', '/v1/apps/:id/oauth_client', 'deleteOAuthClient', 'admin'],
  ]),
  part('/v1', accountAuditRoutes, [
    ['GET', '/v1/accounts/:id/uses', 'listAccountUses', 'viewer'],
    ['GET', '/v1/accounts/:id/audit', 'listAccountAudit', 'creator'],
    ['GET', '/v1/workspaces/:id/audit', 'listWorkspaceAudit', 'admin'],
  ]),
  part('/v1', auditRoutes, [
    ['GET', '/v1/audit', 'listAudit', 'admin'],
    ['GET', '/v1/audit/export', 'exportAudit', 'admin'],
  ]),
  part('/v1', accountHealthRoutes, [['POST', '/v1/accounts/:id/test', 'testAccount', 'member']]),
  part('/v1', subscriptionRoutes, [
    ['POST', '/v1/subscriptions', 'createSubscription', 'member'],
    // A member of the workspace of the emitter or of the listener may do this.
    ['DELETE', '/v1/subscriptions', 'deleteSubscription', 'member'],
    ['GET', '/v1/subscriptions/:id', 'getSubscription', 'viewer'],
    ['DELETE', '/v1/subscriptions/:id', 'deleteSubscriptionById', 'member'],
    ['GET', '/v1/users/me/subscriptions', 'listMySubscriptions', 'key', 'no tokens'],
    ['GET', '/v1/workspaces/:id/subscriptions', 'listWorkspaceSubscriptions', 'viewer'],
    ['POST', '/v1/auto_subscriptions', 'createAutoSubscription', 'member'],
    ['GET', '/v1/auto_subscriptions', 'listAutoSubscriptions', 'viewer'],
    ['DELETE', '/v1/auto_subscriptions/:id', 'deleteAutoSubscription', 'member'],
    ['PUT', '/v1/sources/:id/listen/:emitter_id', 'listenToEmitter', 'member'],
  ]),
  part('/v1', replayRoutes, [
    ['POST', '/v1/sources/:id/replay', 'replaySourceEvents', 'member'],
    ['GET', '/v1/sources/:id/replays', 'listSourceReplays', 'viewer'],
    ['POST', '/v1/workflows/:id/replay', 'replayWorkflowEvents', 'member'],
    ['GET', '/v1/workflows/:id/replays', 'listWorkflowReplays', 'viewer'],
    ['GET', '/v1/replays/:id', 'getReplay', 'viewer'],
    // A member of the workspace of the emitter or of the listener may do this.
    ['DELETE', '/v1/replays/:id', 'cancelReplay', 'member'],
  ]),
  part('/v1', webhookRoutes, [
    ['POST', '/v1/webhooks', 'createWebhook', 'member'],
    ['GET', '/v1/users/me/webhooks', 'listMyWebhooks', 'key', 'no tokens'],
    ['GET', '/v1/workspaces/:id/webhooks', 'listWorkspaceWebhooks', 'viewer'],
    ['GET', '/v1/webhooks/:id', 'getWebhook', 'viewer'],
    ['PUT', '/v1/webhooks/:id', 'updateWebhook', 'member'],
    ['DELETE', '/v1/webhooks/:id', 'deleteWebhook', 'member'],
    ['POST', '/v1/webhooks/:id/rotate_secret', 'rotateWebhookSecret', 'member'],
    ['POST', '/v1/webhooks/:id/pause', 'pauseWebhook', 'member'],
    ['POST', '/v1/webhooks/:id/resume', 'resumeWebhook', 'member'],
    ['POST', '/v1/webhooks/:id/redeliver', 'redeliverToWebhook', 'member'],
  ]),
  part('/v1', deliveryRoutes, [
    ['GET', '/v1/webhooks/:id/deliveries', 'listWebhookDeliveries', 'viewer'],
    ['GET', '/v1/sources/:id/deliveries', 'listSourceDeliveries', 'viewer'],
    ['GET', '/v1/subscriptions/:id/deliveries', 'listSubscriptionDeliveries', 'viewer'],
    ['GET', '/v1/deliveries/:id', 'getDelivery', 'viewer'],
    ['POST', '/v1/deliveries/:id/redeliver', 'redeliverDelivery', 'member'],
    ['GET', '/v1/users/me/dead_letters', 'listMyDeadLetters', 'key', 'no tokens'],
    ['GET', '/v1/workspaces/:id/dead_letters', 'listWorkspaceDeadLetters', 'viewer'],
  ]),
  part('/v1', testEventRoutes, [
    ['GET', '/v1/workflows/:id/test_events', 'listTestEvents', 'viewer'],
    ['GET', '/v1/workflows/:id/test_events/:name', 'getTestEvent', 'viewer'],
    ['PUT', '/v1/workflows/:id/test_events/:name', 'putTestEvent', 'member'],
    ['POST', '/v1/workflows/:id/test_events/:name/run', 'runTestEvent', 'member'],
    ['DELETE', '/v1/workflows/:id/test_events/:name', 'deleteTestEvent', 'member'],
  ]),
  part('/v1', bulkRunRoutes, [
    ['POST', '/v1/workflows/:id/runs/cancel', 'cancelRuns', 'member'],
    ['POST', '/v1/workflows/:id/runs/replay', 'replayRuns', 'member'],
    ['POST', '/v1/workflows/:id/runs/restart', 'restartRuns', 'member'],
  ]),
  part('/v1', runRoutes, [
    ['GET', '/v1/workflows/:id/runs', 'listRuns', 'viewer'],
    ['GET', '/v1/runs/:id', 'getRun', 'viewer'],
    ['POST', '/v1/runs/:id/cancel', 'cancelRun', 'member'],
    ['POST', '/v1/runs/:id/replay', 'replayRun', 'member'],
    ['POST', '/v1/runs/:id/restart', 'restartRun', 'member'],
    ['POST', '/v1/workflows/:id/steps/:namespace/test', 'testStep', 'member'],
  ]),
  part('/v1', componentRoutes, [
    ['GET', '/v1/components', 'listComponents', 'key', 'no tokens'],
    ['GET', '/v1/components/search', 'searchComponents', 'key', 'no tokens'],
    ['POST', '/v1/components', 'createComponent', 'member', 'no tokens'],
    ['GET', '/v1/components/registry/:key', 'getRegistryComponent', 'key', 'no tokens'],
    ['GET', '/v1/components/:id', 'getComponent', 'viewer', 'no tokens'],
  ]),
  part('/v1', configureRoutes, [
    ['POST', '/v1/components/configure', 'configureComponent', 'member', 'no tokens'],
    ['POST', '/v1/components/props', 'reloadComponentProps', 'member', 'no tokens'],
  ]),
  part('/v1', actionRoutes, [['POST', '/v1/actions/run', 'runAction', 'member']]),
  part('/v1', registryRoutes, [
    ['POST', '/v1/registry/packages', 'addRegistryPackage', 'instance admin'],
    ['GET', '/v1/registry/packages', 'listRegistryPackages', 'instance admin'],
    ['DELETE', '/v1/registry/packages', 'removeRegistryPackage', 'instance admin'],
  ]),
  part('/v1', repositoryRoutes, [
    ['POST', '/v1/registry/repositories', 'addRegistryRepository', 'instance admin'],
    ['GET', '/v1/registry/repositories', 'listRegistryRepositories', 'instance admin'],
    ['GET', '/v1/registry/repositories/:id', 'getRegistryRepository', 'instance admin'],
    ['POST', '/v1/registry/repositories/:id/update', 'updateRegistryRepository', 'instance admin'],
    ['DELETE', '/v1/registry/repositories/:id', 'removeRegistryRepository', 'instance admin'],
  ]),
  part('/v1', sourceRoutes, [
    ['GET', '/v1/users/me/sources', 'listMySources', 'key', 'no tokens'],
    ['GET', '/v1/orgs/:id/sources', 'listWorkspaceSources', 'viewer'],
    ['POST', '/v1/sources', 'createSource', 'member', 'no tokens'],
    ['GET', '/v1/sources/:id', 'getSource', 'viewer'],
    ['PUT', '/v1/sources/:id', 'updateSource', 'member'],
    ['DELETE', '/v1/sources/:id', 'deleteSource', 'member'],
  ]),
  part('/v1', sourceTimerRoutes, [
    ['GET', '/v1/sources/:id/ticks', 'listSourceTicks', 'viewer'],
    ['GET', '/v1/sources/:id/timers', 'listSourceTimers', 'viewer'],
  ]),
  part('/v1', workflowListRoutes, [
    ['GET', '/v1/users/me/workflows', 'listMyWorkflows', 'key', 'no tokens'],
    ['GET', '/v1/workspaces/:id/workflows', 'listWorkspaceWorkflows', 'viewer'],
    ['GET', '/v1/projects/:id/workflows', 'listProjectWorkflows', 'viewer'],
  ]),
  part('/v1', workflowRoutes, [
    ['POST', '/v1/workflows', 'createWorkflow', 'member', 'no tokens'],
    ['GET', '/v1/workflows/:id', 'getWorkflow', 'viewer'],
    ['PUT', '/v1/workflows/:id', 'updateWorkflow', 'member', 'no tokens'],
    ['DELETE', '/v1/workflows/:id', 'deleteWorkflow', 'member'],
  ]),
  part('/v1', deploymentRoutes, [
    ['GET', '/v1/workflows/:id/deployments', 'listDeployments', 'viewer'],
    ['POST', '/v1/workflows/:id/deployments', 'createDeployment', 'member', 'no tokens'],
    ['GET', '/v1/deployments/:id', 'getDeployment', 'viewer'],
  ]),
  part('/v1', queueRoutes, [
    ['GET', '/v1/workflows/:id/queue', 'getWorkflowQueue', 'viewer'],
    ['GET', '/v1/sources/:id/queue', 'getSourceQueue', 'viewer'],
  ]),
  part('/v1', workflowTickRoutes, [['GET', '/v1/workflows/:id/ticks', 'listWorkflowTicks', 'viewer']]),
  part('/v1', templateRoutes, [
    ['POST', '/v1/templates', 'createTemplate', 'member'],
    ['GET', '/v1/templates', 'listTemplates', 'key'],
    ['GET', '/v1/templates/:id', 'getTemplate', 'key'],
    ['DELETE', '/v1/templates/:id', 'deleteTemplate', 'member'],
  ]),
  part('/v1', importRoutes, [
    ['POST', '/v1/imports', 'createImport', 'member', 'no tokens'],
    ['POST', '/v1/imports/outline', 'outlineExport', 'key'],
    ['GET', '/v1/imports', 'listImports', 'viewer'],
    ['GET', '/v1/imports/:id', 'getImport', 'viewer'],
    ['POST', '/v1/imports/:id/answers', 'answerImport', 'member', 'no tokens'],
    ['POST', '/v1/imports/:id/undo', 'undoImport', 'member'],
  ]),
  part('/v1', emitterRoutes, [
    ['GET', '/v1/sources/:id/event_summaries', 'listSourceEvents', 'viewer'],
    ['GET', '/v1/sources/:id/events', 'listSourceEmits', 'viewer'],
    ['DELETE', '/v1/sources/:id/events', 'deleteSourceEvents', 'member'],
    ['GET', '/v1/workflows/:id/event_summaries', 'listWorkflowEvents', 'viewer'],
    ['GET', '/v1/workflows/:id/events', 'listWorkflowEmits', 'viewer'],
    ['DELETE', '/v1/workflows/:id/events', 'deleteWorkflowEvents', 'member'],
    ['GET', '/v1/workflows/:id/$errors/event_summaries', 'listWorkflowErrors', 'viewer'],
  ]),
  part('/v1', eventRoutes, [['GET', '/v1/sources/:id/logs', 'listSourceLogs', 'viewer']]),
  part('/v1', ownerEventRoutes, [
    ['GET', '/v1/workspaces/:id/event_summaries', 'listWorkspaceEvents', 'viewer'],
    ['GET', '/v1/users/me/event_summaries', 'listMyEvents', 'key', 'no tokens'],
  ]),
  // The streams have two addresses: the specified one, without a version, and one beside the other routes.
  part('', eventStreamRoutes, [
    ['GET', '/sources/:id/sse', 'streamSourceEvents', 'viewer'],
    ['GET', '/workflows/:id/sse', 'streamWorkflowEvents', 'viewer'],
    ['GET', '/workspaces/:id/sse', 'streamWorkspaceEvents', 'viewer'],
  ]),
  // One part for both, since the readers of a workflow are counted together.
  part('', workflowStreamRoutes, [
    ['GET', '/pipelines/:id/sse', 'streamWorkflowSends', 'anyone'],
    ['GET', '/v1/pipelines/:id/sse', 'streamWorkflowSendsVersioned', 'anyone'],
  ]),
  part('/v1', eventStreamRoutes, [
    ['GET', '/v1/sources/:id/sse', 'streamSourceEventsVersioned', 'viewer'],
    ['GET', '/v1/workflows/:id/sse', 'streamWorkflowEventsVersioned', 'viewer'],
    ['GET', '/v1/workspaces/:id/sse', 'streamWorkspaceEventsVersioned', 'viewer'],
  ]),
  part('', dashboardRoutes, [
    ['GET', '/', null, 'anyone'],
    ...pagePaths.flatMap((path): Row[] => [
      ['GET', `/${path}`, null, 'anyone'],
      ['GET', `/${path}/*`, null, 'anyone'],
    ]),
    ['GET', '/assets/:name', null, 'anyone'],
    ['GET', '/favicon.svg', null, 'anyone'],
    ['GET', '/theme.js', null, 'anyone'],
  ]),
  part('', manualRoutes, [
    ['GET', '/docs', null, 'anyone'],
    ['GET', '/docs/*', null, 'anyone'],
  ]),
];

/** The OpenAPI document and its page, which describe the routes above and are registered after them. */
export const reference: Part = part('', serveReference, [
  ['GET', '/openapi.json', 'getOpenApiDocument', 'anyone'],
  ['GET', '/docs/api', null, 'anyone'],
  ['GET', '/docs/api/*', null, 'anyone'],
]);
