import type { Operation, Schema } from './api-document.ts';

/** Bodies of examples where what is required alone would be no example. Fields that the operation does not have fail. */
const sampleBodies: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  createSource: { key: 'http-new-requests-payload-only', name: 'inbox' },
  updateSource: { name: 'orders', active: true },
  createWorkflow: {
    settings: { name: 'hello', auto_deploy: true },
    triggers: [{ type: 'http' }],
    steps: [{ namespace: 'greet', code: "export default defineComponent({ run() { return 'Hello' } })" }],
  },
  updateWorkflow: { active: false },
  createDeployment: { settings: { timeout_seconds: 60 } },
  createTemplate: { workflow_id: 'p_…' },
  outlineExport: { files: { 'manifest.json': '{"workflows":[]}' } },
  createImport: {
    files: { 'hello-p_Ab3dEf/workflow.yaml': 'name: Hello\ntriggers:\n- id: hi_Gh6iJk\n' },
    dry_run: true,
  },
  createComponent: { component_code: 'export default { … }' },
  createWebhook: { url: 'https://example.com/hook', name: 'orders' },
  updateWebhook: { name: 'orders' },
  createSubscription: { emitter_id: 'dc_…', listener_id: 'wh_…' },
  createAutoSubscription: { event_name: '$errors', listener_id: 'wh_…' },
  replaySourceEvents: { listener_id: 'wh_…' },
  replayWorkflowEvents: { listener_id: 'wh_…' },
  restartRun: { from_step: 'greet' },
  testStep: { event: { body: { name: 'Ada' } } },
  runAction: { id: 'slack-send-message', configured_props: {} },
  createAccount: { app: 'openai', name: 'ours', credentials: { api_key: '…' } },
  updateAccount: { name: 'ours' },
  connectAccount: { app: 'github' },
  createApp: { slug: 'our-crm', name: 'Our CRM', auth_type: 'keys', custom_fields: [{ name: 'api_key' }] },
  replaceApp: { slug: 'our-crm', name: 'Our CRM', auth_type: 'keys', custom_fields: [{ name: 'token' }] },
  createUser: { username: 'ada', email: 'ada@example.com' },
  addRegistryPackage: { name: '@pipedream/slack' },
  addRegistryRepository: { url: 'https://github.com/PipedreamHQ/pipedream' },
  pushAppEvent: { app: 'slack', event_name: 'message', payload: { text: 'hello' } },
  putMember: { email: 'ada@example.com', role: 'member' },
  putDataStoreEntry: { value: { seen: true } },
  setVariable: { value: 'https://api.example.com', description: 'where orders go' },
  putTestEvent: { event: { body: { name: 'Ada' } } },
  replayRuns: { state: 'failed', since: '2026-01-31T12:00:00Z' },
  cancelRuns: { state: 'waiting' },
  putOAuthClient: { client_id: '…', client_secret: '…' },
  configureComponent: { id: 'sc_…', prop_name: 'channel', configured_props: {} },
  reloadComponentProps: { id: 'sc_…', configured_props: {} },
};

/** Queries of examples whose parameters are needed, but may stand in the body as well. */
const sampleQueries: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  deleteSubscription: { emitter_id: 'dc_…', listener_id: 'wh_…' },
  removeRegistryPackage: { name: '@pipedream/slack', version: '0.10.3' },
};

/** What an example asks with: the parameters that it must have. */
export function sampleQuery({ operationId, parameters = [] }: Operation): Readonly<Record<string, string>> {
  const required = parameters.filter((parameter) => parameter.in === 'query' && parameter.required === true);
  return (
    sampleQueries[operationId] ??
    Object.fromEntries(required.map(({ name, description }) => [name, sampleText(description)]))
  );
}

/** What an example sends, or undefined when the operation takes no body. */
export function sampleBody({
  operationId,
  method,
  parameters = [],
  requestBody,
}: Operation): Record<string, unknown> | undefined {
  const schema = requestBody?.content['application/json']?.schema;
  if (schema === undefined) return undefined;
  const { properties = {}, required = [] } = schema;
  // Parameters of a DELETE stand in the query where they may: nothing on the way drops them there.
  const mayBeInQuery = (name: string) => parameters.some((one) => one.in === 'query' && one.name === name);
  if (method === 'DELETE' && required.every(mayBeInQuery)) return undefined;
  const sample = sampleBodies[operationId];
  if (sample === undefined)
    return Object.fromEntries(required.map((name) => [name, sampleValue(name, properties[name] ?? {})]));
  const unknown = Object.keys(sample).filter((name) => properties[name] === undefined);
  const missing = required.filter((name) => sample[name] === undefined);
  if (unknown.length > 0 || missing.length > 0)
    throw new Error(
      `scripts/api-samples.ts, ${operationId}: unknown are ${unknown.join(', ') || 'none'}, missing ${missing.join(', ') || 'none'}`,
    );
  return { ...sample };
}

/** `dc_…` where the description begins with it. */
export function sampleText(description: string | undefined): string {
  return /^[a-z]+_…/.exec(description ?? '')?.[0] ?? '…';
}

function sampleValue(name: string, schema: Schema): unknown {
  if (schema.enum !== undefined) return schema.enum[0];
  switch (schema.anyOf?.[0]?.type ?? schema.type) {
    case 'integer':
    case 'number':
      return schema.minimum ?? 1;
    case 'boolean':
      return true;
    case 'array':
      return [];
    case 'object':
      return {};
    default:
      return /(^|_)url$/.test(name) ? 'https://example.com' : sampleText(schema.description);
  }
}
