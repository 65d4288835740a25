import assert from 'node:assert/strict';
import { test } from 'node:test';
import { routes } from '#http/routes.ts';
import { type ApiOperation, readApiOperations } from '../support/api-operations.ts';
import { EventStream, forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const component =
  "export default { name: 'Seen', props: { http: '$.interface.http' }, run(event) { this.$emit(event.body); } };";

interface Client {
  workspace: string;
  id: string;
  secret: string;
}

let made = 0;

/** A workspace of the suite's user, with an OAuth client. */
async function createClient(service: ServiceClient): Promise<Client> {
  made += 1;
  const workspace = await service.api('POST', '/v1/workspaces', { name: `Clients ${made}` });
  assert.equal(workspace.status, 200, JSON.stringify(workspace.body));
  const { id } = workspace.body.data;
  const client = await service.api('POST', `/v1/workspaces/${id}/oauth_clients`, { name: 'reports' });
  assert.equal(client.status, 200, JSON.stringify(client.body));
  return { workspace: id, id: client.body.data.client_id, secret: client.body.data.client_secret };
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
type Answer = { status: number; headers: Headers; body: any };

async function post(
  service: ServiceClient,
  path: string,
  body: Record<string, string> | URLSearchParams | string,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const isForm = body instanceof URLSearchParams;
  const response = await fetch(`${service.url}/v1/oauth/${path}`, {
    method: 'POST',
    headers: {
      'content-type': isForm ? 'application/x-www-form-urlencoded' : 'application/json',
      ...headers,
    },
    body: isForm || typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

const grant = { grant_type: 'client_credentials' };
const fieldsOf = ({ id, secret }: Client) => ({ client_id: id, client_secret: secret });
const basicOf = ({ id, secret }: Pick<Client, 'id' | 'secret'>) => ({
  authorization: `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString('base64')}`,
});

async function tokenOf(service: ServiceClient, client: Client): Promise<string> {
  const answer = await post(service, 'token', { ...grant, ...fieldsOf(client) });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.access_token;
}

forEachSharedService((fixture) => {
  test('a token is given for JSON and for a form, with credentials in the body and with HTTP Basic', async () => {
    const { service } = fixture;
    const client = await createClient(service);
    const fields = { ...grant, ...fieldsOf(client) };
    const before = Math.floor(Date.now() / 1000);
    for (const [body, headers] of [
      [fields, {}],
      [{ ...fields, scope: '*', unknown: 'is ignored' }, {}],
      [new URLSearchParams(fields), {}],
      [grant, basicOf(client)],
      // As the client library of the first SDK asks.
      [new URLSearchParams(grant), { ...basicOf(client), accept: 'application/json' }],
    ] as const) {
      const { status, headers: answered, body: token } = await post(service, 'token', body, headers);
      assert.equal(status, 200, JSON.stringify(token));
      assert.match(answered.get('cache-control') ?? '', /no-store/);
      assert.equal(answered.get('pragma'), 'no-cache');
      assert.deepEqual(
        [token.token_type, token.expires_in, token.scope, Object.keys(token).length],
        ['Bearer', 3600, '*', 5],
      );
      assert.ok(token.created_at >= before && token.created_at <= Date.now() / 1000);
      const path = `/v1/workspaces/${client.workspace}`;
      const used = await service.api('GET', path, undefined, { key: token.access_token });
      assert.equal(used.status, 200, JSON.stringify(used.body));
    }
  });

  test('refusals have the form of RFC 6749', async () => {
    const { service } = fixture;
    const client = await createClient(service);
    const fields = fieldsOf(client);
    const twice = new URLSearchParams({ ...grant, ...fields });
    twice.append('client_id', client.id);
    for (const [body, status, error, headers] of [
      [{ ...grant, ...fields, client_secret: 'wrong' }, 401, 'invalid_client'],
      [{ ...grant, ...fields, client_id: 'oac_000000000000' }, 401, 'invalid_client'],
      [grant, 401, 'invalid_client'],
      [grant, 401, 'invalid_client', basicOf({ ...client, secret: 'wrong' })],
      [grant, 401, 'invalid_client', { authorization: 'Basic nonsense' }],
      [fields, 400, 'invalid_request'],
      ['{', 400, 'invalid_request'],
      ['[]', 400, 'invalid_request'],
      ['{"grant_type":1}', 400, 'invalid_request'],
      [twice, 400, 'invalid_request'],
      [{ ...grant, ...fields }, 400, 'invalid_request', basicOf(client)],
      [{ ...fields, grant_type: 'password' }, 400, 'unsupported_grant_type'],
      [{ ...fields, grant_type: 'authorization_code' }, 400, 'unsupported_grant_type'],
      [{ ...grant, ...fields, scope: 'connect:accounts:read' }, 400, 'invalid_scope'],
    ] as [
      Record<string, string> | URLSearchParams | string,
      number,
      string,
      Record<string, string> | undefined,
    ][]) {
      const answer = await post(service, 'token', body, headers);
      const what = `${JSON.stringify(body)}: ${JSON.stringify(answer.body)}`;
      assert.deepEqual([answer.status, answer.body.error], [status, error], what);
      assert.equal(typeof answer.body.error_description, 'string', what);
      assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
      assert.match(answer.headers.get('cache-control') ?? '', /no-store/);
      const challenge = answer.headers.get('www-authenticate') ?? '';
      assert.equal(challenge.startsWith('Basic realm='), status === 401, what);
      assert.ok(!JSON.stringify(answer.body).includes(client.secret));
    }
    const get = await fetch(`${service.url}/v1/oauth/token`);
    assert.equal(get.status, 405);
    await get.arrayBuffer();
    const text = await post(service, 'token', 'grant_type=client_credentials', {
      'content-type': 'text/plain',
    });
    assert.equal(text.status, 415);
  });

  test('a form with more than 50 fields is refused', async () => {
    const { service } = fixture;
    const fields = Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`a${n}`, 'b']));
    const { status, body } = await post(service, 'token', new URLSearchParams(fields));
    assert.deepEqual([status, body.error], [400, 'invalid_request']);
    assert.equal(body.error_description, 'the form has more than 50 fields, expected at most as many');
  });

  test('a token is revoked by its client, and whatever else is sent there gets 200 and {}', async () => {
    const { service } = fixture;
    const [client, other] = [await createClient(service), await createClient(service)];
    const token = await tokenOf(service, client);
    const path = `/v1/workspaces/${client.workspace}`;
    const status = async () => (await service.api('GET', path, undefined, { key: token })).status;
    for (const [body, headers] of [
      [{ token, ...fieldsOf(other) }, {}],
      [{ token: 'mat_unknown', ...fieldsOf(client) }, {}],
    ] as const) {
      const answer = await post(service, 'revoke', body, headers);
      assert.deepEqual([answer.status, answer.body], [200, {}]);
      assert.equal(await status(), 200, 'that was not it');
    }
    const stranger = await post(service, 'revoke', { token });
    assert.deepEqual([stranger.status, stranger.body.error], [401, 'invalid_client']);
    const nothing = await post(service, 'revoke', fieldsOf(client));
    assert.deepEqual([nothing.status, nothing.body.error], [400, 'invalid_request']);
    assert.equal(await status(), 200);
    const form = new URLSearchParams({ token, token_type_hint: 'access_token' });
    const revoked = await post(service, 'revoke', form, basicOf(client));
    assert.deepEqual([revoked.status, revoked.body], [200, {}]);
    assert.equal(await status(), 401);
  });

  test('admins see clients without their secrets, rotate secrets and remove clients; a removed one is over at once', async () => {
    const { service } = fixture;
    const client = await createClient(service);
    const path = `/v1/workspaces/${client.workspace}/oauth_clients`;
    const token = await tokenOf(service, client);
    const ask = async (key: string) =>
      (await service.api('GET', `/v1/workspaces/${client.workspace}`, undefined, { key })).status;
    assert.equal(await ask(token), 200);
    const list = await service.api('GET', path);
    assert.deepEqual(
      list.body.data.map((one: { id: string; secret_hint: string }) => [one.id, one.secret_hint]),
      [[client.id, client.secret.slice(-4)]],
    );
    const lastUsed = async () => (await service.api('GET', path)).body.data[0].last_used_at as number | null;
    const used = await waitFor(lastUsed, { what: 'the use of the client to be noted' });
    assert.ok(used > Date.now() / 1000 - 60);
    assert.ok(!JSON.stringify(list.body).includes(client.secret) && !/hash/.test(JSON.stringify(list.body)));

    const rotated = await service.api('POST', `${path}/${client.id}/rotate_secret`);
    assert.equal(rotated.status, 200, JSON.stringify(rotated.body));
    const fresh = { ...client, secret: rotated.body.data.client_secret as string };
    assert.equal((await post(service, 'token', { ...grant, ...fieldsOf(client) })).status, 401);
    assert.equal(await ask(token), 200, 'what runs is not cut off');
    const second = await tokenOf(service, fresh);
    const ended = await service.api('POST', `${path}/${client.id}/rotate_secret`, { revoke_tokens: true });
    assert.equal(ended.status, 200);
    assert.deepEqual([await ask(token), await ask(second)], [401, 401]);

    const last = { ...client, secret: ended.body.data.client_secret as string };
    const third = await tokenOf(service, last);
    assert.equal((await service.api('DELETE', `${path}/${client.id}`)).status, 204);
    assert.equal(await ask(third), 401);
    assert.equal((await post(service, 'token', { ...grant, ...fieldsOf(last) })).status, 401);
    assert.equal((await service.api('DELETE', `${path}/${client.id}`)).status, 404);
    assert.deepEqual((await service.api('GET', path)).body.data, []);
  });

  test('clients are for admins of their workspace: members get 403, others 404, as for what is not there', async () => {
    const { service } = fixture;
    const client = await createClient(service);
    const other = await createClient(service);
    const member = await service.createUser('member');
    const stranger = await service.createUser('stranger');
    const members = `/v1/workspaces/${client.workspace}/members`;
    await service.api('POST', members, { user_id: member.id, role: 'member' });
    const path = `/v1/workspaces/${client.workspace}/oauth_clients`;
    const token = await tokenOf(service, client);
    const foreignToken = await tokenOf(service, other);
    for (const [method, address, body] of [
      ['GET', path],
      ['POST', path, { name: 'mine' }],
      ['POST', `${path}/${client.id}/rotate_secret`, {}],
      ['DELETE', `${path}/${client.id}`],
    ] as const) {
      for (const [key, status] of [
        [member.key, 403],
        [token, 403],
        [stranger.key, 404],
        [foreignToken, 404],
      ] as const) {
        const answer = await service.api(method, address, body, { key });
        assert.equal(answer.status, status, `${method} ${address}: ${JSON.stringify(answer.body)}`);
      }
    }
    // The client of another workspace is none of this one.
    const wrong = `/v1/workspaces/${other.workspace}/oauth_clients/${client.id}`;
    const foreign = await service.api('DELETE', wrong);
    const absent = await service.api('DELETE', wrong.replace(client.id, 'oac_000000000000'));
    assert.equal(foreign.status, 404);
    assert.deepEqual(
      JSON.parse(JSON.stringify(foreign.body).replaceAll(client.id, 'oac_000000000000')),
      absent.body,
    );
    assert.equal((await service.api('GET', path, undefined, { key: token })).status, 403);
    await tokenOf(service, client);
  });

  test('a token does what members do, in its workspace, which need not be named', async () => {
    const { service } = fixture;
    const client = await createClient(service);
    const key = await tokenOf(service, client);
    const source = await service.createSource({ component_code: component, org_id: client.workspace });
    const webhook = await service.api('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/' }, { key });
    assert.equal(webhook.status, 200, JSON.stringify(webhook.body));
    assert.deepEqual(
      [webhook.body.data.owner_id, webhook.body.data.user_id ?? client.id],
      [client.workspace, client.id],
    );
    for (const [method, path, body] of [
      ['GET', `/v1/orgs/${client.workspace}/sources`],
      ['GET', `/v1/sources/${source.id}`],
      ['PUT', `/v1/sources/${source.id}`, { name: 'renamed' }],
      ['POST', `/v1/subscriptions?emitter_id=${source.id}&listener_id=${webhook.body.data.id}`],
      ['GET', `/v1/workspaces/${client.workspace}/subscriptions`],
      ['GET', '/v1/auto_subscriptions'],
      ['POST', `/v1/workspaces/${client.workspace}/projects`, { name: 'by a token' }],
      ['GET', '/v1/accounts'],
      ['DELETE', `/v1/sources/${source.id}`],
    ] as const) {
      const answer = await service.api(method, path, body, { key });
      assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
    for (const [method, path, body] of [
      ['POST', `/v1/workspaces/${client.workspace}/members`, { email: 'x@example.com' }],
      ['PUT', `/v1/quotas/${client.workspace}`, { credits: 1 }],
    ] as const) {
      const answer = await service.api(method, path, body, { key });
      assert.deepEqual([answer.status, answer.body.code], [403, 'forbidden'], `${method} ${path}`);
    }
    const elsewhere = await createClient(service);
    const named = await service.api(
      'POST',
      `/v1/webhooks?org_id=${elsewhere.workspace}`,
      { url: 'http://127.0.0.1:9/' },
      { key },
    );
    assert.equal(named.status, 404, 'another workspace of the very admin who made the client');
  });

  test('every operation with a token: some are for users, none knows what is of others', async () => {
    const { service } = fixture;
    const [client, other] = [await createClient(service), await createClient(service)];
    const key = await tokenOf(service, client);
    const me = (await service.api('GET', '/v1/users/me')).body.data.id as string;
    const source = await service.createSource({ component_code: component, org_id: other.workspace });
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'one', code: 'export default { run() {} }' }],
      org_id: other.workspace,
    });
    const webhook = await service.api('POST', `/v1/webhooks?org_id=${other.workspace}`, {
      url: 'http://127.0.0.1:9/',
    });
    const foreign: Record<string, string> = {
      sources: source.id,
      orgs: other.workspace,
      workspaces: other.workspace,
      workflows: workflow.id,
      deployments: workflow.deployment_id,
      webhooks: webhook.body.data.id,
      quotas: other.workspace,
      users: me,
    };
    const operations = (await readApiOperations(service.url)).filter(({ isPublic }) => !isPublic);
    assert.ok(operations.length > 60, `${operations.length} operations`);
    const rows = routes.flatMap((part) => part.rows);
    const forPeople = new Set(rows.flatMap(([, , id, , tokens]) => (tokens === 'no tokens' ? [id] : [])));
    const forInstanceAdmins = new Set(
      rows.flatMap(([, , id, right]) => (right === 'instance admin' ? [id] : [])),
    );
    let refused = 0;
    let unseen = 0;
    for (const operation of operations) {
      const { method, path } = operation;
      const what = `${operation.operationId} ${method} ${path}`;
      const address = path
        .replace(/\/(\w+)\/\{\w+\}/, (_whole, kind) => `/${kind}/${foreign[kind] ?? 'x_000000000000'}`)
        .replaceAll(/\{\w+\}/g, 'x_000000000000');
      const answer = await service.api(method, address, bodyFor(operation), { key });
      if (forPeople.has(operation.operationId)) {
        assert.deepEqual([answer.status, answer.body.code], [403, 'user_key_required'], what);
        refused += 1;
        continue;
      }
      assert.notEqual(answer.status, 401, what);
      assert.notEqual(answer.body?.code, 'user_key_required', what);
      // A token has no things of its own beside those of its workspace.
      assert.notEqual(answer.body?.data?.owner_id, client.id, what);
      if (!path.includes('{') || answer.body?.code === 'missing_parameter') continue;
      // Where an admin is asked for before anything is looked up.
      const isRefused =
        answer.body?.code === 'forbidden' &&
        (forInstanceAdmins.has(operation.operationId) || path.startsWith('/v1/apps/'));
      if (answer.status === 404) unseen += 1;
      else assert.ok(isRefused || answer.status === 400, `${what}: ${JSON.stringify(answer)}`);
      assert.ok(!JSON.stringify(answer.body).includes('reports'), what);
    }
    assert.ok(refused >= 12, `${refused} are for users`);
    assert.ok(unseen >= 35, `${unseen} did not know what is of others`);
    for (const [method, path] of [
      ['GET', '/v1/users/me'],
      ['GET', '/v1/users/me/'],
      ['GET', '/v1/components/registry/rss-new-item-in-feed'],
      ['POST', '/v1/components'],
      ['POST', '/v1/sources/'],
      ['POST', '/v1/workflows'],
      ['PUT', '/v1/workflows/p_000000000000/'],
    ] as const) {
      const answer = await service.api(method, path, undefined, { key });
      assert.deepEqual([answer.status, answer.body.code], [403, 'user_key_required'], `${method} ${path}`);
    }
  });

  test('a token reads a stream, which ends at once when the token is revoked, or its client', async () => {
    const { service } = fixture;
    const client = await createClient(service);
    const source = await service.createSource({ component_code: component, org_id: client.workspace });
    const token = await tokenOf(service, client);
    const stream = await EventStream.open(`${service.url}/sources/${source.id}/sse`, undefined, token);
    await fetch(source.configured_props.http.endpoint_url, { method: 'POST', body: 'hello' });
    assert.equal((await stream.message(1)).data.event, 'hello');
    await post(service, 'revoke', { token, ...fieldsOf(client) });
    await stream.assertEndsWithAccess();
    const path = `/v1/workspaces/${client.workspace}/oauth_clients/${client.id}`;
    const openAnother = async (secret: string) =>
      EventStream.open(
        `${service.url}/sources/${source.id}/sse`,
        undefined,
        await tokenOf(service, { ...client, secret }),
      );
    const beforeRotation = await openAnother(client.secret);
    const rotated = await service.api('POST', `${path}/rotate_secret`, { revoke_tokens: true });
    assert.equal(rotated.status, 200);
    await beforeRotation.assertEndsWithAccess();
    const beforeRemoval = await openAnother(rotated.body.data.client_secret);
    assert.equal((await service.api('DELETE', path)).status, 204);
    await beforeRemoval.assertEndsWithAccess();
    const foreign = await tokenOf(service, await createClient(service));
    await assert.rejects(
      EventStream.open(`${service.url}/sources/${source.id}/sse`, undefined, foreign),
      /404/,
    );
  });

  test('an HTTP trigger with auth of type oauth takes tokens of its workspace', async () => {
    const { service } = fixture;
    const [client, other] = [await createClient(service), await createClient(service)];
    const workflow = await service.createWorkflow({
      org_id: client.workspace,
      steps: [
        { namespace: 'one', code: 'export default { run({ steps }) { return steps.trigger.event; } }' },
      ],
      triggers: [{ type: 'http', props: { auth: { type: 'oauth' } } }],
    });
    const [trigger] = workflow.triggers;
    assert.deepEqual(trigger.auth, { type: 'oauth' });
    const token = await tokenOf(service, client);
    const call = async (authorization?: string) => {
      const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
      const response = await fetch(trigger.endpoint_url, { headers });
      await response.arrayBuffer();
      return [response.status, response.headers.get('www-authenticate')] as const;
    };
    for (const wrong of [
      undefined,
      'Bearer oauth',
      `Bearer ${await tokenOf(service, other)}`,
      `Bearer ${token.slice(0, -1)}_`,
      `Basic ${token}`,
    ])
      assert.deepEqual(await call(wrong), [401, 'Bearer'], String(wrong));
    assert.deepEqual(await call(`Bearer ${token}`), [200, null]);
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.ok(!JSON.stringify(run).includes(token), 'the token is in no record');

    // Deployed again without a word about it, it stays as it is.
    const again = await service.api('POST', `/v1/workflows/${workflow.id}/deployments`, {
      triggers: [{ id: trigger.id, props: { custom_response: false } }],
    });
    assert.equal(again.status, 200, JSON.stringify(again.body));
    assert.equal((await call())[0], 401);
    await post(service, 'revoke', { token, ...fieldsOf(client) });
    assert.deepEqual(await call(`Bearer ${token}`), [401, 'Bearer']);

    const personal = await service.api('POST', '/v1/workflows', {
      triggers: [{ type: 'http', props: { auth: { type: 'oauth' } } }],
      steps: [],
    });
    assert.deepEqual(
      [personal.status, personal.body.details?.parameter],
      [400, 'triggers[0].props.auth.type'],
      'a person has no OAuth clients',
    );
  });
});

/** What gets past the check of the body, where something is required. */
function bodyFor({ body }: ApiOperation): unknown {
  if (body === undefined) return undefined;
  const known: Record<string, unknown> = { name: 'x', steps: [], email: 'x@example.com' };
  return Object.fromEntries(
    body.required.map((name) => {
      const { type } = body.properties[name] ?? {};
      const value = type === 'object' ? {} : type === 'array' ? [] : type === 'integer' ? 1 : 'x';
      return [name, known[name] ?? value];
    }),
  );
}
