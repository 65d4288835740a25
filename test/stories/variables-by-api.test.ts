import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';

interface ListedVariable {
  name: string;
  value: string | null;
}

forEachSharedService((fixture) => {
  const data = async (method: string, path: string, body?: unknown, by: ServiceClient = fixture.service) => {
    const answer = await by.api(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };
  const refused = async (
    method: string,
    path: string,
    body?: unknown,
    by: ServiceClient = fixture.service,
  ) => {
    const answer = await by.api(method, path, body);
    return [answer.status, answer.body.code, answer.body.details.parameter];
  };
  const listed = async (query = '', by?: ServiceClient) =>
    ((await data('GET', `/v1/variables${query}`, undefined, by)) as ListedVariable[]).map(
      ({ name, value }) => [name, value],
    );
  const newWorkspace = async () => (await data('POST', '/v1/workspaces', { name: 'Variables' })).id as string;

  test('a variable is set, changed, listed and removed; a secret value is never shown', async () => {
    const org = await newWorkspace();
    const path = (name: string) => `/v1/variables/${name}?org_id=${org}`;
    const plain = await data('PUT', path('BASE_URL'), {
      value: 'https://a.example',
      description: 'the shop',
    });
    assert.deepEqual(
      [plain.name, plain.value, plain.secret, plain.description, plain.owner_id, plain.project_id],
      ['BASE_URL', 'https://a.example', false, 'the shop', org, null],
    );
    const secret = await data('PUT', path('API_KEY'), { value: 'sk-1234', secret: true });
    assert.deepEqual([secret.value, secret.secret], [null, true]);
    assert.equal((await data('GET', path('API_KEY'))).value, null);
    assert.deepEqual(await listed(`?org_id=${org}`), [
      ['API_KEY', null],
      ['BASE_URL', 'https://a.example'],
    ]);
    // What is not named stays.
    assert.equal((await data('PUT', path('BASE_URL'), { description: '' })).value, 'https://a.example');
    assert.equal((await data('PUT', path('API_KEY'), { value: 'sk-5678' })).secret, true);
    // It was plain, and is not shown from now on.
    assert.equal((await data('PUT', path('BASE_URL'), { secret: true })).value, null);
    // With a value of its own a secret one may become plain.
    assert.deepEqual(await refused('PUT', path('API_KEY'), { secret: false }), [
      400,
      'invalid_parameter',
      'secret',
    ]);
    assert.equal((await data('PUT', path('API_KEY'), { secret: false, value: 'open' })).value, 'open');
    await data('DELETE', path('API_KEY'));
    assert.deepEqual(await refused('GET', path('API_KEY')), [404, 'not_found', 'name']);
    assert.deepEqual(await refused('DELETE', path('API_KEY')), [404, 'not_found', 'name']);
    assert.deepEqual(await listed(), [], 'those of the user are others');
  });

  test('workspaces, projects and users have their own, in pages in the order of names', async () => {
    const org = await newWorkspace();
    const project = (await data('POST', `/v1/workspaces/${org}/projects`, { name: 'Ours' })).id;
    await data('PUT', `/v1/variables?org_id=${org}`, {
      variables: ['C', 'A', 'B'].map((name) => ({ name, value: `${name} of workspace` })),
    });
    await data('PUT', `/v1/variables?project_id=${project}`, {
      variables: [{ name: 'A', value: 'A of project' }],
    });
    await data('PUT', '/v1/variables/MINE', { value: 'm' });
    assert.deepEqual(await listed(`?project_id=${project}`), [['A', 'A of project']]);
    assert.deepEqual(await listed(), [['MINE', 'm']]);
    const first = await fixture.service.api('GET', `/v1/variables?org_id=${org}&limit=2`);
    assert.deepEqual(
      first.body.data.map(({ name }: ListedVariable) => name),
      ['A', 'B'],
    );
    assert.equal(first.body.page_info.total_count, 3);
    assert.deepEqual(await listed(`?org_id=${org}&after=${first.body.page_info.end_cursor}`), [
      ['C', 'C of workspace'],
    ]);
    // A project goes with its variables.
    await data('DELETE', `/v1/projects/${project}`);
    assert.deepEqual(await refused('GET', `/v1/variables?project_id=${project}`), [
      404,
      'not_found',
      'project_id',
    ]);
    const audit = (await data('GET', `/v1/variable_audit?org_id=${org}&project_id=${project}`)) as {
      action: string;
      details: object;
    }[];
    assert.deepEqual(
      audit.map(({ action }) => action),
      ['deleted', 'created'],
    );
    await data('DELETE', '/v1/variables/MINE');
  });

  test('several are set together or not at all, and errors name the place', async () => {
    const org = await newWorkspace();
    const set = (variables: unknown[]) => refused('PUT', `/v1/variables?org_id=${org}`, { variables });
    assert.deepEqual(
      await set([
        { name: 'A', value: '1' },
        { name: 'PATH', value: '2' },
      ]),
      [400, 'invalid_parameter', 'variables[1].name'],
    );
    assert.deepEqual(await set([{ name: 'A' }]), [400, 'missing_parameter', 'variables[0].value']);
    assert.deepEqual(await listed(`?org_id=${org}`), []);
    const put = (name: string, body: object) => refused('PUT', `/v1/variables/${name}?org_id=${org}`, body);
    for (const name of ['9A', 'A-B', 'a.b', 'PD_COMPONENT', 'PIPEDREAM_X', 'NODE_OPTIONS', '__proto__'])
      assert.deepEqual(await put(name, { value: 'x' }), [400, 'invalid_parameter', 'name'], name);
    assert.deepEqual(await put('A'.repeat(257), { value: 'x' }), [400, 'invalid_parameter', 'name']);
    assert.deepEqual(await put('A', { value: 'x'.repeat(64 * 1024 + 1) }), [
      400,
      'invalid_parameter',
      'value',
    ]);
    assert.deepEqual(await put('A', { value: 'a\0b' }), [400, 'invalid_parameter', 'value']);
    assert.deepEqual(await put('A', { value: 'half \ud800', secret: true }), [
      400,
      'invalid_parameter',
      'value',
    ]);
    assert.deepEqual(
      await set([
        { name: 'B', value: '1' },
        { name: 'C', value: '2' },
        { name: 'B', value: '3' },
      ]),
      [400, 'invalid_parameter', 'variables[2].name'],
    );
    const errorOf = async (name: string, value: string) =>
      (await fixture.service.api('PUT', `/v1/variables/${name}?org_id=${org}`, { value })).body.error;
    assert.equal(
      await errorOf('A', 'x'.repeat(64 * 1024 + 1)),
      'value: found 65,537 bytes, expected at most 65,536 (64 KB)',
    );
    assert.equal(
      await errorOf('__proto__', 'x'),
      'name: found __proto__, expected another name: every object has it already',
    );
    // Together they may have 256 KB.
    const large = Array.from({ length: 4 }, (_, n) => ({ name: `L${n}`, value: 'x'.repeat(64 * 1024) }));
    assert.deepEqual((await set(large)).slice(0, 2), [409, 'conflict']);
    assert.deepEqual(await listed(`?org_id=${org}`), []);
    assert.equal((await data('PUT', `/v1/variables/a1_?org_id=${org}`, { value: '' })).value, '');
  });

  test('viewers see no values, strangers see nothing, and only admins see the audit, which has no values', async () => {
    const org = await newWorkspace();
    const join = async (role: string) => {
      const user = await fixture.service.createUser(role);
      await data('POST', `/v1/workspaces/${org}/members`, { user_id: user.id, role });
      return fixture.service.as(user);
    };
    const [viewer, member] = [await join('viewer'), await join('member')];
    const stranger = fixture.service.as(await fixture.service.createUser('stranger'));
    await data('PUT', `/v1/variables/PLAIN?org_id=${org}`, { value: 'plain-value' }, member);
    await data('PUT', `/v1/variables/SECRET?org_id=${org}`, { value: 'secret-value', secret: true }, member);
    assert.deepEqual(await listed(`?org_id=${org}`, member), [
      ['PLAIN', 'plain-value'],
      ['SECRET', null],
    ]);
    assert.deepEqual(await listed(`?org_id=${org}`, viewer), [
      ['PLAIN', null],
      ['SECRET', null],
    ]);
    assert.equal((await data('GET', `/v1/variables/PLAIN?org_id=${org}`, undefined, viewer)).value, null);
    const path = `/v1/variables/PLAIN?org_id=${org}`;
    assert.deepEqual((await refused('PUT', path, { value: 'x' }, viewer)).slice(0, 2), [403, 'forbidden']);
    assert.deepEqual(await refused('GET', path, undefined, stranger), [404, 'not_found', 'org_id']);
    const audit = `/v1/variable_audit?org_id=${org}`;
    assert.deepEqual((await refused('GET', audit, undefined, member)).slice(0, 2), [403, 'forbidden']);
    const entries = await fixture.service.api('GET', audit);
    assert.deepEqual(
      entries.body.data.map((entry: { name: string; action: string; details: object }) => [
        entry.name,
        entry.action,
        entry.details,
      ]),
      [
        ['SECRET', 'created', { secret: true }],
        ['PLAIN', 'created', { secret: false }],
      ],
    );
    assert.doesNotMatch(JSON.stringify(entries.body), /plain-value|secret-value/);
  });
});
