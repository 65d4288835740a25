import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ApiAnswer, forEachSharedService, type ServiceClient, testApiKey } from '../support/millrace.ts';

const component =
  "export default { name: 'Tenant', props: { http: '$.interface.http' }, run(event) { this.$emit(event); } };";

interface Person {
  id: string;
  key: string;
}

async function createWorkspace(service: ServiceClient, { key }: Person, name = 'Team'): Promise<string> {
  const { status, body } = await service.api('POST', '/v1/workspaces', { name }, { key });
  assert.equal(status, 200, JSON.stringify(body));
  return body.data.id;
}

async function addMember(
  service: ServiceClient,
  admin: Person,
  workspace: string,
  member: Person,
  role: string,
) {
  const path = `/v1/workspaces/${workspace}/members`;
  const answer = await service.api('POST', path, { user_id: member.id, role }, { key: admin.key });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.data;
}

async function createSource(service: ServiceClient, { key }: Person, workspace?: string): Promise<string> {
  const query = workspace === undefined ? '' : `?org_id=${workspace}`;
  const answer = await service.api('POST', `/v1/sources${query}`, { component_code: component }, { key });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.data.id;
}

/** The answer without what is meant to differ: which id was asked for. */
function withoutId({ status, body }: ApiAnswer, id: string) {
  return { status, body: JSON.parse(JSON.stringify(body).replaceAll(id, '<id>')) };
}

forEachSharedService((fixture) => {
  test('no, a badly spelled, an unknown and a revoked key get the same 401, with WWW-Authenticate', async () => {
    const { service } = fixture;
    const person = await service.createUser('person');
    const second = await service.api('POST', '/v1/users/me/api_keys', { name: 'spare' }, { key: person.key });
    const spare: string = second.body.data.api_key;
    assert.equal((await service.api('GET', '/v1/users/me', undefined, { key: spare })).status, 200);
    const revoked = await service.api('DELETE', `/v1/users/me/api_keys/${second.body.data.id}`, undefined, {
      key: person.key,
    });
    assert.equal(revoked.status, 204);
    assert.equal(revoked.body, undefined);

    const bodies = new Set<string>();
    const spellings: (string | undefined)[] = [
      undefined,
      '',
      testApiKey,
      'Bearer',
      'Bearer ',
      `Basic ${Buffer.from(`x:${testApiKey}`).toString('base64')}`,
      `Token ${testApiKey}`,
      `Bearer ${testApiKey}x`,
      `Bearer ${testApiKey.slice(0, -1)}`,
      `Bearer ${testApiKey} ${testApiKey}`,
      `Bearer ${'k'.repeat(2000)}`,
      'Bearer no-such-key-0123456789',
      `Bearer ${spare}`,
    ];
    for (const authorization of spellings) {
      const response = await fetch(`${service.url}/v1/users/me`, {
        headers: authorization === undefined ? {} : { authorization },
      });
      assert.equal(response.status, 401, String(authorization));
      assert.equal(response.headers.get('www-authenticate'), 'Bearer', String(authorization));
      bodies.add(await response.text());
    }
    assert.equal(bodies.size, 1, [...bodies].join('\n'));
    assert.deepEqual(Object.keys(JSON.parse([...bodies][0] ?? '')), ['error', 'code', 'details']);
    // The scheme is case-insensitive.
    const lower = await fetch(`${service.url}/v1/users/me`, {
      headers: { authorization: `bearer ${testApiKey}` },
    });
    assert.equal(lower.status, 200);
  });

  test('a stranger is refused before the body is read', async () => {
    const { service } = fixture;
    // Its type and its form would each be refused if they were read.
    const answer = await fetch(`${service.url}/v1/components`, {
      method: 'POST',
      headers: { authorization: 'Bearer no-such-key-0123456789', 'content-type': 'text/plain' },
      body: '{',
    });
    assert.equal(answer.status, 401);
  });

  test('only the admin of the instance creates users, and each gets a key that is shown once', async () => {
    const { service } = fixture;
    const person = await service.createUser('person');
    const me = await service.api('GET', '/v1/users/me', undefined, { key: person.key });
    assert.equal(me.body.data.id, person.id);
    assert.deepEqual(me.body.data.orgs, []);
    assert.ok(!JSON.stringify(me.body).includes(person.key));
    const refused = await service.api(
      'POST',
      '/v1/users',
      { username: 'nope', email: 'nope@example.com' },
      { key: person.key },
    );
    assert.equal(refused.status, 403);
    assert.equal(refused.body.code, 'forbidden');
  });

  test('a username or e-mail address that is taken is a conflict that names it', async () => {
    const { service } = fixture;
    const { username, email } = await service.createUser('person');
    for (const [body, parameter] of [
      [{ username, email: `fresh-${email}` }, 'username'],
      [{ username: `fresh-${username}`, email }, 'email'],
    ] as const) {
      const answer = await service.admin.api('POST', '/v1/users', body);
      assert.equal(answer.status, 409);
      assert.equal(answer.body.code, 'conflict');
      assert.equal(answer.body.details.parameter, parameter);
    }
  });

  test('keys are listed without their secrets, revoked by their owner only, and the last one stays', async () => {
    const { service } = fixture;
    const [owner, other] = [await service.createUser('person'), await service.createUser('person')];
    const made = await service.api('POST', '/v1/users/me/api_keys', { name: 'laptop' }, { key: owner.key });
    assert.match(made.body.data.id, /^key_/);
    assert.equal(made.body.data.hint, made.body.data.api_key.slice(-4));
    const list = await service.api('GET', '/v1/users/me/api_keys', undefined, { key: owner.key });
    assert.deepEqual(
      list.body.data.map(({ name }: { name: string }) => name),
      ['laptop', 'first key'],
    );
    assert.equal(list.body.page_info.total_count, 2);
    const text = JSON.stringify(list.body);
    assert.ok(!text.includes(made.body.data.api_key) && !text.includes(owner.key) && !/hash/.test(text));

    const path = `/v1/users/me/api_keys/${made.body.data.id}`;
    const foreign = await service.api('DELETE', path, undefined, { key: other.key });
    assert.equal(foreign.status, 404);
    assert.equal((await service.api('DELETE', path, undefined, { key: owner.key })).status, 204);
    assert.equal((await service.api('DELETE', path, undefined, { key: owner.key })).status, 404);
    const [last] = (await service.api('GET', '/v1/users/me/api_keys', undefined, { key: owner.key })).body
      .data;
    const kept = await service.api('DELETE', `/v1/users/me/api_keys/${last.id}`, undefined, {
      key: owner.key,
    });
    assert.equal(kept.status, 409);
    assert.equal((await service.api('GET', '/v1/users/me', undefined, { key: owner.key })).status, 200);
  });

  test('of keys that are revoked all at once, one stays', async () => {
    const { service } = fixture;
    const owner = await service.createUser('person');
    await Promise.all(
      [1, 2, 3].map((n) =>
        service.api('POST', '/v1/users/me/api_keys', { name: `${n}` }, { key: owner.key }),
      ),
    );
    const { body } = await service.api('GET', '/v1/users/me/api_keys', undefined, { key: owner.key });
    const answers = await Promise.all(
      body.data.map(({ id }: { id: string }) =>
        service.api('DELETE', `/v1/users/me/api_keys/${id}`, undefined, { key: owner.key }),
      ),
    );
    // One that comes after the revocation of the key it is asked with is 401.
    const revoked = answers.filter(({ status }) => status === 204).length;
    assert.ok(revoked <= 3, JSON.stringify(answers.map(({ status }) => status)));
    assert.ok(answers.every(({ status }) => [204, 401, 409].includes(status)));
  });

  test('what belongs to others is answered exactly as what does not exist', async () => {
    const { service } = fixture;
    const [owner, stranger] = [await service.createUser('person'), await service.createUser('person')];
    const workspace = await createWorkspace(service, owner);
    const project = await service.api(
      'POST',
      `/v1/workspaces/${workspace}/projects`,
      { name: 'P' },
      { key: owner.key },
    );
    assert.match(project.body.data.id, /^proj_/);
    const account = await service.api(
      'POST',
      `/v1/accounts?org_id=${workspace}`,
      { app: 'gitlab', credentials: { token: 't0p-s3cret' } },
      { key: owner.key },
    );
    assert.equal(account.status, 200, JSON.stringify(account.body));
    const saved = await service.api(
      'POST',
      '/v1/components',
      { component_code: component, org_id: workspace },
      { key: owner.key },
    );
    assert.equal(saved.status, 200, JSON.stringify(saved.body));
    const ids = {
      source: await createSource(service, owner, workspace),
      personal: await createSource(service, owner),
      account: account.body.data.id as string,
      component: saved.body.data.id as string,
      workspace,
      user: owner.id,
    };
    const nothing = {
      dc: 'dc_000000000000',
      apn: 'apn_000000000000',
      sc: 'sc_000000000000',
      o: 'o_000000000000',
    };
    const requests: [string, (id: string) => string, string, string, unknown?][] = [
      ...[ids.source, ids.personal].flatMap(
        (id): [string, (id: string) => string, string, string, unknown?][] => [
          ['GET', (it) => `/v1/sources/${it}`, id, nothing.dc],
          ['PUT', (it) => `/v1/sources/${it}`, id, nothing.dc, { name: 'mine now' }],
          ['DELETE', (it) => `/v1/sources/${it}`, id, nothing.dc],
          ['GET', (it) => `/v1/sources/${it}/event_summaries`, id, nothing.dc],
          ['GET', (it) => `/v1/sources/${it}/events`, id, nothing.dc],
          ['DELETE', (it) => `/v1/sources/${it}/events`, id, nothing.dc],
          ['GET', (it) => `/v1/sources/${it}/logs`, id, nothing.dc],
          ['GET', (it) => `/v1/sources/${it}/ticks`, id, nothing.dc],
          ['GET', (it) => `/v1/sources/${it}/timers`, id, nothing.dc],
          ['GET', (it) => `/v1/sources/${it}/sse`, id, nothing.dc],
          ['GET', (it) => `/sources/${it}/sse`, id, nothing.dc],
        ],
      ),
      ['GET', (it) => `/v1/accounts/${it}`, ids.account, nothing.apn],
      ['GET', (it) => `/v1/accounts/${it}?include_credentials=1`, ids.account, nothing.apn],
      ['PUT', (it) => `/v1/accounts/${it}`, ids.account, nothing.apn, { name: 'mine' }],
      ['DELETE', (it) => `/v1/accounts/${it}`, ids.account, nothing.apn],
      ['GET', (it) => `/v1/components/${it}`, ids.component, nothing.sc],
      ['POST', () => '/v1/sources', ids.component, nothing.sc, (it: string) => ({ component_id: it })],
      ['GET', (it) => `/v1/workspaces/${it}`, workspace, nothing.o],
      ['GET', (it) => `/v1/workspaces/${it}/projects`, workspace, nothing.o],
      ['POST', (it) => `/v1/workspaces/${it}/projects`, workspace, nothing.o, { name: 'x' }],
      ['GET', (it) => `/v1/workspaces/${it}/accounts`, workspace, nothing.o],
      ['GET', (it) => `/v1/workspaces/${it}/members`, workspace, nothing.o],
      ['POST', (it) => `/v1/workspaces/${it}/members`, workspace, nothing.o, { user_id: stranger.id }],
      ['DELETE', (it) => `/v1/workspaces/${it}/members/${stranger.id}`, workspace, nothing.o],
      ['GET', (it) => `/v1/orgs/${it}/sources`, workspace, nothing.o],
      ['POST', (it) => `/v1/sources?org_id=${it}`, workspace, nothing.o, { component_code: component }],
      [
        'POST',
        () => '/v1/sources',
        workspace,
        nothing.o,
        (it: string) => ({ workspace_id: it, component_code: component }),
      ],
      [
        'POST',
        (it) => `/v1/components?workspace_id=${it}`,
        workspace,
        nothing.o,
        { component_code: component },
      ],
      ['POST', (it) => `/v1/accounts?org_id=${it}`, workspace, nothing.o, { app: 'x', credentials: {} }],
      // A user is no workspace.
      ['GET', (it) => `/v1/orgs/${it}/sources`, ids.user, 'u_000000000000'],
      ['POST', (it) => `/v1/sources?org_id=${it}`, ids.user, 'u_000000000000', { component_code: component }],
    ];
    const key = stranger.key;
    for (const [method, path, theirs, none, body] of requests) {
      const bodyFor = (id: string) => (typeof body === 'function' ? body(id) : body);
      const foreign = await service.api(method, path(theirs), bodyFor(theirs), { key });
      const absent = await service.api(method, path(none), bodyFor(none), { key });
      const what = `${method} ${path(theirs)}`;
      assert.equal(foreign.status, 404, `${what}: ${JSON.stringify(foreign.body)}`);
      assert.equal(foreign.body.code, 'not_found', what);
      assert.deepEqual(withoutId(foreign, theirs), withoutId(absent, none), what);
      // The admin of the instance is no exception.
      const admin = await service.admin.api(method, path(theirs), bodyFor(theirs));
      assert.equal(admin.status, 404, `${what} as admin: ${JSON.stringify(admin.body)}`);
    }

    // Lists of the stranger know nothing of it, and cursors of others' lists are as unknown as made-up ones.
    for (const path of ['/v1/users/me/sources', '/v1/accounts']) {
      const list = await service.api('GET', path, undefined, { key });
      assert.deepEqual([list.body.data, list.body.page_info.total_count], [[], 0]);
      const cursor = Buffer.from(path === '/v1/accounts' ? ids.account : ids.personal).toString('base64url');
      const answer = await service.api('GET', `${path}?after=${cursor}`, undefined, { key });
      assert.deepEqual([answer.status, answer.body.code], [400, 'unknown_cursor']);
    }
    // A component with the same key or an account of others cannot be had by naming it in props either.
    const borrowed = await service.api(
      'POST',
      '/v1/sources',
      {
        component_code:
          "export default { name: 'B', props: { gitlab: { type: 'app', app: 'gitlab' }, http: '$.interface.http' }, hooks: { deploy() { this.$emit(this.gitlab.$auth); } }, run() {} };",
        configured_props: { gitlab: { authProvisionId: ids.account } },
      },
      { key },
    );
    assert.ok(borrowed.status >= 400 && borrowed.status < 500, JSON.stringify(borrowed.body));
    assert.ok(!JSON.stringify(borrowed.body).includes('t0p-s3cret'));

    // Nothing of it was changed by any of these.
    assert.equal(
      (await service.api('GET', `/v1/sources/${ids.source}`, undefined, { key: owner.key })).status,
      200,
    );
    assert.equal(
      (await service.api('GET', `/v1/accounts/${ids.account}`, undefined, { key: owner.key })).status,
      200,
    );
  });

  test('a member changes what the workspace has, a viewer reads it, and only an admin changes who is in it', async () => {
    const { service } = fixture;
    const [admin, member, viewer, other] = [
      await service.createUser('person'),
      await service.createUser('person'),
      await service.createUser('person'),
      await service.createUser('person'),
    ];
    const workspace = await createWorkspace(service, admin, 'Roles');
    const added = await addMember(service, admin, workspace, member, 'member');
    assert.deepEqual([added.user_id, added.role], [member.id, 'member']);
    await addMember(service, admin, workspace, viewer, 'viewer');
    const source = await createSource(service, admin, workspace);
    const account = await service.api(
      'POST',
      '/v1/accounts',
      { app: 'gitlab', credentials: { token: 't0p-s3cret' }, workspace_id: workspace },
      { key: member.key },
    );
    assert.equal(account.status, 200, JSON.stringify(account.body));

    for (const { key } of [admin, member, viewer]) {
      const list = await service.api('GET', `/v1/orgs/${workspace}/sources`, undefined, { key });
      assert.deepEqual(
        list.body.data.map(({ id, owner_id }: { id: string; owner_id: string }) => [id, owner_id]),
        [[source, workspace]],
      );
      // A specific resource needs no workspace id.
      for (const path of [
        `/v1/sources/${source}`,
        `/v1/sources/${source}/event_summaries`,
        `/v1/accounts/${account.body.data.id}`,
        `/v1/workspaces/${workspace}`,
        `/v1/workspaces/${workspace}/projects`,
        `/v1/workspaces/${workspace}/members`,
        `/v1/workspaces/${workspace}/accounts`,
      ]) {
        assert.equal((await service.api('GET', path, undefined, { key })).status, 200, path);
      }
      // It is the workspace's, not one of theirs.
      const own = await service.api('GET', '/v1/users/me/sources', undefined, { key });
      assert.deepEqual(own.body.data, []);
    }

    const changes: [string, string, unknown?][] = [
      ['PUT', `/v1/sources/${source}`, { name: 'renamed' }],
      ['DELETE', `/v1/sources/${source}/events`],
      ['PUT', `/v1/accounts/${account.body.data.id}`, { name: 'renamed' }],
      ['POST', `/v1/workspaces/${workspace}/projects`, { name: 'made by a member' }],
      ['POST', `/v1/components?org_id=${workspace}`, { component_code: component }],
      ['GET', `/v1/accounts/${account.body.data.id}?include_credentials=true`],
    ];
    const removals: [string, string, unknown?][] = [
      ['DELETE', `/v1/accounts/${account.body.data.id}`],
      ['DELETE', `/v1/sources/${source}`],
    ];
    for (const [method, path, body] of [...changes, ...removals]) {
      const answer = await service.api(method, path, body, { key: viewer.key });
      assert.equal(answer.status, 403, `${method} ${path}: ${JSON.stringify(answer.body)}`);
      assert.equal(answer.body.code, 'forbidden');
    }
    const asViewer = await service.api(
      'POST',
      '/v1/sources',
      { component_code: component, org_id: workspace },
      { key: viewer.key },
    );
    assert.equal(asViewer.status, 403);
    const memberships: [string, string, unknown?][] = [
      ['POST', `/v1/workspaces/${workspace}/members`, { user_id: other.id }],
      ['POST', `/v1/workspaces/${workspace}/members`, { user_id: member.id, role: 'admin' }],
      ['DELETE', `/v1/workspaces/${workspace}/members/${viewer.id}`],
    ];
    for (const [method, path, body] of memberships) {
      const answer = await service.api(method, path, body, { key: member.key });
      assert.deepEqual([answer.status, answer.body.code], [403, 'forbidden'], `${method} ${path}`);
    }
    for (const [method, path, body] of [...changes, ...removals]) {
      const answer = await service.api(method, path, body, { key: member.key });
      assert.ok([200, 202, 204].includes(answer.status), `${method} ${path}: ${JSON.stringify(answer.body)}`);
    }
  });

  test('a member changes props of a source of the workspace whose component another member saved for themselves', async () => {
    const { service } = fixture;
    const [maker, member] = [await service.createUser('person'), await service.createUser('person')];
    const workspace = await createWorkspace(service, maker);
    await addMember(service, maker, workspace, member, 'member');
    const saved = await service.api(
      'POST',
      '/v1/components',
      { component_code: "export default { name: 'Mine', props: { mood: 'string' }, run() {} };" },
      { key: maker.key },
    );
    const made = await service.api(
      'POST',
      `/v1/sources?org_id=${workspace}`,
      { component_id: saved.body.data.id, configured_props: { mood: 'old' } },
      { key: maker.key },
    );
    assert.equal(made.status, 200, JSON.stringify(made.body));
    for (const change of [
      { configured_props: { mood: 'new' } },
      { component_id: saved.body.data.id, configured_props: { mood: 'newer' } },
    ]) {
      const changed = await service.api('PUT', `/v1/sources/${made.body.data.id}`, change, {
        key: member.key,
      });
      assert.equal(changed.status, 200, JSON.stringify(changed.body));
      assert.deepEqual(changed.body.data.configured_props, change.configured_props);
    }
    const other = await service.api(
      'POST',
      `/v1/sources?org_id=${workspace}`,
      { component_id: saved.body.data.id, configured_props: { mood: 'x' } },
      { key: member.key },
    );
    assert.equal(other.status, 404, 'for a source of their own it is still out of reach');
  });

  test('removing a member ends access at once; the last admin stays', async () => {
    const { service } = fixture;
    const [admin, member] = [await service.createUser('person'), await service.createUser('person')];
    const workspace = await createWorkspace(service, admin, 'Leaving');
    await addMember(service, admin, workspace, member, 'member');
    const source = await createSource(service, member, workspace);
    const memberPath = `/v1/workspaces/${workspace}/members/${member.id}`;
    assert.equal((await service.api('DELETE', memberPath, undefined, { key: admin.key })).status, 204);
    for (const path of [
      `/v1/sources/${source}`,
      `/v1/orgs/${workspace}/sources`,
      `/v1/workspaces/${workspace}`,
    ]) {
      assert.equal((await service.api('GET', path, undefined, { key: member.key })).status, 404, path);
    }
    assert.deepEqual(
      (await service.api('GET', '/v1/users/me', undefined, { key: member.key })).body.data.orgs,
      [],
    );
    // The source is the workspace's and stays.
    assert.equal(
      (await service.api('GET', `/v1/sources/${source}`, undefined, { key: admin.key })).status,
      200,
    );
    assert.equal((await service.api('DELETE', memberPath, undefined, { key: admin.key })).status, 404);

    const members = `/v1/workspaces/${workspace}/members`;
    for (const [method, path, body] of [
      ['DELETE', `${members}/${admin.id}`],
      ['POST', members, { user_id: admin.id, role: 'viewer' }],
    ] as const) {
      const answer = await service.api(method, path, body, { key: admin.key });
      assert.deepEqual([answer.status, answer.body.code], [409, 'conflict']);
    }
    // With another admin one may leave; a member is found by e-mail address too.
    const email = (await service.api('GET', '/v1/users/me', undefined, { key: member.key })).body.data.email;
    const again = await service.api('POST', members, { email, role: 'admin' }, { key: admin.key });
    assert.deepEqual([again.status, again.body.data.role], [200, 'admin']);
    assert.equal(
      (await service.api('DELETE', `${members}/${admin.id}`, undefined, { key: admin.key })).status,
      204,
    );
    assert.equal((await service.api('GET', members, undefined, { key: admin.key })).status, 404);
  });

  test('of two admins who remove each other at the same moment, one stays', async () => {
    const { service } = fixture;
    const [one, two] = [await service.createUser('person'), await service.createUser('person')];
    const workspace = await createWorkspace(service, one, 'Duel');
    await addMember(service, one, workspace, two, 'admin');
    const members = `/v1/workspaces/${workspace}/members`;
    await Promise.all([
      service.api('DELETE', `${members}/${two.id}`, undefined, { key: one.key }),
      service.api('DELETE', `${members}/${one.id}`, undefined, { key: two.key }),
    ]);
    const seen = await Promise.all(
      [one, two].map(({ key }) => service.api('GET', members, undefined, { key })),
    );
    assert.deepEqual(seen.map(({ status }) => status).sort(), [200, 404]);
  });
});
