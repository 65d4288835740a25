/** What is filtered by in the audit: every operation that is recorded, by what it is about. A test compares it with the routes. */
export const auditedOperations: readonly { about: string; operations: readonly string[] }[] = [
  {
    about: 'Sources',
    operations: ['createSource', 'updateSource', 'deleteSource', 'deleteSourceEvents'],
  },
  {
    about: 'Workflows',
    operations: [
      ...['createWorkflow', 'updateWorkflow', 'createDeployment', 'deleteWorkflow', 'deleteWorkflowEvents'],
      ...['testStep', 'putTestEvent', 'runTestEvent', 'deleteTestEvent'],
    ],
  },
  {
    about: 'Runs and replays',
    operations: [
      ...['cancelRun', 'cancelRuns', 'replayRun', 'replayRuns', 'restartRun', 'restartRuns', 'runAction'],
      ...['replaySourceEvents', 'replayWorkflowEvents', 'cancelReplay'],
    ],
  },
  {
    about: 'Webhooks',
    operations: [
      ...['createWebhook', 'updateWebhook', 'deleteWebhook', 'rotateWebhookSecret', 'pauseWebhook'],
      ...['resumeWebhook', 'redeliverToWebhook', 'redeliverDelivery'],
    ],
  },
  {
    about: 'Subscriptions',
    operations: [
      ...['createSubscription', 'deleteSubscription', 'deleteSubscriptionById', 'listenToEmitter'],
      ...['createAutoSubscription', 'deleteAutoSubscription'],
    ],
  },
  {
    about: 'Accounts and apps',
    operations: [
      ...['createAccount', 'updateAccount', 'deleteAccount', 'connectAccount', 'testAccount'],
      ...[
        'POST /connect/:link',
        'GET /connect/callback',
        'createApp',
        'replaceApp',
        'deleteApp',
        'putOAuthClient',
        'deleteOAuthClient',
      ],
    ],
  },
  {
    about: 'Variables and data stores',
    operations: [
      ...['setVariable', 'setVariables', 'deleteVariable', 'createDataStore', 'deleteDataStore'],
      ...['putDataStoreEntry', 'deleteDataStoreEntry'],
    ],
  },
  {
    about: 'Components, templates and imports',
    operations: [
      ...[
        'createComponent',
        'createTemplate',
        'deleteTemplate',
        'createImport',
        'answerImport',
        'undoImport',
      ],
      ...['addRegistryPackage', 'removeRegistryPackage', 'addRegistryRepository', 'updateRegistryRepository'],
      'removeRegistryRepository',
    ],
  },
  {
    about: 'Workspaces and members',
    operations: [
      ...['createWorkspace', 'updateWorkspace', 'putMember', 'deleteMember', 'createProject'],
      ...['updateProject', 'deleteProject', 'putQuota', 'deleteWorkspace'],
      ...['updateWorkspaceRetention', 'putRetention'],
    ],
  },
  {
    about: 'Users and sign-in',
    operations: [
      ...['createUser', 'updateUser', 'deleteUser', 'deleteMe'],
      ...['disableUser', 'enableUser', 'startSession', 'endSession', 'revokeSession'],
      ...['revokeOtherSessions', 'GET /oidc/callback', 'linkIdentity', 'unlinkIdentity'],
    ],
  },
  {
    about: 'Keys and programs',
    operations: [
      ...['createApiKey', 'revokeApiKey', 'createServiceAccount', 'updateServiceAccount'],
      ...['deleteServiceAccount', 'createServiceAccountKey', 'revokeServiceAccountKey', 'createApiClient'],
      ...['rotateApiClientSecret', 'deleteApiClient', 'createAccessToken', 'revokeAccessToken'],
    ],
  },
];

/** Operations whose names say something else in words. */
const named: Readonly<Record<string, string>> = {
  'GET /oidc/callback': 'Sign in with the provider',
  'POST /connect/:link': 'Connect account by link',
  'GET /connect/callback': 'Connect account at the provider',
  startSession: 'Sign in',
  endSession: 'Sign out',
  putMember: 'Add member or change role',
  createApiClient: 'Create OAuth client',
  rotateApiClientSecret: 'Rotate OAuth client secret',
  deleteApiClient: 'Delete OAuth client',
  putOAuthClient: 'Set OAuth client of app',
  deleteOAuthClient: 'Delete OAuth client of app',
  putQuota: 'Set quota',
  putRetention: 'Set retention or legal hold',
  deleteMe: 'Delete own user',
  putTestEvent: 'Set test event',
  putDataStoreEntry: 'Set data store entry',
  deleteSubscriptionById: 'Delete subscription by id',
};

/** `Update webhook` of `updateWebhook`. Commands of the operator, which have a space, stay as they are. */
export function operationWords(operation: string): string {
  const given = named[operation];
  if (given !== undefined) return given;
  if (operation.includes(' ')) return `Command ${operation}`;
  const words = operation
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .replace(/\bapi\b/, 'API');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
