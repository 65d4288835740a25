import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { isRecorded } from '#http/audit-requests.ts';
import { routeScope } from '#http/route-scope.ts';
import { type Right, type Row, reference, routes } from '#http/routes.ts';
import { type KeyScope, keyScopes } from '#storage/tables/identity-tables.ts';
import { type ServiceClient, testApiKey, useSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/**
 * Requests every row of the table of routes with every role and without one, with keys without scopes, with no more scopes than the row
 * needs, and with all but its own, and compares the answer with the right in the row. All requested objects exist and belong to one
 * workspace. Requests without an API key: every-route-asks-for-a-key.test.ts. Each single scope: access-is-limited.test.ts.
 */
let service: ServiceClient;

/** In a workspace, the weakest first. */
const ranks = ['viewer', 'member', 'creator', 'admin'] as const;
type Role = (typeof ranks)[number];

const rows = [...routes, reference].flatMap((part) => part.rows);
const rowsWithRole = rows.filter(([, , , right]) => (ranks as readonly Right[]).includes(right));
const rowsOf = (right: Right) => rows.filter((row) => row[3] === right);

const source = `export default { name: 'Rights', props: { http: '$.interface.http' },
  hooks: { deploy() { this.$emit({ n: 1 }); } }, run() {} };`;
const action = `export default { name: 'Chooser', key: 'chooser', version: '0.0.1', type: 'action',
  props: { a: { type: 'integer', optional: true, async options() { return [1]; } } }, run() { return 1; } };`;
const step = { namespace: 'one', code: 'export default { run() { return 1; } }' };
const url = 'http://127.0.0.1:9/hook';
const acme = {
  ...{ slug: 'acme', name: 'Acme', auth_type: 'keys' },
  custom_fields: [{ name: 'api_key', label: 'API key' }],
};

type Person = Role | 'stranger' | 'instance admin';
const persons: readonly Person[] = [...ranks, 'stranger', 'instance admin'];
const keys: Partial<Record<Person | 'token' | 'foreign token', string>> = {};
/** Keys with scopes, by person and scopes, with their ids. */
const scopedKeys = new Map<string, Promise<{ id: string; api_key: string }>>();
/** The value of a path parameter, by the segment before it. */
const ids: Record<string, string> = {};

/** The username of the user that is disabled, enabled and deleted. */
let doomed = '';

/** Operations that changed something: each has to be in the audit. */
const changed = new Set<string>();

interface Answer {
  status: number;
  code: string | undefined;
}

/** Makes a workspace with an object of every kind, its members, and a stranger. */
async function prepare(): Promise<void> {
  const made = async (path: string, body: unknown, by: ServiceClient = service) => {
    const answer = await by.api('POST', path, body);
    assert.equal(answer.status, 200, `${path}: ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  };
  const workspace: string = (await made('/v1/workspaces', { name: 'Rights' })).id;
  const owned = { org_id: workspace };
  const join = async (role: string) => {
    const user = await service.createUser('person');
    await made(`/v1/workspaces/${workspace}/members`, { user_id: user.id, role });
    return user;
  };
  const creator = await join('member');
  keys.viewer = (await join('viewer')).key;
  keys.member = (await join('member')).key;
  keys.creator = creator.key;
  keys.admin = service.key;
  keys.stranger = (await service.createUser('person')).key;
  keys['instance admin'] = testApiKey;
  const leaving = await join('viewer');
  const disabled = await service.createUser('person');
  doomed = disabled.username;
  const accounts = `/v1/workspaces/${workspace}/service_accounts`;
  const account = await made(accounts, { name: 'robot' });
  const accountKey = await made(`${accounts}/${account.id}/keys`, { name: 'first' });

  const { id: emitter } = await service.createSource({ component_code: source, ...owned });
  const workflow = await service.createWorkflow({ steps: [step], triggers: [{ type: 'http' }], ...owned });
  await fetch(workflow.triggers[0].endpoint_url, { method: 'POST' });
  const run = await service.runInState(workflow.id, 'succeeded');
  const webhook = (await made('/v1/webhooks', { url, ...owned })).id;
  const subscription = await made('/v1/subscriptions', { emitter_id: emitter, listener_id: webhook });
  await made('/v1/subscriptions', { emitter_id: workflow.id, listener_id: webhook });
  const replay = await made(`/v1/sources/${emitter}/replay`, { listener_id: webhook });
  const delivery = await waitFor(
    async () => (await service.api('GET', `/v1/webhooks/${webhook}/deliveries`)).body.data[0],
  );
  await made('/v1/apps', { ...acme, ...owned });
  const clientPath = (id: string) => `/v1/workspaces/${id}/oauth_clients`;
  const client = await made(clientPath(workspace), { name: 'robot' });
  const elsewhere = (await made('/v1/workspaces', { name: 'Elsewhere' })).id;
  keys.token = await tokenOf(client);
  keys['foreign token'] = await tokenOf(await made(clientPath(elsewhere), { name: 'robot' }));
  const dataStore = (await made('/v1/data_stores', { name: 'numbers', ...owned })).id;
  await service.api('PUT', `/v1/data_stores/${dataStore}/entries/first`, { value: 1 });

  await service.api('PUT', `/v1/workflows/${workflow.id}/test_events/sample`, { event: {} });
  await service.api('PUT', '/v1/variables/GREETING', { value: 'hello', ...owned });

  Object.assign(ids, {
    test_events: 'sample',
    ...{
      workspaces: workspace,
      orgs: workspace,
      quotas: workspace,
      retention: workspace,
      members: leaving.id,
    },
    ...{ sources: emitter, listen: workflow.id, workflows: workflow.id, deployments: workflow.deployment_id },
    ...{ runs: run.id, steps: 'one', webhooks: webhook, subscriptions: subscription.id, replays: replay.id },
    ...{ deliveries: delivery.id, apps: 'acme', oauth_clients: client.id, data_stores: dataStore },
    ...{
      variables: 'GREETING',
      entries: 'first',
      registry: 'rss-new-item-in-feed',
      api_keys: 'key_000000000000',
      identities: 'idn_000000000000',
    },
    ...{ sessions: 'ses_000000000000', users: disabled.id, deletions: 'del_000000000000' },
    ...{ service_accounts: account.id, keys: accountKey.id },
    auto_subscriptions: (await made('/v1/auto_subscriptions', { event_name: '$logs', listener_id: webhook }))
      .id,
    imports: (await made('/v1/imports', { files: { 'workflow.yaml': 'name: Moved' }, ...owned })).id,
    projects: (await made(`/v1/workspaces/${workspace}/projects`, { name: 'Ours' })).id,
    components: (await made('/v1/components', { component_code: action, ...owned })).id,
    // A clone that is not there: nothing is read.
    repositories: (await made('/v1/registry/repositories', { url: '/nowhere/components' }, service.admin)).id,
    templates: (await made('/v1/templates', { workflow_id: workflow.id, ...owned })).id,
    accounts: (
      await made(
        '/v1/accounts',
        { app: 'acme', credentials: { api_key: 'k' }, ...owned },
        service.as(creator),
      )
    ).id,
  });
}

async function tokenOf(client: { id: string; client_secret: string }): Promise<string> {
  const answer = await service.api('POST', '/v1/oauth/token', {
    ...{ grant_type: 'client_credentials', client_id: client.id, client_secret: client.client_secret },
  });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.access_token;
}

/** Query and body of the request for an operation. */
function contentOf(operationId: string): { query?: string; body?: object } {
  const ends = { emitter_id: ids.sources, listener_id: ids.webhooks };
  const some = `made-${process.pid}`;
  const contents: Record<string, { query?: string; body?: object }> = {
    createUser: { body: { username: some, email: `${some}@example.com` } },
    // The name is invalid, so that nothing is fetched.
    addRegistryPackage: { body: { name: 'no such name' } },
    addRegistryRepository: { body: { url: 'no such address' } },
    removeRegistryPackage: { query: 'name=none' },
    createApiKey: { body: { name: 'second', scopes: ['admin'] } },
    disableUser: { body: {} },
    updateUser: { body: { email: 'other@example.com' } },
    // The workspace and the caller are still needed: a wrong name is refused after the right was checked.
    deleteWorkspace: { body: { orgname: 'no such name' } },
    deleteMe: { body: { username: 'no such name' } },
    deleteUser: { body: { username: doomed } },
    createServiceAccount: { body: { name: 'second' } },
    updateServiceAccount: { body: { role: 'member' } },
    createServiceAccountKey: { body: { name: 'second', scopes: ['admin'] } },
    createWorkspace: { body: { name: 'Theirs' } },
    updateWorkspace: { body: { name: 'Rights too' } },
    createProject: { body: { name: 'Another' } },
    updateProject: { body: { name: 'Renamed' } },
    putMember: { body: { user_id: ids.members, role: 'viewer' } },
    createApiClient: { body: { name: 'second' } },
    rotateApiClientSecret: { body: {} },
    createDataStore: { body: { name: 'words' } },
    setVariable: { body: { value: 'hi' } },
    setVariables: { body: { variables: [{ name: 'GREETING', value: 'hey' }] } },
    putDataStoreEntry: { body: { value: 2 } },
    createApp: { body: { ...acme, slug: 'acme-two' } },
    replaceApp: { body: acme },
    putOAuthClient: { body: { client_id: 'a', client_secret: 'b' } },
    pushAppEvent: { body: { app: 'acme', event_name: 'x', payload: {} } },
    createAccount: { body: { app: 'acme', credentials: { api_key: 'k' } } },
    connectAccount: { body: { app: 'acme' } },
    updateAccount: { body: { name: 'renamed' } },
    createSubscription: { body: ends },
    deleteSubscription: { query: `emitter_id=${ids.workflows}&listener_id=${ids.webhooks}` },
    createAutoSubscription: { body: { event_name: '$errors', listener_id: ids.webhooks } },
    listenToEmitter: { body: {} },
    replaySourceEvents: { body: { listener_id: ids.webhooks } },
    replayWorkflowEvents: { body: { listener_id: ids.webhooks } },
    createWebhook: { body: { url } },
    updateWebhook: { body: { name: 'renamed' } },
    putTestEvent: { body: { event: {} } },
    restartRun: { body: {} },
    cancelRuns: { body: {} },
    replayRuns: { body: {} },
    restartRuns: { body: {} },
    testStep: { body: { event: {} } },
    createComponent: { body: { component_code: action } },
    configureComponent: { body: { id: ids.components, prop_name: 'a' } },
    reloadComponentProps: { body: { id: ids.components } },
    runAction: { body: { component_code: action } },
    createSource: { body: { component_code: source } },
    updateSource: { body: { name: 'renamed' } },
    createWorkflow: { body: { steps: [step] } },
    updateWorkflow: { body: { active: true } },
    createDeployment: { body: { steps: [step] } },
    createTemplate: { body: { workflow_id: ids.workflows } },
    outlineExport: { body: { files: {} } },
    createImport: { body: { files: { 'workflow.yaml': 'name: Moved' }, dry_run: true } },
    putQuota: { body: {} },
  };
  return contents[operationId] ?? {};
}

async function keyWith(person: Person, scopes: readonly KeyScope[]): Promise<string> {
  const name = `${person}: ${scopes.join(', ')}`;
  const making = async () => {
    const key = keys[person] ?? '';
    const answer = await service.api('POST', '/v1/users/me/api_keys', { name, scopes }, { key });
    assert.equal(answer.status, 200, `${name}: ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  };
  const key = scopedKeys.get(name) ?? making();
  scopedKeys.set(name, key);
  return (await key).api_key;
}

/** What the requests of contentOf need beside the scope of their row: the action comes with its code. */
const scopesBeside = new Map<string, KeyScope[]>([['runAction', ['write']]]);

/** They give out access without scopes, so they refuse every key with scopes. */
const refuseScopes = new Set(['createUser', 'createApiClient', 'rotateApiClientSecret', 'linkIdentity']);

/** A key with no more scopes than the request of a row needs. */
const narrowKey = (person: Person) => (row: Row) => {
  const scope = routeScope(row);
  assert.ok(scope !== undefined, nameOf(row));
  // A key has at least one scope.
  if (scope === 'any') return keyWith(person, ['credentials']);
  return keyWith(person, [scope, ...(scopesBeside.get(row[2] ?? '') ?? [])]);
};

/** A key that has every scope but that of the row. */
const otherKey = (person: Person) => (row: Row) =>
  keyWith(
    person,
    keyScopes.filter((scope) => scope !== routeScope(row)),
  );

/** Sends the request of a row, with org_id where the path names no object. Streams are closed after their headers. */
async function ask([method, path, operationId, right]: Row, key: string | undefined): Promise<Answer> {
  const { query = '', body } = contentOf(operationId ?? '');
  const isOAuthClient = path.startsWith('/v1/apps/') && path.endsWith('/oauth_client');
  // Names that every owner may have: the workspace is named beside them.
  const isOfOwner = isOAuthClient || path.startsWith('/v1/variables/');
  const filled = path.replaceAll(/(\w+)\/:\w+/g, (_, kind: string) => {
    const id = isOAuthClient ? 'github' : ids[kind];
    assert.ok(id !== undefined, `${path}: nothing to name below ${kind}`);
    return `${kind}/${id}`;
  });
  const named = (ranks as readonly Right[]).includes(right) && (!path.includes(':') || isOfOwner);
  // The emitter and the listener name the workspace of a subscription.
  const isNamed = named && !/subscription/i.test(method === 'GET' ? '' : path);
  const parameters = [query, isNamed ? `org_id=${ids.workspaces}` : ''].filter((text) => text !== '');
  const leaving = new AbortController();
  const response = await fetch(
    `${service.url}${filled}${parameters.length === 0 ? '' : `?${parameters.join('&')}`}`,
    {
      method,
      signal: leaving.signal,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    },
  );
  if (response.ok && isRecorded(method, path, operationId)) changed.add(operationId ?? `${method} ${path}`);
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
  const { code } = isJson ? ((await response.json()) as { code?: string }) : {};
  leaving.abort();
  return { status: response.status, code };
}

function nameOf([method, path]: Row): string {
  return `${method} ${path}`;
}

/** One key for all rows, or the key for each. */
type KeyOf = string | undefined | ((row: Row) => Promise<string>);

/** The rows of `asked` whose answer is not the expected one. */
async function differing(
  asked: readonly Row[],
  key: KeyOf,
  expected: (row: Row) => readonly [status: number, code: string],
): Promise<string[]> {
  assert.ok(key !== undefined);
  const problems: string[] = [];
  for (const row of asked) {
    const { status, code } = await ask(row, typeof key === 'string' ? key : await key(row));
    const wanted = expected(row);
    if (status !== wanted[0] || code !== wanted[1])
      problems.push(`${nameOf(row)} (${row[3]}): ${status} ${code}, expected ${wanted.join(' ')}`);
  }
  return problems;
}

/** The rows of `asked` that refuse the caller. A validation error or a conflict comes after the check of the right. */
async function refusing(asked: readonly Row[], key: KeyOf): Promise<string[]> {
  assert.ok(key !== undefined);
  const problems: string[] = [];
  for (const row of asked) {
    const { status, code } = await ask(row, typeof key === 'string' ? key : await key(row));
    const isFine = row[0] === 'GET' ? status === 200 : status < 500 && ![401, 403, 404].includes(status);
    const isKnown = notThere.get(row[2] ?? '') === code;
    if (!isFine && !isKnown) problems.push(`${nameOf(row)} (${row[3]}): ${status} ${code}`);
  }
  return problems;
}

/** Operations that accept the caller and then find no object. */
const notThere = new Map([
  // Deletions are shown to those who asked for them.
  ['getDeletion', 'not_found'],
  ['revokeApiKey', 'not_found'],
  ['revokeSession', 'not_found'],
  ['removeRegistryPackage', 'not_found'],
]);

const refusedToken = [403, 'user_key_required'] as const;
const isForbidden = [403, 'forbidden'] as const;
const isNotFound = [404, 'not_found'] as const;
const lacksScope = [403, 'insufficient_scope'] as const;

/** The answer to a narrow key of a person whose role is answered with `refusal`. */
const toNarrowKey = (refusal: readonly [number, string]) => (row: Row) =>
  refuseScopes.has(row[2] ?? '') ? lacksScope : refusal;

describe('every route', () => {
  after(async () => {
    // The admin of the instance is the only one who is shared with other suites. Before the service is given back.
    for (const [name, key] of scopedKeys)
      if (name.startsWith('instance admin'))
        await service.admin.api('DELETE', `/v1/users/me/api_keys/${(await key).id}`);
  });

  const fixture = useSharedService();
  before(() => {
    ({ service } = fixture);
    return prepare();
  });
  // Refused requests change nothing, so they come first. Deletions come last, parts before the whole.
  test('objects of a workspace do not exist for strangers, for the admin of the instance and for tokens of other workspaces', async () => {
    assert.ok(rowsWithRole.length > 100, `${rowsWithRole.length} rows`);
    assert.deepEqual(await differing(rowsWithRole, keys.stranger, () => isNotFound), []);
    assert.deepEqual(await differing(rowsWithRole, testApiKey, () => isNotFound), []);
    for (const person of ['stranger', 'instance admin'] as const)
      assert.deepEqual(
        await differing(rowsWithRole, narrowKey(person), toNarrowKey(isNotFound)),
        [],
        `${person}, with a key that has the scope`,
      );
    const expected = ([, , , , tokens]: Row) => (tokens === undefined ? isNotFound : refusedToken);
    assert.deepEqual(await differing(rowsWithRole, keys['foreign token'], expected), []);
  });

  for (const role of ranks.filter((role) => role !== 'admin'))
    test(`a ${role} is refused operations that need a stronger right`, async () => {
      const above = ranks.slice(ranks.indexOf(role) + 1) as readonly Right[];
      const refused = rowsWithRole.filter(([, , , right]) => above.includes(right));
      assert.ok(refused.length > 5, `${refused.length} rows`);
      assert.deepEqual(await differing(refused, keys[role], () => isForbidden), []);
      assert.deepEqual(
        await differing(refused, narrowKey(role), toNarrowKey(isForbidden)),
        [],
        'with a key that has the scope',
      );
    });

  for (const person of persons)
    test(`a key of the ${person} without the scope of an operation is refused, whatever else it has`, async () => {
      const scoped = rows.filter((row) => ![undefined, 'any'].includes(routeScope(row)));
      assert.ok(scoped.length > 150, `${scoped.length} rows`);
      assert.deepEqual(await differing(scoped, otherKey(person), () => lacksScope), []);
    });

  test('an access token has the rights of a member, and is refused by rows with `no tokens`', async () => {
    const refused = rows.filter(([, , , right, tokens]) => {
      return (
        right !== 'anyone' && (tokens !== undefined || ['creator', 'admin', 'instance admin'].includes(right))
      );
    });
    const expected = ([, , , , tokens]: Row) => (tokens === undefined ? isForbidden : refusedToken);
    assert.deepEqual(await differing(refused, keys.token, expected), []);
  });

  test('operations for the admin of the instance refuse other users', async () => {
    assert.ok(rowsOf('instance admin').length > 5);
    const forInstanceAdmin = rowsOf('instance admin');
    assert.deepEqual(await differing(forInstanceAdmin, keys.admin, () => isForbidden), []);
    assert.deepEqual(await differing(forInstanceAdmin, narrowKey('admin'), () => isForbidden), []);
    const reading = forInstanceAdmin.filter(([method]) => method === 'GET');
    assert.deepEqual(await refusing(reading, narrowKey('instance admin')), []);
    assert.deepEqual(await refusing(forInstanceAdmin, testApiKey), []);
  });

  test('operations that need only a key accept any key', async () => {
    const reading = rowsOf('key').filter(([method]) => method === 'GET');
    assert.deepEqual(await refusing(reading, narrowKey('stranger')), []);
    assert.deepEqual(await refusing(rowsOf('key'), keys.stranger), []);
  });

  test('reading in a workspace needs the right of the row or a stronger one', async () => {
    for (const role of ranks) {
      const allowed = rowsWithRole.filter(
        ([method, , , right]) => method === 'GET' && ranks.indexOf(right as Role) <= ranks.indexOf(role),
      );
      assert.deepEqual(await refusing(allowed, keys[role]), [], role);
      assert.deepEqual(
        await refusing(allowed, narrowKey(role)),
        [],
        `${role}, with no scope but that of the row`,
      );
    }
    const forTokens = rowsWithRole.filter(
      (row) => row[0] === 'GET' && row[3] === 'viewer' && row[4] === undefined,
    );
    assert.deepEqual(await refusing(forTokens, keys.token), [], 'token');
  });

  test('changing something in a workspace needs no more than the right and the scope of the row', async () => {
    const changing = rowsWithRole.filter(([method]) => method !== 'GET');
    const inOrder = [
      ...changing.filter(([method]) => method !== 'DELETE'),
      ...changing.filter(([method]) => method === 'DELETE').sort((a, b) => b[1].length - a[1].length),
    ];
    assert.ok(inOrder.length > 55, `${inOrder.length} rows`);
    const problems: string[] = [];
    for (const row of inOrder) {
      const role = row[3] as Role;
      const key = refuseScopes.has(row[2] ?? '') ? keys[role] : narrowKey(role);
      problems.push(...(await refusing([row], key)));
    }
    assert.deepEqual(problems, []);
  });

  test('every change left a record in the audit of its owner', async () => {
    const operations = new Set<string>();
    const read = async (query: string, key: string | undefined) => {
      const response = await fetch(`${service.url}/v1/audit/export${query}`, {
        headers: { authorization: `Bearer ${key}` },
      });
      assert.equal(response.status, 200);
      for (const line of (await response.text()).trim().split('\n')) {
        const record = JSON.parse(line);
        assert.ok(record.status !== null, line);
        operations.add(record.operation);
      }
    };
    await read(`?org_id=${ids.workspaces}`, keys.admin);
    await read('', keys.stranger);
    await read('?instance=true', testApiKey);
    assert.ok(changed.size > 75, `${changed.size} operations changed something`);
    assert.deepEqual([...changed].filter((operation) => !operations.has(operation)).sort(), []);
  });
});
