import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService, testApiKey } from '../support/millrace.ts';

/** What the dashboard needs for the administration of an instance, its users and its workspaces, and who may read it. */
forEachSharedService((fixture) => {
  const ask = (method: string, path: string, body?: unknown, key = testApiKey) =>
    fixture.service.api(method, path, body, { key });
  const data = async (method: string, path: string, body?: unknown, key = testApiKey) => {
    const answer = await ask(method, path, body, key);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };
  const addUser = (name: string) => fixture.service.createUser(name);
  /** The admin of a workspace, and one member of each lesser role. */
  const addTeam = async (name: string) => {
    const [admin, member, viewer, stranger] = await Promise.all(
      ['admin', 'member', 'viewer', 'stranger'].map((role) => addUser(`${name}-${role}`)),
    );
    assert.ok(admin && member && viewer && stranger);
    const { id } = await data('POST', '/v1/workspaces', { name }, admin.key);
    for (const [user, role] of [
      [member, 'member'],
      [viewer, 'viewer'],
    ] as const) {
      await data('POST', `/v1/workspaces/${id}/members`, { user_id: user.id, role }, admin.key);
    }
    return { id: id as string, admin, member, viewer, stranger };
  };

  test('the admin sees what is running, on which store, and the settings without their secrets', async () => {
    const shown = await data('GET', '/v1/instance');
    assert.equal(shown.store, fixture.dialect);
    assert.equal(shown.node_version, process.version);
    assert.ok(['kernel', 'seat-belt', 'off'].includes(shown.sandbox));
    assert.ok(shown.disk.free_bytes > 0 && shown.disk.free_bytes <= shown.disk.total_bytes);
    assert.ok(shown.now >= shown.started_at && shown.memory_bytes > 0);
    assert.equal(shown.clock?.state, fixture.dialect === 'postgres' ? 'synchronized' : undefined);
    assert.equal(shown.address, fixture.service.url);
    const self = shown.nodes.find(({ id }: { id: string }) => id === shown.node);
    assert.deepEqual([self?.health.state, self?.health.reason, self?.advice], ['healthy', null, null]);
    const settings = new Map<string, { value: string | null; from: string }>(
      shown.settings.map((one: { env: string }) => [one.env, one]),
    );
    assert.deepEqual(settings.get('MILLRACE_EGRESS')?.value, 'public,local');
    assert.deepEqual(settings.get('MILLRACE_RUN_DEADLINE')?.from, 'default');
    // Set for this service, and a secret.
    const key = settings.get('MILLRACE_API_KEY');
    assert.deepEqual([key?.value, key?.from], [null, 'environment']);
    const text = JSON.stringify(shown);
    assert.ok(!text.includes(testApiKey));
    const { value: database = null } = settings.get('MILLRACE_DATABASE_URL') ?? {};
    assert.ok(!database?.includes('@'), 'the password of the database is not shown');
    assert.ok(!text.includes(process.env.PATH ?? ''), 'of the environment only settings are shown');
  });

  test('no other user sees it, or the users', async () => {
    const { admin, member } = await addTeam('look');
    for (const key of [admin.key, member.key]) {
      for (const path of ['/v1/instance', '/v1/users', '/v1/users?q=admin']) {
        const answer = await ask('GET', path, undefined, key);
        assert.deepEqual([answer.status, answer.body.code], [403, 'forbidden'], path);
      }
    }
  });

  test('users are listed newest first, a page at a time, and found by name, e-mail address or id', async () => {
    const first = await addUser('list');
    const username = `${first.username}-too`;
    const second = await data('POST', '/v1/users', { username, email: `${username}@Example.com` });
    const path = `/v1/users?q=${first.username.toUpperCase()}`;
    const one = await ask('GET', `${path}&limit=1`);
    assert.deepEqual(
      [one.body.page_info.total_count, one.body.data[0].id],
      [2, second.id],
      JSON.stringify(one.body),
    );
    const next = await ask('GET', `${path}&limit=1&after=${one.body.page_info.end_cursor}`);
    assert.equal(next.body.data[0].id, first.id);
    assert.deepEqual(Object.keys(next.body.data[0]).sort(), [
      ...[
        'created_at',
        'disabled_at',
        'disabled_reason',
        'email',
        'id',
        'is_admin',
        'kind',
        'username',
        'workspace_id',
      ],
    ]);
    assert.equal((await ask('GET', `/v1/users?q=${first.id}`)).body.data.length, 1);
    // What means something in SQL means nothing here.
    assert.equal((await ask('GET', `/v1/users?q=${encodeURIComponent('%_%')}`)).body.data.length, 0);
  });

  test('a request can ask who it comes from', async () => {
    const person = await addUser('who');
    const [{ id: keyId }] = await data('GET', '/v1/users/me/api_keys', undefined, person.key);
    assert.deepEqual(await data('GET', '/v1/session', undefined, person.key), {
      user_id: person.id,
      is_admin: false,
      key_id: keyId,
      expires_at: null,
      sign_out_url: null,
    });
    assert.equal((await data('GET', '/v1/session')).is_admin, true);
    const { service } = fixture;
    const signedIn = await fetch(`${service.url}/v1/session`, {
      method: 'POST',
      headers: { 'x-millrace-csrf': '1', origin: service.url, 'content-type': 'application/json' },
      body: JSON.stringify({ api_key: person.key }),
    });
    const { data: started } = (await signedIn.json()) as { data: { expires_at: number } };
    const cookie = signedIn.headers.get('set-cookie')?.split(';', 1)[0] ?? '';
    const asked = await fetch(`${service.url}/v1/session`, { headers: { cookie, 'x-millrace-csrf': '1' } });
    const { data: told } = (await asked.json()) as { data: Record<string, unknown> };
    assert.deepEqual([told.key_id, told.expires_at], [keyId, started.expires_at]);
    assert.equal((await fetch(`${service.url}/v1/session`)).status, 401);
  });

  test('the workspaces one is in are listed, on the free plan and on the paid one', async () => {
    const team = await addTeam('mine');
    const { orgs } = await data('GET', '/v1/users/me', undefined, team.viewer.key);
    assert.deepEqual(
      orgs.map(({ id }: { id: string }) => id),
      [team.id],
    );
    assert.deepEqual(await data('GET', '/v1/workspaces', undefined, team.viewer.key), orgs);
    await data('PUT', `/v1/quotas/${team.viewer.id}`, { plan: 'paid' });
    assert.equal((await data('GET', '/v1/users/me', undefined, team.viewer.key)).orgs, undefined);
    assert.deepEqual(await data('GET', '/v1/workspaces', undefined, team.viewer.key), orgs);
    assert.deepEqual(await data('GET', '/v1/workspaces', undefined, team.stranger.key), []);
  });

  test('only admins of a workspace rename it', async () => {
    const team = await addTeam('rename');
    const path = `/v1/workspaces/${team.id}`;
    const before = await data('GET', path, undefined, team.admin.key);
    const name = '<b>New</b> \u202ename';
    const after = await data('PUT', path, { name }, team.admin.key);
    assert.deepEqual([after.name, after.orgname, after.email], [name, before.orgname, before.email]);
    assert.equal((await data('PUT', path, { email: 'x@example.com' }, team.admin.key)).name, name);
    assert.equal((await data('PUT', path, {}, team.admin.key)).email, 'x@example.com');
    assert.equal((await ask('PUT', path, { name: '' }, team.admin.key)).body.details.parameter, 'name');
    for (const { key } of [team.member, team.viewer])
      assert.equal((await ask('PUT', path, { name: 'no' }, key)).status, 403);
    // The admin of the instance has no rights here either.
    for (const key of [team.stranger.key, testApiKey])
      assert.equal((await ask('PUT', path, { name: 'no' }, key)).status, 404);
    assert.equal((await data('GET', path, undefined, team.viewer.key)).name, name);
  });

  test('members rename projects and delete those without workflows; viewers and strangers do not', async () => {
    const team = await addTeam('project');
    const list = `/v1/workspaces/${team.id}/projects`;
    const project = await data('POST', list, { name: 'first' }, team.member.key);
    const path = `/v1/projects/${project.id}`;
    assert.equal((await data('PUT', path, { name: 'second' }, team.member.key)).name, 'second');
    for (const [method, body] of [['PUT', { name: 'no' }], ['DELETE']] as const) {
      assert.equal((await ask(method, path, body, team.viewer.key)).status, 403);
      assert.equal((await ask(method, path, body, team.stranger.key)).status, 404);
      assert.equal((await ask(method, '/v1/projects/proj_none', body, team.member.key)).status, 404);
    }
    const workflow = await data(
      'POST',
      '/v1/workflows',
      { org_id: team.id, project_id: project.id, steps: [], triggers: [], settings: { name: 'inside' } },
      team.member.key,
    );
    const refused = await ask('DELETE', path, undefined, team.admin.key);
    assert.deepEqual([refused.status, refused.body.code], [409, 'conflict']);
    assert.match(refused.body.error, /a workflow/);
    await data('DELETE', `/v1/workflows/${workflow.id}`, undefined, team.member.key);
    assert.equal((await ask('DELETE', path, undefined, team.member.key)).status, 204);
    assert.deepEqual(await data('GET', list, undefined, team.viewer.key), []);
    assert.equal((await ask('DELETE', path, undefined, team.member.key)).status, 404);
  });
});
