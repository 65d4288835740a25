import assert from 'node:assert/strict';
import { test } from 'node:test';
import { routeScope } from '#http/route-scope.ts';
import { reference, routes } from '#http/routes.ts';
import { type KeyScope, keyScopes } from '#storage/tables/identity-tables.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { EventStream, forEachSharedService, type ServiceClient } from '../support/millrace.ts';

const component =
  "export default { name: 'Kept', props: { http: '$.interface.http' }, run(event) { this.$emit(event); } };";
const csrf = { 'x-millrace-csrf': '1' };

/** Creates something that has to succeed, and returns its data. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
async function made(service: ServiceClient, path: string, body: unknown): Promise<any> {
  const answer = await service.api('POST', path, body);
  assert.equal(answer.status, 200, `${path}: ${JSON.stringify(answer.body)}`);
  return answer.body.data;
}

const newKey = (service: ServiceClient, values: object) => made(service, '/v1/users/me/api_keys', values);

/** A stream of a workspace, and how it ended. */
async function signIn(service: ServiceClient, key: string, agent = 'Firefox'): Promise<string> {
  const response = await fetch(`${service.url}/v1/session`, {
    method: 'POST',
    headers: {
      ...csrf,
      'content-type': 'application/json',
      'sec-fetch-site': 'same-origin',
      'user-agent': agent,
    },
    body: JSON.stringify({ api_key: key }),
  });
  assert.equal(response.status, 200, await response.text());
  return response.headers.get('set-cookie')?.split(';')[0] ?? '';
}

async function withCookie(service: ServiceClient, cookie: string, path: string, method = 'GET') {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: { ...csrf, cookie, 'sec-fetch-site': 'same-origin' },
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
}

forEachSharedService((fixture) => {
  test('every operation refuses keys without its scope, and accepts those with it', async () => {
    const { service } = fixture;
    const rows = [...routes, reference].flatMap((part) => part.rows);
    const keys = new Map<KeyScope, string>();
    for (const scope of keyScopes)
      keys.set(scope, (await newKey(service, { name: scope, scopes: [scope] })).api_key);
    const problems: string[] = [];
    let refused = 0;
    for (const row of rows) {
      const [method, path, operationId] = row;
      const needed = routeScope(row);
      if (needed === undefined) continue;
      // Ids that do not exist: the scope is checked first.
      const url = path.replaceAll(/:\w+/g, 'none').replace('*', 'none');
      for (const [scope, key] of keys) {
        if (scope === needed || needed === 'any') {
          // What needs no object would be carried out.
          if (method !== 'GET' || path.endsWith('/sse')) continue;
          // Not everything is JSON.
          const accepted = await fetch(service.url + url, { headers: { authorization: `Bearer ${key}` } });
          if ((await accepted.text()).includes('insufficient_scope'))
            problems.push(`${operationId} refuses ${scope}`);
          continue;
        }
        const answer = await service.api(method, url, undefined, { key });
        refused += 1;
        const isRight = answer.status === 403 && answer.body.code === 'insufficient_scope';
        if (!isRight || answer.body.details.scope !== needed)
          problems.push(`${operationId} with ${scope}: ${answer.status} ${JSON.stringify(answer.body)}`);
        const challenge: string = `Bearer error="insufficient_scope", scope="${needed}"`;
        assert.equal(answer.headers.get('www-authenticate'), challenge);
      }
    }
    assert.deepEqual(problems, []);
    assert.ok(refused > 700, `${refused} requests`);
    // Every scope is needed by something.
    const needed = new Set(rows.map(routeScope));
    assert.deepEqual(
      keyScopes.filter((scope) => scope !== 'credentials' && !needed.has(scope)),
      [],
    );
  });

  test('credentials of accounts need the scope credentials, beside read', async () => {
    const { service } = fixture;
    const account = await made(service, '/v1/accounts', {
      app: 'gitlab',
      credentials: { token: 't0p-s3cret' },
    });
    const reader = await newKey(service, { scopes: ['read'] });
    const both = await newKey(service, { scopes: ['credentials', 'read'] });
    assert.deepEqual(both.scopes, ['read', 'credentials']);
    const path = `/v1/accounts/${account.id}`;
    assert.equal((await service.api('GET', path, undefined, { key: reader.api_key })).status, 200);
    for (const asked of [`${path}?include_credentials=1`, '/v1/accounts?include_credentials=1']) {
      const refused = await service.api('GET', asked, undefined, { key: reader.api_key });
      assert.deepEqual([refused.status, refused.body.details], [403, { scope: 'credentials' }], asked);
      assert.ok(!JSON.stringify(refused.body).includes('t0p-s3cret'));
      const shown = await service.api('GET', asked, undefined, { key: both.api_key });
      assert.ok(JSON.stringify(shown.body).includes('t0p-s3cret'), asked);
    }
  });

  test('code that comes with a request needs write beside run, and accounts in its props need credentials', async () => {
    const { service } = fixture;
    const account = await made(service, '/v1/accounts', {
      app: 'gitlab',
      credentials: { token: 't0p-s3cret' },
    });
    const code = `export default { name: 'Reader', key: 'reader-read', version: '0.0.1', type: 'action',
      props: { gitlab: { type: 'app', app: 'gitlab', optional: true } }, run() { return 'ran'; } };`;
    const { id: saved } = await made(service, '/v1/components', { component_code: code });
    const { id: workflow } = await service.createWorkflow({
      steps: [{ namespace: 'a', code: 'export default { run() { return 1; } }' }],
    });
    const trial = `/v1/workflows/${workflow}/steps/a/test`;
    const step = { code: 'export default { run() { return process.env; } }' };
    const configured_props = { gitlab: { authProvisionId: account.id } };
    const address = 'https://127.0.0.1/code.js';
    const key = async (scopes: KeyScope[]) =>
      service.as({ key: (await newKey(service, { scopes })).api_key });
    const [runs, writes, all] = [
      await key(['run']),
      await key(['run', 'write']),
      await key(['run', 'write', 'credentials']),
    ];
    const refused = async (by: ServiceClient, path: string, body: object, scope: string) => {
      const answer = await by.api('POST', path, body);
      const found = [answer.status, answer.body.code, answer.body.details];
      assert.deepEqual(found, [403, 'insufficient_scope', { scope }], `${path} ${JSON.stringify(body)}`);
    };
    const countOfComponents = async (): Promise<number> =>
      (await service.api('GET', '/v1/components')).body.page_info.total_count;
    const before = await countOfComponents();
    await refused(runs, '/v1/actions/run', { component_code: code.replace('Reader', 'Other') }, 'write');
    await refused(runs, '/v1/actions/run', { id: address }, 'write');
    await refused(runs, '/v1/components/configure', { id: address, prop_name: 'a' }, 'write');
    await refused(runs, '/v1/components/props', { id: address }, 'write');
    await refused(runs, trial, { step }, 'write');
    await refused(runs, trial, { step: { props: { url: '{{process.env.PATH}}' } } }, 'write');
    await refused(runs, '/v1/actions/run', { id: saved, configured_props }, 'credentials');
    await refused(writes, '/v1/actions/run', { component_code: code, configured_props }, 'credentials');
    await refused(writes, trial, { step: { component: saved, props: configured_props } }, 'credentials');
    // A password in a URL is the reason, and is not repeated.
    for (const url of ['https://user:t0p-s3cret@127.0.0.1/code.js', 'https//user:t0p-s3cret@127.0.0.1']) {
      const answer = await service.api('POST', '/v1/components', { component_url: url });
      assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_parameter'], url);
      assert.match(
        answer.body.error,
        url.includes('://') ? /a user name or password in the URL/ : /expected an http/,
      );
      assert.ok(!JSON.stringify(answer.body).includes('t0p-s3cret'));
    }
    assert.equal(await countOfComponents(), before, 'a refused request stores no component');
    // What is deployed or saved runs with `run` alone.
    assert.equal((await made(runs, '/v1/actions/run', { id: saved })).ret, 'ran');
    assert.equal((await made(runs, trial, {})).state, 'succeeded');
    assert.equal((await made(writes, trial, { step })).state, 'succeeded');
    assert.equal((await made(all, '/v1/actions/run', { component_code: code, configured_props })).ret, 'ran');
  });

  test('a key makes no key with more scopes or a later end, and none that gives out everything', async () => {
    const { service } = fixture;
    const me = await made(service, '/v1/workspaces', { name: 'Scoped' });
    const end = Math.floor(Date.now() / 1000) + 3600;
    const narrow = await newKey(service, { name: 'narrow', scopes: ['admin', 'read'], expires_at: end });
    assert.equal(narrow.expires_at, end);
    const by = service.as({ key: narrow.api_key });
    const cases: [object, string, string][] = [
      [{}, 'insufficient_scope', 'scopes'],
      [{ scopes: null, expires_at: end }, 'insufficient_scope', 'scopes'],
      [{ scopes: ['read', 'write'], expires_at: end }, 'insufficient_scope', 'scopes'],
      [{ scopes: ['read'] }, 'invalid_parameter', 'expires_at'],
      [{ scopes: ['read'], expires_at: end + 1 }, 'invalid_parameter', 'expires_at'],
      [{ scopes: ['read'], expires_at: 1 }, 'invalid_parameter', 'expires_at'],
      [{ scopes: [] }, 'invalid_parameter', 'scopes'],
      [{ scopes: ['everything'] }, 'invalid_parameter', 'scopes[0]'],
    ];
    for (const [body, code, parameter] of cases) {
      const answer = await by.api('POST', '/v1/users/me/api_keys', body);
      assert.deepEqual(
        [answer.body.code, answer.body.details.parameter],
        [code, parameter],
        JSON.stringify(body),
      );
    }
    assert.deepEqual((await newKey(by, { scopes: ['read'], expires_at: end })).scopes, ['read']);
    const client = await by.api('POST', `/v1/workspaces/${me.id}/oauth_clients`, { name: 'robot' });
    assert.deepEqual([client.status, client.body.details], [403, { scope: '*' }]);
    // Without scopes, but with an end: what it would make has none.
    const ending = service.as({ key: (await newKey(service, { expires_at: end })).api_key });
    const clients = `/v1/workspaces/${me.id}/oauth_clients`;
    const { client_id: clientId } = await made(service, clients, { name: 'endless' });
    for (const [path, body] of [
      [clients, { name: 'robot' }],
      [`${clients}/${clientId}/rotate_secret`, {}],
    ] as const) {
      const answer = await ending.api('POST', path, body);
      assert.deepEqual([answer.status, answer.body.code], [403, 'forbidden'], path);
      assert.match(answer.body.error, /needs a key without an end/);
    }
    const endingAdmin = await newKey(service.admin, { expires_at: end });
    const user = await service
      .as({ key: endingAdmin.api_key })
      .api('POST', '/v1/users', { username: 'endless', email: 'endless@example.com' });
    assert.deepEqual([user.status, user.body.code], [403, 'forbidden']);
    // A session of a key has the scopes of the key.
    const reader = await newKey(service, { scopes: ['read'] });
    const cookie = await signIn(service, reader.api_key);
    assert.equal((await withCookie(service, cookie, '/v1/users/me/sources')).status, 200);
    assert.equal(
      (await withCookie(service, cookie, '/v1/users/me/api_keys')).body.code,
      'insufficient_scope',
    );
  });

  test('sessions are listed with where they come from, and end one by one or all but the present one', async () => {
    const { service } = fixture;
    const user = await service.createUser('person');
    const other = await service.createUser('person');
    const own = service.as(user);
    const here = await signIn(
      service,
      user.key,
      'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
    );
    const [second, third, foreign] = [
      await signIn(service, user.key),
      await signIn(service, user.key),
      await signIn(service, other.key),
    ];
    const listed = (await withCookie(service, here, '/v1/users/me/sessions')).body;
    assert.equal(listed.page_info.total_count, 3);
    const present = listed.data.find(({ current }: { current: boolean }) => current);
    assert.deepEqual([present.user_agent, present.address], ['Firefox on Linux', '127.0.0.1']);
    assert.ok(!JSON.stringify(listed).includes('mse_'));
    const [newest] = listed.data;
    // Of another user it does not exist.
    const stolen = await service.as(other).api('DELETE', `/v1/users/me/sessions/${newest.id}`);
    assert.equal(stolen.status, 404);
    assert.equal((await own.api('DELETE', `/v1/users/me/sessions/${newest.id}`)).status, 204);
    assert.equal((await withCookie(service, third, '/v1/session')).status, 401);
    const others = await withCookie(service, here, '/v1/users/me/sessions', 'DELETE');
    assert.deepEqual(others.body.data, { revoked: 1 });
    assert.equal((await withCookie(service, second, '/v1/session')).status, 401);
    assert.equal((await withCookie(service, here, '/v1/session')).status, 200);
    assert.deepEqual((await own.api('DELETE', '/v1/users/me/sessions')).body.data, { revoked: 1 });
    assert.equal((await withCookie(service, here, '/v1/session')).status, 401);
    assert.equal((await withCookie(service, foreign, '/v1/session')).status, 200);
  });

  test('a service account acts for its workspace with keys only, and stays when its maker leaves', async () => {
    const { service } = fixture;
    const workspace: string = (await made(service, '/v1/workspaces', { name: 'Robots' })).id;
    const maker = await service.createUser('person');
    const members = `/v1/workspaces/${workspace}/members`;
    await made(service, members, { user_id: maker.id, role: 'admin' });
    const accounts = `/v1/workspaces/${workspace}/service_accounts`;
    const account = await made(service.as(maker), accounts, { name: 'deploy-bot' });
    assert.match(account.username, /^deploy-bot\./);
    assert.deepEqual([account.role, account.created_by], ['member', maker.id]);
    const keys = `${accounts}/${account.id}/keys`;
    const key = await made(service.as(maker), keys, { name: 'ci' });
    assert.equal((await service.api('DELETE', `${members}/${maker.id}`)).status, 204);

    const robot = service.as({ key: key.api_key });
    const { id: source } = await robot.createSource({ component_code: component });
    const ours = await service.api('GET', `/v1/orgs/${workspace}/sources`);
    assert.deepEqual(
      ours.body.data.map(({ id }: { id: string }) => id),
      [source],
    );
    const listed = (await service.api('GET', members)).body.data;
    const shown = listed.find(({ user_id }: { user_id: string }) => user_id === account.id);
    assert.equal(shown.kind, 'service');

    // No person signs in as it, and it gets into no other workspace.
    const session = await robot.api(
      'POST',
      '/v1/session',
      { api_key: key.api_key },
      { headers: { ...csrf, 'sec-fetch-site': 'same-origin' } },
    );
    assert.deepEqual([session.status, session.body.code], [403, 'forbidden']);
    assert.equal((await robot.api('POST', '/v1/workspaces', { name: 'Own' })).status, 403);
    const elsewhere: string = (await made(service, '/v1/workspaces', { name: 'Elsewhere' })).id;
    const taken = await service.api('POST', `/v1/workspaces/${elsewhere}/members`, { user_id: account.id });
    assert.equal(taken.status, 404);

    // A viewer may not make anything, also without naming the workspace.
    assert.equal(
      (await service.api('PUT', `${accounts}/${account.id}`, { role: 'viewer' })).body.data.role,
      'viewer',
    );
    const refused = await robot.api('POST', '/v1/sources', { component_code: component });
    assert.equal(refused.status, 403);
    assert.equal((await robot.api('GET', `/v1/sources/${source}`)).status, 200);
    // People are needed as admins.
    await service.api('PUT', `${accounts}/${account.id}`, { role: 'admin' });
    const [raised] = (
      await service.api('GET', `/v1/audit?org_id=${workspace}&operation=updateServiceAccount`)
    ).body.data;
    assert.deepEqual([raised.before, raised.after], [{ role: 'viewer' }, { role: 'admin' }]);
    const me = (await service.api('GET', '/v1/users/me')).body.data.id;
    assert.equal((await service.api('DELETE', `${members}/${me}`)).status, 409);
    assert.equal((await service.api('DELETE', `${members}/${account.id}`)).status, 409);

    const stream = await EventStream.open(
      `${service.url}/v1/workspaces/${workspace}/sse`,
      undefined,
      key.api_key,
    );
    assert.equal((await service.api('DELETE', `${accounts}/${account.id}`)).status, 204);
    await stream.assertEndsWithAccess();
    assert.equal((await robot.api('GET', '/v1/users/me')).status, 401);
    assert.equal((await service.api('GET', `/v1/sources/${source}`)).body.data.active, true);
    assert.deepEqual((await service.api('GET', accounts)).body.data, []);
    const revived = await service.admin.api('POST', `/v1/users/${account.id}/enable`);
    assert.equal(revived.status, 409);
  });

  test('the admin gives a user another e-mail address, and users do not change theirs', async () => {
    const { service } = fixture;
    const [user, other] = [await service.createUser('moved'), await service.createUser('settled')];
    const change = (id: string, email: unknown, by = service.admin) =>
      by.api('PUT', `/v1/users/${id}`, { email });
    const email = `moved-${user.id}@example.com`;
    const changed = await change(user.id, email);
    assert.deepEqual([changed.status, changed.body.data.email, changed.body.data.id], [200, email, user.id]);
    assert.equal((await service.as(user).api('GET', '/v1/users/me')).body.data.email, email);
    assert.equal((await change(user.id, email.toUpperCase())).status, 200, 'their own in other letters');
    const taken = await change(other.id, email);
    assert.deepEqual([taken.status, taken.body.code], [409, 'conflict']);
    assert.match(taken.body.error, /a user with this email exists already/);
    const wrong = await change(user.id, 'no address');
    assert.deepEqual(
      [wrong.status, wrong.body.error],
      [400, 'email: expected an e-mail address, such as ada@example.com'],
    );
    assert.equal((await change('u_unknown', 'a@example.com')).status, 404);
    assert.equal((await change(user.id, 'a@example.com', service.as(user))).status, 403);
    const workspace: string = (await made(service.admin, '/v1/workspaces', { name: 'With a robot' })).id;
    const robot = await made(service.admin, `/v1/workspaces/${workspace}/service_accounts`, {
      name: 'robot',
    });
    assert.match((await change(robot.id, 'r@example.com')).body.error, /has no e-mail address/);
    const path = `/v1/audit?instance=1&object_id=${user.id}&operation=updateUser`;
    const entries: { status: number; before: object; after: object }[] = (
      await service.admin.api('GET', path)
    ).body.data;
    const changes = entries
      .filter(({ status }) => status === 200)
      .map(({ before, after }) => [before, after]);
    assert.deepEqual(changes[0], [{ email }, { email: email.toUpperCase() }]);
    assert.deepEqual([changes.length, changes[1]?.[1]], [2, { email }]);
  });

  test('what is deployed while access ends is not made: by a user who is disabled, and by a member who is removed', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    // The hold of its top level is that of builds and evaluations that wait for others of the owner.
    const slow = (where: string) => `const held = await (await fetch('${receiver.url}/${where}')).text();
      export default { name: 'Slow ' + held, props: { http: '$.interface.http' }, run(event) { this.$emit(event); } };`;
    const slowHook = `export default { name: 'Hooked', props: { http: '$.interface.http' },
      hooks: { async deploy() { await fetch('${receiver.url}/hook'); } }, run(event) { this.$emit(event); } };`;
    const release = () => {
      const { promise, resolve } = Promise.withResolvers<{ body: string }>();
      receiver.answerOnce(() => promise);
      return () => resolve({ body: 'held' });
    };
    const workspace: string = (await made(service.admin, '/v1/workspaces', { name: 'Left' })).id;
    const member = await service.createUser('leaver');
    await made(service.admin, `/v1/workspaces/${workspace}/members`, { user_id: member.id, role: 'member' });
    const sourcesOf = async (path: string, by: ServiceClient) => (await by.api('GET', path)).body.data.length;

    let letGo = release();
    const ofMember = service
      .as(member)
      .api('POST', '/v1/sources', { org_id: workspace, component_code: slow('member') });
    await receiver.waitForRequest(1);
    const removal = `/v1/workspaces/${workspace}/members/${member.id}`;
    assert.equal((await service.admin.api('DELETE', removal)).status, 204);
    letGo();
    const left = await ofMember;
    assert.deepEqual([left.status, left.body.code], [403, 'forbidden'], JSON.stringify(left.body));
    assert.match(left.body.error, /you left this workspace while the request was under way; nothing was/);
    assert.equal(await sourcesOf(`/v1/orgs/${workspace}/sources`, service.admin), 0);

    // What is evaluated ends at once, and what runs a hook makes nothing.
    for (const [code, wanted] of [
      [slow('disabled'), [403, 'forbidden', /the owner of this build was disabled or deleted/]],
      [slowHook, [403, 'forbidden', /this user was disabled while the request was under way/]],
    ] as const) {
      const count = receiver.requests.length + 1;
      letGo = release();
      const deploy = service.as(member).api('POST', '/v1/sources', { component_code: code });
      await receiver.waitForRequest(count);
      await made(service.admin, `/v1/users/${member.id}/disable`, { pause: true });
      if (code === slowHook) letGo();
      const refused = await deploy;
      letGo();
      const [status, errorCode, message] = wanted;
      assert.deepEqual(
        [refused.status, refused.body.code],
        [status, errorCode],
        JSON.stringify(refused.body),
      );
      assert.match(refused.body.error, message);
      await made(service.admin, `/v1/users/${member.id}/enable`, {});
      assert.equal(await sourcesOf('/v1/users/me/sources', service.as(member)), 0);
    }
  });

  test('a disabled user is out at once with keys, sessions and streams, and comes back when enabled', async () => {
    const { service } = fixture;
    const user = await service.createUser('person');
    const own = service.as(user);
    const workspace: string = (await made(own, '/v1/workspaces', { name: 'Theirs' })).id;
    const { id: source } = await own.createSource({ component_code: component });
    const { id: workflow } = await own.createWorkflow({
      steps: [{ namespace: 'a', code: 'export default { run() {} }' }],
    });
    const cookie = await signIn(service, user.key);
    const stream = await EventStream.open(
      `${service.url}/v1/workspaces/${workspace}/sse`,
      undefined,
      user.key,
    );

    assert.equal((await own.api('POST', `/v1/users/${user.id}/disable`, {})).status, 403);
    const disabled = await made(service.admin, `/v1/users/${user.id}/disable`, {});
    assert.deepEqual(disabled.still_running, { sources: [source], workflows: [workflow] });
    assert.ok(disabled.disabled_at > 0);
    await stream.assertEndsWithAccess();
    const answer = await own.api('GET', '/v1/users/me');
    assert.equal(answer.status, 401);
    assert.match(answer.body.error, /disabled/);
    assert.equal((await withCookie(service, cookie, '/v1/session')).status, 401);

    const paused = await made(service.admin, `/v1/users/${user.id}/disable`, {
      pause: true,
      reason: 'left the company',
    });
    assert.deepEqual(paused.still_running, { sources: [], workflows: [] });
    assert.deepEqual(paused.not_paused, []);
    assert.equal(paused.disabled_at, disabled.disabled_at);
    assert.deepEqual([disabled.disabled_reason, paused.disabled_reason], [null, 'left the company']);
    // A later request without a reason keeps it.
    const again = await made(service.admin, `/v1/users/${user.id}/disable`, {});
    assert.equal(again.disabled_reason, 'left the company');

    const enabled = await made(service.admin, `/v1/users/${user.id}/enable`, {});
    assert.deepEqual([enabled.disabled_at, enabled.disabled_reason], [null, null]);
    const once = await service.admin.api('POST', `/v1/users/${user.id}/enable`, {});
    assert.deepEqual([once.status, once.body.code], [409, 'conflict']);
    assert.match(once.body.error, /not disabled/);
    assert.equal((await own.api('GET', `/v1/sources/${source}`)).body.data.active, false);
    // Sessions that ended stay ended.
    assert.equal((await withCookie(service, cookie, '/v1/session')).status, 401);
    const admin = (await service.admin.api('GET', '/v1/users/me')).body.data.id;
    const himself = await service.admin.api('POST', `/v1/users/${admin}/disable`, {});
    assert.deepEqual([himself.status, himself.body.code], [409, 'conflict']);
    assert.match(himself.body.error, /another admin of the instance/);
  });

  test('a disabled user does not count as the admin that a workspace needs', async () => {
    const { service } = fixture;
    const [ada, eve] = [await service.createUser('ada'), await service.createUser('eve')];
    const workspace: string = (await made(service.as(ada), '/v1/workspaces', { name: 'Shared' })).id;
    const members = `/v1/workspaces/${workspace}/members`;
    await made(service.as(ada), members, { user_id: eve.id, role: 'admin' });
    await made(service.admin, `/v1/users/${eve.id}/disable`, {});
    const viewer = await service.as(ada).api('POST', members, { user_id: ada.id, role: 'viewer' });
    const left = await service.as(ada).api('DELETE', `${members}/${ada.id}`);
    for (const { status, body } of [viewer, left]) {
      assert.deepEqual([status, body.code], [409, 'conflict']);
      assert.match(body.error, /not disabled/);
    }
    await made(service.admin, `/v1/users/${eve.id}/enable`, {});
    assert.equal((await service.as(ada).api('DELETE', `${members}/${ada.id}`)).status, 204);
  });

  test('the audit says who changed what, before and after, and holds no secret', async () => {
    const { service } = fixture;
    const workspace: string = (await made(service, '/v1/workspaces', { name: 'Audited' })).id;
    const owned = { org_id: workspace };
    const secrets = ['t0p-s3cret-1', 't0p-s3cret-2', 't0p-s3cret-3', 't0p-s3cret-4'];
    const webhook = await made(service, '/v1/webhooks', {
      url: `https://127.0.0.1/${secrets[0]}`,
      ...owned,
    });
    const changed = await service.api('PUT', `/v1/webhooks/${webhook.id}`, {
      url: `https://127.0.0.1/${secrets[1]}`,
      name: 'renamed',
    });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
    const account = await made(service, '/v1/accounts', {
      app: 'gitlab',
      credentials: { token: secrets[2] },
      ...owned,
    });
    await service.api('PUT', '/v1/variables/PASSWORD', { value: secrets[3], ...owned });
    // What is refused changes nothing, and is not recorded.
    await service.api('PUT', `/v1/webhooks/${webhook.id}`, { url: 'no url' });
    assert.equal((await service.api('DELETE', `/v1/webhooks/${webhook.id}`)).status, 204);

    const list = (query: string) => service.api('GET', `/v1/audit?limit=100&org_id=${workspace}${query}`);
    const { data } = (await list('')).body;
    const text = JSON.stringify(data);
    for (const secret of [...secrets, service.key, webhook.signing_key ?? 'none'])
      assert.ok(!text.includes(secret), secret);
    const operations = data.map(({ operation }: { operation: string }) => operation);
    assert.deepEqual(operations, [
      ...[
        'deleteWebhook',
        'setVariable',
        'createAccount',
        'updateWebhook',
        'createWebhook',
        'createWorkspace',
      ],
    ]);
    const me = (await service.api('GET', '/v1/session')).body.data;
    const [removed, variable, connected, updated, created] = data;
    assert.deepEqual(updated.actor, {
      kind: 'user',
      ...{ user_id: me.user_id, key_id: me.key_id, session: null, address: '127.0.0.1' },
    });
    assert.deepEqual([updated.object_kind, updated.object_id, updated.status], ['webhooks', webhook.id, 200]);
    const url = 'https://127.0.0.1/…';
    assert.deepEqual(
      [updated.before, updated.after],
      [
        { name: null, url },
        { name: 'renamed', url },
      ],
    );
    assert.deepEqual([created.before, created.object_id, created.after.url], [null, webhook.id, url]);
    assert.deepEqual([removed.after, removed.before.name, removed.owner_id], [null, 'renamed', workspace]);
    assert.deepEqual([connected.object_id, connected.after.sealed], [account.id, '(hidden)']);
    assert.deepEqual(
      [variable.object_kind, variable.object_id, variable.before],
      ['variables', 'PASSWORD', null],
    );
    const { name, secret, sealed } = variable.after;
    assert.deepEqual([name, secret, sealed], ['PASSWORD', 0, '(hidden)']);
    assert.deepEqual(variable.parameters, { org_id: workspace, value: '(hidden)', name: 'PASSWORD' });
    assert.match(updated.request_id, /^[0-9a-f-]{36}$/);

    assert.equal((await list(`&object_id=${webhook.id}`)).body.page_info.total_count, 3);
    assert.equal((await list('&operation=setVariable')).body.page_info.total_count, 1);
    assert.equal((await list('&user_id=u_000000000000')).body.page_info.total_count, 0);
    assert.equal((await list(`&key_id=${me.key_id}&from=1`)).body.page_info.total_count, 6);
    assert.equal((await list('&to=1')).body.page_info.total_count, 0);
    const exported = await fetch(`${service.url}/v1/audit/export?org_id=${workspace}`, {
      headers: { authorization: `Bearer ${service.key}` },
    });
    assert.match(exported.headers.get('content-type') ?? '', /^application\/x-ndjson/);
    const lines = (await exported.text()).trim().split('\n');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      data.toReversed(),
    );

    // Runs are written together with others: nothing is said about their state, least of all that they were made.
    const step = { namespace: 'one', code: 'export default { run() { return 1; } }' };
    const workflow = await service.createWorkflow({ steps: [step], triggers: [{ type: 'http' }], ...owned });
    await fetch(workflow.triggers[0].endpoint_url, { method: 'POST' });
    const { id: run } = await service.runInState(workflow.id, 'succeeded');
    const before = (await list('')).body.page_info.total_count;
    assert.equal((await service.api('POST', `/v1/runs/${run}/cancel`, {})).status, 409);
    const refused = await service.api('POST', '/v1/workflows', {
      steps: [{ ...step, code: 'not code' }],
      ...owned,
    });
    assert.equal(refused.status, 400);
    assert.equal((await list('')).body.page_info.total_count, before);
    assert.equal((await service.api('POST', `/v1/runs/${run}/replay`, {})).status, 200);
    const [replayed] = (await list('')).body.data;
    assert.deepEqual(
      [replayed.operation, replayed.object_id, replayed.before, replayed.after],
      ['replayRun', run, null, null],
    );

    // A sign-in names the session, and changes of the instance are for its admin.
    const cookie = await signIn(service, service.key);
    await withCookie(service, cookie, '/v1/session', 'DELETE');
    const own = (await service.api('GET', '/v1/audit?limit=2')).body.data;
    assert.deepEqual(
      own.map(({ operation }: { operation: string }) => operation),
      ['endSession', 'startSession'],
    );
    assert.match(own[1].actor.session, /^ses_/);
    assert.equal(own[1].actor.session, own[0].actor.session);
    const user = await service.createUser('person');
    assert.equal((await service.as(user).api('GET', '/v1/audit?instance=true')).status, 403);
    const createdUser = await service.admin.api('GET', `/v1/audit?instance=true&object_id=${user.id}`);
    assert.equal(createdUser.body.data[0].operation, 'createUser');
    assert.equal((await service.as(user).api('GET', `/v1/audit?org_id=${workspace}`)).status, 404);
  });
});
