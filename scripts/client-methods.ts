/**
 * The method of the TypeScript client for each operation of the API, as `resource.method`. The generator fails for an
 * operation without one. `same as` marks another address of an operation that has its method already, `none` one that only
 * pages in a browser have a use for.
 */
export const clientMethods: Readonly<Record<string, string>> = {
  getHealth: 'health.get',
  getReadiness: 'health.readiness',
  getMetrics: 'health.metrics',
  getInstance: 'health.instance',
  getProcesses: 'health.processes',
  getOpenApiDocument: 'health.openApiDocument',

  createSource: 'sources.create',
  getSource: 'sources.get',
  updateSource: 'sources.update',
  deleteSource: 'sources.delete',
  listMySources: 'sources.list',
  listWorkspaceSources: 'sources.listInWorkspace',
  listSourceTicks: 'sources.listTicks',
  listSourceTimers: 'sources.listTimers',

  listMyEvents: 'eventSummaries.list',
  listWorkspaceEvents: 'eventSummaries.listInWorkspace',
  listSourceEvents: 'eventSummaries.listOfSource',
  listWorkflowEvents: 'eventSummaries.listOfWorkflow',
  listWorkflowErrors: 'eventSummaries.listErrorsOfWorkflow',

  listSourceEmits: 'events.listOfSource',
  listWorkflowEmits: 'events.listOfWorkflow',
  listSourceLogs: 'events.listLogsOfSource',
  deleteSourceEvents: 'events.deleteOfSource',
  deleteWorkflowEvents: 'events.deleteOfWorkflow',
  streamSourceEvents: 'events.streamOfSource',
  streamWorkflowEvents: 'events.streamOfWorkflow',
  streamWorkspaceEvents: 'events.streamOfWorkspace',
  streamWorkflowSends: 'events.streamSendsOfWorkflow',
  streamWorkflowSendsVersioned: 'same as streamWorkflowSends',
  streamSourceEventsVersioned: 'same as streamSourceEvents',
  streamWorkflowEventsVersioned: 'same as streamWorkflowEvents',
  streamWorkspaceEventsVersioned: 'same as streamWorkspaceEvents',

  replaySourceEvents: 'replays.startOfSource',
  replayWorkflowEvents: 'replays.startOfWorkflow',
  listSourceReplays: 'replays.listOfSource',
  listWorkflowReplays: 'replays.listOfWorkflow',
  getReplay: 'replays.get',
  cancelReplay: 'replays.cancel',

  createSubscription: 'subscriptions.create',
  getSubscription: 'subscriptions.get',
  deleteSubscription: 'subscriptions.delete',
  deleteSubscriptionById: 'subscriptions.deleteById',
  listMySubscriptions: 'subscriptions.list',
  listWorkspaceSubscriptions: 'subscriptions.listInWorkspace',
  listenToEmitter: 'subscriptions.listen',
  createAutoSubscription: 'subscriptions.createAuto',
  listAutoSubscriptions: 'subscriptions.listAuto',
  deleteAutoSubscription: 'subscriptions.deleteAuto',

  createWebhook: 'webhooks.create',
  getWebhook: 'webhooks.get',
  updateWebhook: 'webhooks.update',
  deleteWebhook: 'webhooks.delete',
  listMyWebhooks: 'webhooks.list',
  listWorkspaceWebhooks: 'webhooks.listInWorkspace',
  rotateWebhookSecret: 'webhooks.rotateSecret',
  pauseWebhook: 'webhooks.pause',
  resumeWebhook: 'webhooks.resume',
  redeliverToWebhook: 'webhooks.redeliver',

  getDelivery: 'deliveries.get',
  redeliverDelivery: 'deliveries.redeliver',
  listWebhookDeliveries: 'deliveries.listOfWebhook',
  listSourceDeliveries: 'deliveries.listOfSource',
  listSubscriptionDeliveries: 'deliveries.listOfSubscription',
  listMyDeadLetters: 'deliveries.listDeadLetters',
  listWorkspaceDeadLetters: 'deliveries.listDeadLettersInWorkspace',

  createWorkflow: 'workflows.create',
  getWorkflow: 'workflows.get',
  updateWorkflow: 'workflows.update',
  deleteWorkflow: 'workflows.delete',
  listMyWorkflows: 'workflows.list',
  listWorkspaceWorkflows: 'workflows.listInWorkspace',
  listProjectWorkflows: 'workflows.listInProject',
  listWorkflowTicks: 'workflows.listTicks',
  testStep: 'workflows.testStep',

  listDeployments: 'deployments.list',
  createDeployment: 'deployments.create',
  getDeployment: 'deployments.get',

  createTemplate: 'templates.create',
  listTemplates: 'templates.list',
  getTemplate: 'templates.get',
  deleteTemplate: 'templates.delete',

  listRuns: 'runs.list',
  getRun: 'runs.get',
  cancelRun: 'runs.cancel',
  replayRun: 'runs.replay',
  restartRun: 'runs.restart',

  listComponents: 'components.list',
  createComponent: 'components.create',
  searchComponents: 'components.search',
  getComponent: 'components.get',
  getRegistryComponent: 'components.getFromRegistry',
  configureComponent: 'components.configure',
  reloadComponentProps: 'components.reloadProps',

  addRegistryPackage: 'registry.addPackage',
  listRegistryPackages: 'registry.listPackages',
  removeRegistryPackage: 'registry.removePackage',

  runAction: 'actions.run',

  listAccounts: 'accounts.list',
  createAccount: 'accounts.create',
  listWorkspaceAccounts: 'accounts.listInWorkspace',
  getAccount: 'accounts.get',
  updateAccount: 'accounts.update',
  deleteAccount: 'accounts.delete',
  connectAccount: 'accounts.connect',
  testAccount: 'accounts.test',
  listAccountUses: 'accounts.listUses',
  listAccountAudit: 'accounts.listAudit',
  listWorkspaceAudit: 'accounts.listAuditInWorkspace',

  listApps: 'apps.list',
  createApp: 'apps.create',
  getApp: 'apps.get',
  replaceApp: 'apps.replace',
  deleteApp: 'apps.delete',
  getOAuthClient: 'apps.getOAuthClient',
  putOAuthClient: 'apps.putOAuthClient',
  deleteOAuthClient: 'apps.deleteOAuthClient',

  pushAppEvent: 'apphooks.push',

  createDataStore: 'dataStores.create',
  getDataStore: 'dataStores.get',
  deleteDataStore: 'dataStores.delete',
  listMyDataStores: 'dataStores.list',
  listWorkspaceDataStores: 'dataStores.listInWorkspace',
  listDataStoreEntries: 'dataStores.listEntries',
  getDataStoreEntry: 'dataStores.getEntry',
  putDataStoreEntry: 'dataStores.putEntry',
  deleteDataStoreEntry: 'dataStores.deleteEntry',

  getSession: 'sessions.get',
  startSession: 'none: a cookie, instead of the key that the client has',
  endSession: 'none: a cookie, instead of the key that the client has',

  getMe: 'users.me',
  createUser: 'users.create',
  listUsers: 'users.list',
  getMyUsage: 'users.usage',
  getMyOverview: 'users.overview',
  getWorkspaceOverview: 'workspaces.overview',
  getMyFlow: 'users.flow',
  getWorkspaceFlow: 'workspaces.flow',

  listApiKeys: 'apiKeys.list',
  createApiKey: 'apiKeys.create',
  revokeApiKey: 'apiKeys.revoke',

  createWorkspace: 'workspaces.create',
  listWorkspaces: 'workspaces.list',
  getWorkspace: 'workspaces.get',
  updateWorkspace: 'workspaces.update',
  getWorkspaceUsage: 'workspaces.usage',

  listProjects: 'projects.list',
  createProject: 'projects.create',
  updateProject: 'projects.update',
  deleteProject: 'projects.delete',

  listMembers: 'members.list',
  putMember: 'members.put',
  deleteMember: 'members.delete',

  listApiClients: 'oauthClients.list',
  createApiClient: 'oauthClients.create',
  rotateApiClientSecret: 'oauthClients.rotateSecret',
  deleteApiClient: 'oauthClients.delete',

  createAccessToken: 'accessTokens.create',
  revokeAccessToken: 'accessTokens.revoke',

  getQuota: 'quotas.get',
  putQuota: 'quotas.put',
};

/**
 * Operations other than GET that have the same effect when they are done twice, so that the client may send them again
 * when it does not know the outcome of the first request.
 */
export const repeatable: ReadonlySet<string> = new Set([
  'createAccessToken',
  'pauseWebhook',
  'putDataStoreEntry',
  'putMember',
  'putOAuthClient',
  'putQuota',
  'replaceApp',
  'resumeWebhook',
  'revokeAccessToken',
]);

/** Operations that run code of users as long as it may take; milliseconds until their answer is given up. */
export const timeouts: Readonly<Record<string, number>> = { runAction: 330_000, testStep: 780_000 };

/**
 * Names of the shapes that callers hold in their hands, and where each stands: in the answer of an operation, `data` being
 * the object or the item of a list. The same schema has the same name wherever it stands.
 */
export const typeNames: Readonly<Record<string, string>> = {
  PageInfo: 'listApiKeys.page_info',
  EventSummary: 'listSourceEvents.data',
  Emit: 'listSourceEmits.data',
  SourceLog: 'listSourceLogs.data',
  SourceTick: 'listSourceTicks.data',
  SourceTimer: 'listSourceTimers.data',
  Source: 'getSource.data',
  Health: 'getSource.data.health',
  Replay: 'getReplay.data',
  Subscription: 'getSubscription.data',
  AutoSubscription: 'createAutoSubscription.data',
  Webhook: 'getWebhook.data',
  Delivery: 'getDelivery.data',
  DeliveryAttempt: 'getDelivery.data.attempts',
  WorkflowStep: 'getWorkflow.data.steps',
  WorkflowTrigger: 'getWorkflow.data.triggers',
  WorkflowSettings: 'getWorkflow.data.settings',
  StepDefinition: 'createTemplate.data.steps',
  TriggerDefinition: 'createTemplate.data.triggers',
  Workflow: 'getWorkflow.data',
  WorkflowSummary: 'listMyWorkflows.data',
  WorkflowTick: 'listWorkflowTicks.data',
  Deployment: 'getDeployment.data',
  Template: 'getTemplate.data',
  RunStep: 'getRun.data.steps',
  RunSend: 'getRun.data.sends',
  StepTestResult: 'testStep.data',
  RunDetail: 'getRun.data',
  Run: 'listRuns.data',
  Component: 'getComponent.data',
  ConfigurableProp: 'getComponent.data.configurable_props',
  ComponentSummary: 'listComponents.data',
  RegistryPackage: 'addRegistryPackage.data',
  Account: 'getAccount.data',
  AccountAuditEntry: 'listAccountAudit.data',
  AccountUses: 'listAccountUses.data',
  App: 'getApp.data',
  AppSummary: 'listApps.data',
  AppOAuthClient: 'getOAuthClient.data',
  DataStore: 'getDataStore.data',
  DataStoreEntry: 'getDataStoreEntry.data',
  Overview: 'getMyOverview.data',
  Flow: 'getMyFlow.data',
  FlowNode: 'getMyFlow.data.nodes',
  FlowFigures: 'getMyFlow.data.nodes.emitted',
  FlowEdge: 'getMyFlow.data.edges',
  User: 'getMe.data',
  UserSummary: 'listUsers.data',
  Session: 'getSession.data',
  Instance: 'getInstance.data',
  Processes: 'getProcesses.data',
  Setting: 'getInstance.data.settings',
  ApiKey: 'listApiKeys.data',
  Workspace: 'getWorkspace.data',
  OwnWorkspace: 'listWorkspaces.data',
  Project: 'createProject.data',
  Member: 'putMember.data',
  OAuthClient: 'listApiClients.data',
  OAuthClientWithSecret: 'createApiClient.data',
  Quota: 'getQuota.data',
  Usage: 'getMyUsage.data',
};

/** True when an operation has a method of its own. */
export function hasMethod(operationId: string): boolean {
  const method = clientMethods[operationId];
  return method !== undefined && !/^(?:same as |none: )/.test(method);
}
