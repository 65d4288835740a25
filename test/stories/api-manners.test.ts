import assert from 'node:assert/strict';
import { type ClientRequest, request as httpRequest } from 'node:http';
import { before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type ApiAnswer, forEachSharedService, type ServiceClient } from '../support/millrace.ts';

const component =
  "export default { name: 'Manners', version: '0.1.0', props: { http: '$.interface.http' }, run(event) { this.$emit(event); } };";

/** The one form of every error: a sentence, a code, and details. */
function assertError(answer: ApiAnswer, status: number, code: string, parameter?: string): void {
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  assert.deepEqual(Object.keys(answer.body), ['error', 'code', 'details']);
  assert.equal(answer.body.code, code);
  assert.ok(typeof answer.body.error === 'string' && answer.body.error.length > 0);
  assert.ok(typeof answer.body.details === 'object' && answer.body.details !== null);
  if (parameter !== undefined) {
    assert.equal(answer.body.details.parameter, parameter);
    assert.match(answer.body.error, new RegExp(parameter), 'the sentence names the parameter');
  }
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
}

/** A request as it is written here, which `fetch` would tidy up or refuse. */
function raw(
  service: ServiceClient,
  options: { method: string; path: string; headers?: Record<string, string>; body?: string | Buffer },
): Promise<{ status: number; headers: Record<string, unknown>; text: string }> {
  const { hostname, port } = new URL(service.url);
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        hostname,
        port,
        method: options.method,
        path: options.path,
        headers: { authorization: `Bearer ${service.key}`, ...options.headers },
        agent: false,
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
        );
        response.on('error', reject);
      },
    );
    request.on('error', reject);
    void send(request, options.body).catch(reject);
  });
}

/** Sends piece by piece, each when the previous one has left: a server that hangs up in between is noticed. */
async function send(request: ClientRequest, body: string | Buffer | undefined): Promise<void> {
  const bytes = Buffer.from(body ?? '');
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    const piece = bytes.subarray(at, at + pieceBytes);
    await new Promise<void>((resolve, reject) =>
      request.write(piece, (error) => (error ? reject(error) : resolve())),
    );
  }
  request.end();
}

const pieceBytes = 64 * 1024;

async function rawAnswer(...args: Parameters<typeof raw>): Promise<ApiAnswer> {
  const { status, headers, text } = await raw(...args);
  return {
    status,
    headers: new Headers(headers as Record<string, string>),
    body: text === '' ? undefined : JSON.parse(text),
  };
}

forEachSharedService((fixture) => {
  // Made once for all of these: nothing here changes them.
  let workspace = '';
  let source: { id: string };
  let sources: string[] = [];

  before(async () => {
    const { service } = fixture;
    workspace = (await service.api('GET', '/v1/users/me')).body.data.orgs[0].id;
    const project = await service.api('POST', `/v1/workspaces/${workspace}/projects`, { name: 'Main' });
    assert.equal(project.status, 200, JSON.stringify(project.body));
    source = await service.createSource({ component_code: component, name: 'personal' });
    const made: { id: string }[] = [];
    for (let n = 0; n < 13; n += 1) {
      const body = { component_code: component, name: `source ${n}`, org_id: workspace };
      made.push(await service.createSource(body));
    }
    sources = made.map(({ id }) => id).reverse();
  });

  test('every path works with and without a slash at its end', async () => {
    const { service } = fixture;
    const { body: document } = await service.api('GET', '/openapi.json');
    const ids: Record<string, string> = {
      '/v1/sources/{id}': source.id,
      '/sources/{id}': source.id,
      '/v1/workspaces/{id}': workspace,
      '/v1/orgs/{id}': workspace,
    };
    let walked = 0;
    for (const [pattern, operations] of Object.entries<Record<string, unknown>>(document.paths)) {
      const prefix = Object.keys(ids).find((start) => pattern.startsWith(start)) ?? '';
      const path = pattern
        .replace(prefix, prefix.replace('{id}', ids[prefix] ?? ''))
        .replace(/\{\w+\}/g, 'nothing');
      for (const method of Object.keys(operations)) {
        if (pattern.endsWith('/sse') || pattern === '/metrics') continue;
        // Bodies that no operation takes, so that nothing is made or lost.
        const body = ['post', 'put'].includes(method) ? { no_such_field: 1 } : undefined;
        if (method === 'delete' && !path.includes('nothing')) continue;
        const [without, within] = await Promise.all(
          [path, `${path}/`].map((it) => service.api(method.toUpperCase(), it, body)),
        );
        assert.ok(without && within);
        assert.equal(within.status, without.status, `${method} ${path}/`);
        assert.ok(without.status !== 405, path);
        assert.notEqual(without.body?.code, 'unknown_path', path);
        // What these say of the moment differs from one request to the next.
        const shown = (body: unknown) => (/\/(?:instance|flow)$/.test(path) ? Object.keys(body ?? {}) : body);
        assert.deepEqual(shown(within.body), shown(without.body), `${method} ${path}/`);
        walked += 1;
      }
    }
    assert.ok(walked > 25, `${walked} operations`);
    for (const path of [`/sources/${source.id}/sse`, `/sources/${source.id}/sse/`]) {
      const abort = new AbortController();
      const response = await fetch(service.url + path, {
        headers: { authorization: `Bearer ${service.key}` },
        signal: abort.signal,
      });
      assert.equal(response.status, 200, path);
      abort.abort();
    }
    const query = await service.api('GET', `/v1/orgs/${workspace}/sources/?limit=2`);
    assert.equal(query.body.data.length, 2);
  });

  test('a known path with another method is 405 with Allow; an unknown path is 404', async () => {
    const { service } = fixture;
    for (const [method, path, allow] of [
      ['PATCH', '/v1/users/me', 'DELETE, GET, HEAD, PUT'],
      ['GET', '/v1/sources', 'POST'],
      ['PATCH', `/v1/sources/${source.id}/`, 'DELETE, GET, HEAD, PUT'],
      ['POST', `/v1/sources/${source.id}/event_summaries?limit=3`, 'GET, HEAD'],
      ['PUT', '/v1/components/registry/some-key', 'GET, HEAD'],
      ['OPTIONS', '/v1/users/me', 'DELETE, GET, HEAD, PUT'],
      ['PURGE', '/healthz', 'GET, HEAD'],
    ] as const) {
      const answer = await rawAnswer(service, { method, path });
      assertError(answer, 405, 'method_not_allowed');
      assert.equal(answer.headers.get('allow'), allow, `${method} ${path}`);
    }
    for (const path of [
      ...['/v1', '/v1/', '/v1/nothing', '/v2/users/me', '/users/me', '/v1//users/me'],
      ...[
        `/v1/sources/${source.id}/nothing`,
        '/v1/users/me/sources/x',
        '/v1/users/mE/api_keys',
        '/docs/../etc',
      ],
    ]) {
      assertError(await rawAnswer(service, { method: 'GET', path }), 404, 'unknown_path');
    }
    // Longer than any id; not a matter of the method.
    const long = await rawAnswer(service, { method: 'GET', path: `/v1/sources/${'x'.repeat(2000)}` });
    assertError(long, 404, 'not_found');
    assertError(await rawAnswer(service, { method: 'GET', path: '/v1/sources/%zz' }), 400, 'invalid_request');
    assertError(
      await rawAnswer(service, { method: 'GET', path: '/v1/sources/%00' }),
      400,
      'invalid_parameter',
      'id',
    );
  });

  test('HEAD answers as GET does, without a body', async () => {
    const { service } = fixture;
    const head = await raw(service, { method: 'HEAD', path: '/v1/users/me' });
    assert.deepEqual([head.status, head.text], [200, '']);
    const none = await raw(service, { method: 'HEAD', path: '/v1/sources/dc_nothing' });
    assert.deepEqual([none.status, none.text], [404, '']);
  });

  test('a body that is not JSON by its type is 415', async () => {
    const { service } = fixture;
    const body = JSON.stringify({ name: 'x' });
    for (const headers of [
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/x-www-form-urlencoded' },
      { 'content-type': 'multipart/form-data; boundary=x' },
      { 'content-type': 'application/xml' },
      { 'content-type': 'application/jsonp' },
      { 'content-type': 'nonsense' },
      {} as Record<string, string>,
    ]) {
      const answer = await rawAnswer(service, { method: 'POST', path: '/v1/workspaces', headers, body });
      assertError(answer, 415, 'unsupported_media_type');
    }
    const headers = { 'content-type': 'application/zip' };
    const archive = await rawAnswer(service, { method: 'POST', path: '/v1/components', headers, body });
    assertError(archive, 415, 'unsupported_media_type');
    assert.match(archive.body.error, /archives of files are not taken: .*component_url/);
    for (const type of ['application/json', 'application/json; charset=utf-8', 'Application/JSON']) {
      const answer = await rawAnswer(service, {
        method: 'POST',
        path: '/v1/users/me/api_keys',
        headers: { 'content-type': type },
        body: JSON.stringify({ name: 5 }),
      });
      assertError(answer, 400, 'invalid_parameter', 'name');
    }
  });

  test('a compressed body is 415, whatever it would become', async () => {
    const { service } = fixture;
    const send = (encoding: string, body: Buffer) =>
      rawAnswer(service, {
        method: 'POST',
        path: '/v1/workspaces',
        headers: { 'content-type': 'application/json', 'content-encoding': encoding },
        body,
      });
    for (const body of [gzipSync('{"name":"x"}'), gzipSync(Buffer.alloc(20_000_000, 32))]) {
      const answer = await send('gzip', body);
      assertError(answer, 415, 'unsupported_media_type');
      assert.match(answer.body.error, /^content-encoding: found "gzip", expected none/);
    }
    assertError(await send('identity', Buffer.from('{"name":5}')), 400, 'invalid_parameter', 'name');
  });

  test('malformed JSON, and JSON that is no object, is 400', async () => {
    const { service } = fixture;
    const post = (body: string | Buffer) =>
      rawAnswer(service, {
        method: 'POST',
        path: '/v1/sources/',
        headers: { 'content-type': 'application/json' },
        body,
      });
    for (const body of [
      ...['{', '{"name": }', "{'name': 'x'}", '{"name": "x",}', 'name=x', '{} {}', '\u0000', 'undefined'],
      ...['{"__proto__": {"active": true}}', '{"configured_props": {"__proto__": 1}}'],
      ...['{"configured_props": {"constructor": {"prototype": {}}}}'],
    ]) {
      assertError(await post(body), 400, 'invalid_json');
    }
    for (const [body, key] of [
      ['{"configured_props": {"__proto__": 1}}', '__proto__'],
      ['{"configured_props": {"\\u005f_proto__": 1}}', '__proto__'],
      ['{"configured_props": {"constructor": {"prototype": {}}}}', 'constructor.prototype'],
    ] as const)
      assert.match((await post(body)).body.error, new RegExp(`^${key}: found this key in the body`));
    for (const [number, isFine] of [
      ['1e400', false],
      ['-1E+309', false],
      ['9'.repeat(310), false],
      ['1e308', true],
      ['1e-400', true],
      ['"1e400"', true],
    ] as const) {
      const answer = await post(`{"component_code":"x","configured_props":{"list":[{"n":${number}}]}}`);
      assert.equal(answer.status, 400);
      assert.equal(/^n: found a number above 1.8e308/.test(answer.body.error), !isFine, answer.body.error);
    }
    for (const body of ['[]', 'null', '1', '"text"', 'true', '[{"name":"x"}]']) {
      assertError(await post(body), 400, 'invalid_body');
    }
    assertError(await post('{"configured_props":'.repeat(100_000)), 400, 'invalid_json');
    // Valid JSON of any depth is no fault of the service either.
    const code = "export default { props: { timer: '$.interface.timer', a: 'any' }, run() {} };";
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
    const source = `{"component_code":${JSON.stringify(code)},"configured_props":{"timer":{"intervalSeconds":900},"a":${deep}}}`;
    assertError(await post(source), 400, 'invalid_json');
  });

  test('a field that the operation does not know is 400 and named', async () => {
    const { service } = fixture;
    for (const [method, path, body, parameter] of [
      ['POST', '/v1/sources', { component_code: component, compnent_id: 'x' }, 'compnent_id'],
      ['PUT', `/v1/sources/${source.id}`, { activ: false }, 'activ'],
      ['POST', '/v1/components', { code: component }, 'code'],
      ['POST', '/v1/workspaces', { name: 'x', toString: 1 }, 'toString'],
      ['POST', '/v1/users', { username: 'a', email: 'a@b', is_admin: true }, 'is_admin'],
      ['POST', '/v1/users/me/api_keys', { user_id: 'u_x' }, 'user_id'],
      ['POST', `/v1/workspaces/${workspace}/members`, { user: 'u_x' }, 'user'],
      ['POST', '/v1/accounts', { app: 'x', credentials: {}, owner_id: 'u_x' }, 'owner_id'],
    ] as const) {
      assertError(await service.api(method, path, body), 400, 'unknown_parameter', parameter);
    }
    const { body: refused } = await service.api('POST', '/v1/workflows', { stepz: [] });
    assert.equal(
      refused.error,
      'stepz: this operation has no such parameter; it has project_id, template_id, steps, triggers, settings',
    );
    const none = await service.api('POST', `/v1/runs/run_x/cancel`, { x: 1 });
    assert.equal(none.body.error, 'x: this operation has no such parameter; it has none in its body');
  });

  test('a value of the wrong type, or none where one is needed, is 400 and named', async () => {
    const { service } = fixture;
    for (const [method, path, body, code, parameter] of [
      ['POST', '/v1/sources', { component_code: 5 }, 'invalid_parameter', 'component_code'],
      ['POST', '/v1/sources', { component_code: null }, 'invalid_parameter', 'component_code'],
      ['POST', '/v1/sources', { component_code: 'x', name: '' }, 'invalid_parameter', 'name'],
      [
        'POST',
        '/v1/sources',
        { component_code: 'x', configured_props: [] },
        'invalid_parameter',
        'configured_props',
      ],
      ['PUT', `/v1/sources/${source.id}`, { active: 'false' }, 'invalid_parameter', 'active'],
      ['POST', '/v1/workspaces', {}, 'missing_parameter', 'name'],
      ['POST', '/v1/workspaces', undefined, 'missing_parameter', 'name'],
      ['POST', '/v1/workspaces', { name: 'x', orgname: 'Not A Slug' }, 'invalid_parameter', 'orgname'],
      ['POST', '/v1/workspaces', { name: 'a\u0000b' }, 'invalid_parameter', 'name'],
      ['POST', '/v1/workspaces', { name: 'x', include: 5 }, 'invalid_parameter', 'include'],
      ['POST', '/v1/workspaces', { name: 'x'.repeat(201) }, 'invalid_parameter', 'name'],
      ['POST', '/v1/users', { username: 'x' }, 'missing_parameter', 'email'],
      ['POST', '/v1/users', { username: 'x', email: 'nobody' }, 'invalid_parameter', 'email'],
      ['POST', `/v1/workspaces/${workspace}/members`, {}, 'missing_parameter', 'user_id'],
      [
        'POST',
        `/v1/workspaces/${workspace}/members`,
        { user_id: 'u_x', role: 'king' },
        'invalid_parameter',
        'role',
      ],
      ['POST', '/v1/accounts', { credentials: {} }, 'missing_parameter', 'app'],
      ['POST', '/v1/accounts', { app: 'x', credentials: 'secret' }, 'invalid_parameter', 'credentials'],
      [
        'GET',
        '/v1/accounts/apn_x?include_credentials=yes',
        undefined,
        'invalid_parameter',
        'include_credentials',
      ],
      ['GET', `/v1/sources/${source.id}/events?n=0`, undefined, 'invalid_parameter', 'n'],
      ['GET', '/v1/users/me?include=id&include=email', undefined, 'invalid_parameter', 'include'],
    ] as const) {
      assertError(await service.api(method, path, body), 400, code, parameter);
    }
  });

  test('a body larger than an operation takes is 413', async () => {
    const { service } = fixture;
    const body = JSON.stringify({ component_code: 'x'.repeat(7 * 1024 * 1024) });
    const headers = { 'content-type': 'application/json' };
    const path = '/v1/components';
    const whole = { ...headers, 'content-length': String(Buffer.byteLength(body)) };
    assertError(
      await rawAnswer(service, { method: 'POST', path, headers: whole, body }),
      413,
      'body_too_large',
    );
    const chunked = { ...headers, 'transfer-encoding': 'chunked' };
    assertError(
      await rawAnswer(service, { method: 'POST', path, headers: chunked, body }),
      413,
      'body_too_large',
    );
  });

  test('a body whose objects have more members than can be parsed in a moment is 400', async () => {
    const { service } = fixture;
    const credentials = Object.fromEntries(Array.from({ length: 300_000 }, (_, n) => [`name${n}`, '']));
    assertError(await service.api('POST', '/v1/accounts', { app: 'x', credentials }), 400, 'invalid_json');
  });

  for (const isChunked of [false, true])
    test(`large bodies of one user are read in turns, ten megabytes in a second${isChunked ? ', also those that do not say their size' : ''}`, async () => {
      const { key } = await fixture.service.createUser('wordy');
      const text = JSON.stringify({ name: 'x', unknown: 'x'.repeat(512 * 1024) });
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const send = async () => {
        const body = isChunked ? new Blob([text]).stream() : text;
        const request = { method: 'POST', headers, body, duplex: 'half' } as RequestInit;
        assert.equal((await fetch(`${fixture.service.url}/v1/workspaces`, request)).status, 400);
      };
      const startedAt = performance.now();
      await Promise.all(Array.from({ length: 16 }, send));
      // Those of unknown size are counted when they were read, so the next one waits for them.
      await send();
      assert.ok(performance.now() - startedAt > 600, 'eight megabytes');
    });

  test('large bodies of refused requests are read in turns, ten megabytes in a second, whatever is wrong with them', async () => {
    const { service } = fixture;
    const body = 'x'.repeat(512 * 1024);
    const headers = { 'content-type': 'application/json', authorization: 'Bearer unknown' };
    const startedAt = performance.now();
    const refused = await Promise.all(
      Array.from({ length: 4 }, () => [
        rawAnswer(service, { method: 'POST', path: '/v1/sources', headers, body }),
        rawAnswer(service, { method: 'POST', path: '/no/such/path', headers, body }),
        rawAnswer(service, { method: 'POST', path: `/in/${'0'.repeat(32)}`, headers, body }),
        rawAnswer(service, { method: 'PUT', path: '/%zz', headers, body }),
      ]).flat(),
    );
    assert.ok(performance.now() - startedAt > 600, 'eight megabytes');
    assert.deepEqual(
      refused.slice(0, 4).map(({ status }) => status),
      [401, 404, 404, 400],
    );
  });

  test('lists: 10 unless limit says otherwise, above 100 is 100, and nothing but whole numbers from 1', async () => {
    const { service } = fixture;
    const path = `/v1/orgs/${workspace}/sources`;
    const list = async (query: string) => (await service.api('GET', `${path}${query}`)).body;
    const first = await list('');
    assert.deepEqual(
      first.data.map(({ id }: { id: string }) => id),
      sources.slice(0, 10),
      'newest first',
    );
    const cursorOf = (id: string | undefined) => Buffer.from(id ?? '').toString('base64url');
    assert.deepEqual(first.page_info, {
      total_count: 13,
      count: 10,
      start_cursor: cursorOf(sources[0]),
      end_cursor: cursorOf(sources[9]),
    });
    for (const limit of ['100', '101', '1000', '999999999']) {
      assert.equal((await list(`?limit=${limit}`)).page_info.count, 13, limit);
    }
    assert.equal((await list('?limit=1')).data.length, 1);
    for (const bad of ['0', '-1', 'abc', '1.5', '', '1e1', '0x10', ' 5', '+5', 'null', '3&limit=4']) {
      assertError(await service.api('GET', `${path}?limit=${bad}`), 400, 'invalid_parameter', 'limit');
    }
    for (const listed of [
      '/v1/users/me/sources',
      '/v1/users/me/api_keys',
      '/v1/accounts',
      `/v1/sources/${source.id}/logs`,
    ]) {
      assertError(await service.api('GET', `${listed}?limit=0`), 400, 'invalid_parameter', 'limit');
      assert.equal((await service.api('GET', `${listed}?limit=1000`)).status, 200, listed);
    }
  });

  test('lists: after and before walk both ways; a cursor that is none of this list is 400', async () => {
    const { service } = fixture;
    const path = `/v1/orgs/${workspace}/sources`;
    const page = async (query: string) => {
      const { body } = await service.api('GET', `${path}?${query}`);
      return { info: body.page_info, ids: body.data.map(({ id }: { id: string }) => id) };
    };
    const walked: string[] = [];
    let info = (await page('limit=5')).info;
    for (let query = 'limit=5'; ; query = `limit=5&after=${info.end_cursor}`) {
      const next = await page(query);
      if (next.ids.length === 0) break;
      walked.push(...next.ids);
      info = next.info;
      assert.equal(info.total_count, 13);
    }
    assert.deepEqual(walked, sources);
    // Backwards from the last page, the page just before comes, still newest first.
    const back = await page(`limit=5&before=${info.start_cursor}`);
    assert.deepEqual(back.ids, sources.slice(5, 10));
    const farther = await page(`limit=5&before=${back.info.start_cursor}`);
    assert.deepEqual(farther.ids, sources.slice(0, 5));
    const none = await page(`before=${farther.info.start_cursor}`);
    assert.deepEqual(none, { ids: [], info: { total_count: 13, count: 0 } });

    const own = Buffer.from(source.id).toString('base64url');
    for (const parameter of ['after', 'before']) {
      for (const bad of [
        'dc_x',
        own,
        `${info.end_cursor}=`,
        '%00',
        '!!!',
        '',
        'AA',
        Buffer.from('dc_000000000000').toString('base64url'),
      ]) {
        const answer = await service.api('GET', `${path}?${parameter}=${bad}`);
        assert.equal(answer.status, 400, `${parameter}=${bad}`);
        assert.ok(['unknown_cursor', 'invalid_parameter'].includes(answer.body.code), answer.body.code);
        assert.equal(answer.body.details.parameter, parameter);
      }
    }
    const both = await service.api('GET', `${path}?after=${info.end_cursor}&before=${info.start_cursor}`);
    assertError(both, 400, 'invalid_parameter', 'before');
  });

  test('include and exclude narrow the object or each item, never the envelope, from query or body', async () => {
    const { service } = fixture;
    const keys = async (path: string) => Object.keys((await service.api('GET', path)).body.data);
    assert.deepEqual(await keys('/v1/users/me?include=id,email'), ['id', 'email']);
    assert.deepEqual(await keys('/v1/users/me?include=id, email ,nothing,data'), ['id', 'email']);
    assert.deepEqual(await keys('/v1/users/me?include=id,email&exclude=email'), ['id']);
    assert.ok(!(await keys('/v1/users/me?exclude=orgs')).includes('orgs'));
    assert.deepEqual(await keys('/v1/users/me?include='), await keys('/v1/users/me'));
    assert.deepEqual(await keys('/v1/users/me?include=__proto__,toString'), []);
    const list = (await service.api('GET', `/v1/orgs/${workspace}/sources?include=id&limit=3`)).body;
    assert.deepEqual(
      list.data,
      sources.slice(0, 3).map((id) => ({ id })),
    );
    assert.equal(list.page_info.count, 3);
    assert.ok(list.page_info.end_cursor);
    const bare = (await service.api('GET', `/v1/orgs/${workspace}/sources?exclude=id,page_info,data`)).body;
    assert.equal(bare.page_info.count, 10);
    assert.equal(bare.page_info.start_cursor, Buffer.from(sources[0] ?? '').toString('base64url'));
    assert.ok(!('id' in bare.data[0]) && 'name' in bare.data[0]);
    for (const path of [`/v1/workspaces/${workspace}`, `/v1/sources/${source.id}`]) {
      assert.deepEqual(await keys(`${path}?include=id`), ['id'], path);
    }
    const made = await service.api('POST', `/v1/workspaces/${workspace}/projects`, {
      name: 'narrow',
      include: 'id,name,hid',
      exclude: 'id',
    });
    assert.deepEqual(Object.keys(made.body.data).sort(), ['hid', 'name']);
  });

  test('an empty id, and ids of query and body that differ, are 400: nothing is made or removed for another owner', async () => {
    const { service } = fixture;
    const value = { value: 'kept' };
    assert.equal((await service.api('PUT', `/v1/variables/SCOPED?org_id=${workspace}`, value)).status, 200);
    for (const [method, path, body, parameter] of [
      ['DELETE', `/v1/variables/SCOPED?org_id=${workspace}&project_id=`, undefined, 'project_id'],
      ['PUT', '/v1/variables/SCOPED?org_id=', value, 'org_id'],
      ['PUT', '/v1/variables/SCOPED', { ...value, workspace_id: '' }, 'workspace_id'],
      ['GET', '/v1/variables?org_id=', undefined, 'org_id'],
      ['GET', '/v1/variables?org_id[]=o_other', undefined, 'org_id'],
      ['POST', '/v1/sources?org_id=', { component_code: component }, 'org_id'],
      ['POST', `/v1/data_stores?org_id=${workspace}`, { name: 'x', org_id: 'o_other' }, 'org_id'],
      [
        'PUT',
        `/v1/variables/SCOPED?org_id=${workspace}&project_id=proj_a`,
        { ...value, project_id: 'proj_b' },
        'project_id',
      ],
    ] as const)
      assertError(await service.api(method, path, body), 400, 'invalid_parameter', parameter);
    const kept = await service.api('GET', `/v1/variables/SCOPED?org_id=${workspace}`);
    assert.equal(kept.body.data.value, 'kept');
    assert.equal((await service.api('GET', '/v1/variables/SCOPED')).status, 404);
    const same = { name: 'same', org_id: workspace };
    const store = await service.api('POST', `/v1/data_stores?org_id=${workspace}`, same);
    assert.equal(store.body.data.owner_id, workspace);
  });

  test('org_id and workspace_id, in query or body, say whose it becomes; two that differ are 400', async () => {
    const { service } = fixture;
    const body = { component_code: component };
    for (const [query, extra] of [
      [`?org_id=${workspace}`, {}],
      [`?workspace_id=${workspace}`, {}],
      ['', { org_id: workspace }],
      ['', { workspace_id: workspace }],
      [`?org_id=${workspace}`, { workspace_id: workspace }],
    ] as const) {
      const account = await service.api('POST', `/v1/accounts${query}`, {
        app: 'gitlab',
        credentials: { token: 'x' },
        ...extra,
      });
      assert.equal(account.status, 200, JSON.stringify(account.body));
      const list = await service.api('GET', `/v1/workspaces/${workspace}/accounts?limit=1`);
      assert.equal(list.body.data[0].id, account.body.data.id);
      assert.equal((await service.api('DELETE', `/v1/accounts/${account.body.data.id}`)).status, 204);
    }
    const me = (await service.api('GET', '/v1/users/me')).body.data.id;
    const personal = (await service.api('GET', `/v1/sources/${source.id}`)).body.data;
    assert.deepEqual([personal.owner_id, personal.user_id], [me, me]);
    const shared = (await service.api('GET', `/v1/sources/${sources[0]}`)).body.data;
    assert.deepEqual([shared.owner_id, shared.user_id], [workspace, me]);

    const two = await service.api('POST', `/v1/sources?org_id=${workspace}`, {
      ...body,
      workspace_id: 'o_other',
    });
    assertError(two, 400, 'invalid_parameter', 'workspace_id');
    assertError(await service.api('POST', '/v1/sources?org_id=o_other', body), 404, 'not_found', undefined);
  });

  test('GET /users/me has the shape of a free user', async () => {
    const { body } = await fixture.service.api('GET', '/v1/users/me');
    const { orgs, ...user } = body.data;
    assert.match(user.id, /^u_/);
    assert.deepEqual(Object.keys(user).sort(), [
      'daily_compute_time_quota',
      'daily_compute_time_used',
      'daily_invocations_quota',
      'daily_invocations_used',
      'email',
      'id',
      'username',
    ]);
    for (const [name, value] of Object.entries(user)) {
      if (name.startsWith('daily_')) assert.ok(Number.isInteger(value), name);
    }
    assert.equal(orgs.length, 1);
    for (const name of ['id', 'orgname', 'name', 'email', 'daily_credits_quota', 'daily_credits_used']) {
      assert.ok(name in orgs[0], name);
    }
  });

  test('GET /workspaces/{id} and its projects have the fields of the specification', async () => {
    const { service } = fixture;
    const { data } = (await service.api('GET', `/v1/workspaces/${workspace}`)).body;
    assert.deepEqual(Object.keys(data).sort(), [
      'daily_credits_quota',
      'daily_credits_used',
      'email',
      'id',
      'name',
      'orgname',
    ]);
    const projects = (await service.api('GET', `/v1/workspaces/${workspace}/projects`)).body;
    assert.deepEqual(Object.keys(projects), ['data'], 'not paginated');
    const main = projects.data.at(-1);
    assert.match(main.id, /^proj_/);
    assert.deepEqual(main, {
      id: main.id,
      hid: main.hid,
      name: 'Main',
      repository_id: null,
      repository_path: null,
      created_at: new Date(main.created_at).toISOString(),
      updated_at: new Date(main.updated_at).toISOString(),
      org_id: workspace,
      exceptions: null,
      allow_support: false,
    });
  });

  test('accounts of a workspace are filtered by app, and found without a workspace id', async () => {
    const { service } = fixture;
    const made: Record<string, { id: string; app: { id: string } }> = {};
    for (const app of ['gitlab', 'github']) {
      const answer = await service.api('POST', `/v1/accounts?org_id=${workspace}`, {
        app,
        name: `my ${app}`,
        credentials: { token: 't0p-s3cret' },
      });
      made[app] = answer.body.data;
    }
    const idsOf = async (path: string) => {
      const { status, body } = await service.api('GET', path);
      assert.equal(status, 200, JSON.stringify(body));
      assert.ok(!JSON.stringify(body).includes('t0p-s3cret'));
      return body.data.map(({ id }: { id: string }) => id);
    };
    const { gitlab, github } = made;
    assert.ok(gitlab && github);
    const path = `/v1/workspaces/${workspace}/accounts`;
    assert.deepEqual(await idsOf(path), [github.id, gitlab.id]);
    assert.deepEqual(await idsOf(`${path}?query=gitlab`), [gitlab.id]);
    assert.deepEqual(await idsOf(`${path}?query=gitl`), []);
    assert.deepEqual(await idsOf('/v1/accounts?app=github'), [github.id]);
    assert.deepEqual(await idsOf(`/v1/accounts?app=${gitlab.app.id}`), [gitlab.id]);
    assert.deepEqual(await idsOf(`/v1/accounts?org_id=${workspace}`), [github.id, gitlab.id]);
    assertError(await service.api('GET', '/v1/accounts?org_id=o_other'), 404, 'not_found');
    const whole = (await service.api('GET', `/v1/accounts/${gitlab.id}?include_credentials=1`)).body.data;
    assert.equal(whole.credentials.token, 't0p-s3cret');
    assert.ok('expires_at' in whole);
    const metadata = (await service.api('GET', `/v1/accounts/${gitlab.id}?include_credentials=0`)).body.data;
    assert.ok(!('credentials' in metadata) && !('expires_at' in metadata));
    assert.equal(metadata.name, 'my gitlab');
    assert.equal(metadata.healthy, true);
    assert.match(metadata.app.id, /^app_/);
    for (const { id } of [gitlab, github]) await service.api('DELETE', `/v1/accounts/${id}`);
  });

  test('another workspace in query or body than in the path is 400 with both ids; the same one is fine', async () => {
    const { service } = fixture;
    const other = (await service.api('POST', '/v1/workspaces', { name: 'Other' })).body.data.id;
    const path = `/v1/workspaces/${workspace}`;
    for (const [method, at, body, parameter] of [
      ['GET', `${path}?org_id=${other}`, undefined, 'org_id'],
      ['GET', `${path}/workflows?workspace_id=${other}`, undefined, 'workspace_id'],
      ['GET', `/v1/orgs/${workspace}/sources?org_id=${other}`, undefined, 'org_id'],
      ['POST', `${path}/projects`, { name: 'astray', org_id: other }, 'org_id'],
      ['POST', `${path}/projects`, { name: 'astray', workspace_id: other }, 'workspace_id'],
      ['PUT', `${path}/retention`, { runs_kept: 10, workspace_id: other }, 'workspace_id'],
    ] as const) {
      const refused = await service.api(method, at, body);
      assertError(refused, 400, 'invalid_parameter', parameter);
      assert.ok(refused.body.error.includes(`found "${other}", expected "${workspace}"`), refused.body.error);
    }
    const ignored = await service.api('GET', `${path}/workflows?project_id=proj_x`);
    assertError(ignored, 400, 'unknown_parameter', 'project_id');
    assert.ok(
      ['proj_x', workspace].every((id) => ignored.body.error.includes(id)),
      ignored.body.error,
    );
    const projects = await service.api('GET', `${path}/projects?org_id=${workspace}`);
    assert.equal(projects.status, 200);
    assert.ok(!JSON.stringify(projects.body).includes('astray'));
  });

  test('every answer has a request id of its own and headers that keep it from being misused', async () => {
    const { service } = fixture;
    const seen = new Set<string>();
    const paths = [
      '/v1/users/me',
      '/v1/nothing',
      '/v1/sources/dc_x',
      '/healthz',
      '/v1/users/me?limit=',
      '/v1/sources/%zz',
    ];
    for (const path of paths) {
      const { headers } = await service.api('GET', path);
      const id = headers.get('x-request-id') ?? '';
      assert.match(id, /^[0-9a-f-]{36}$/, path);
      seen.add(id);
      assert.equal(headers.get('x-content-type-options'), 'nosniff', path);
      assert.equal(headers.get('x-frame-options'), 'DENY', path);
      assert.equal(headers.get('cache-control'), 'no-store', path);
      assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'/, path);
      assert.equal(headers.get('x-powered-by'), null);
    }
    assert.equal(seen.size, paths.length);
  });

  test('metrics are for who asks the node itself; through a proxy they need the key of the admin', async () => {
    const { service } = fixture;
    const member = await service.createUser('reader-of-metrics');
    const ask = async (headers: Record<string, string>) =>
      (await fetch(`${service.url}/metrics`, { headers })).status;
    const through = (key: string) => ({ authorization: `Bearer ${key}`, 'x-forwarded-for': '192.0.2.1' });
    assert.equal(await ask({}), 200);
    assert.equal(await ask({ 'x-forwarded-for': '192.0.2.1' }), 403);
    assert.equal(await ask({ forwarded: 'for=192.0.2.1' }), 403);
    assert.equal(await ask(through(member.key)), 403);
    assert.equal(await ask(through(service.admin.key)), 200);
  });

  test('the reference page needs no other host, and everything it asks for is there', async () => {
    const { service } = fixture;
    for (const page of ['/docs/api', '/docs/api/']) {
      const response = await fetch(service.url + page);
      assert.equal(response.status, 200);
      const html = await response.text();
      const assets = [...html.matchAll(/\b(?:src|href)="([^"]+)"/g)].map(([, link = '']) => link);
      assert.ok(assets.length >= 4, html);
      const policy = response.headers.get('content-security-policy') ?? '';
      assert.doesNotMatch(policy, /https?:|\*/);
      assert.match(policy, /connect-src 'self'/);
      for (const link of assets) {
        const url = new URL(link, new URL(page, service.url));
        assert.equal(url.origin, new URL(service.url).origin, link);
        const asset = await fetch(url);
        assert.equal(asset.status, 200, link);
        const text = await asset.text();
        assert.ok(text.length > 0, link);
        if (link.includes('initializer')) {
          const code = text.replaceAll(/^ *\/\/.*$/gm, '');
          assert.ok(!/https?:\/\//.test(code), 'an address of another host');
          assert.match(text, /"?validatorUrl"?: *null/);
        }
      }
    }
    // The initializer reads the document from here.
    assert.equal((await fetch(`${service.url}/docs/api/json`)).status, 200);
  });

  test('/openapi.json is a whole OpenAPI 3.1 document', async () => {
    const deletesWithBody = new Set(
      ['subscriptions', 'users/me', 'users/{id}', 'workspaces/{id}'].map((path) => `delete /v1/${path}`),
    );
    const { service } = fixture;
    const { status, body: document } = await service.api('GET', '/openapi.json');
    assert.equal(status, 200);
    assert.equal(document.openapi, '3.1.0');
    assert.ok(document.info.title && document.info.version);
    // No public URL was set: paths are relative to where the document came from.
    assert.equal(document.servers, undefined);
    const operationIds = new Set<string>();
    const additions: string[] = [];
    const groups = document.tags.map(({ name }: { name: string }) => name);
    for (const [path, item] of Object.entries<Record<string, Operation>>(document.paths)) {
      assert.match(path, /^\/(?!in\/)/, 'endpoints of sources are not operations');
      for (const [method, operation] of Object.entries(item)) {
        const what = `${method} ${path}`;
        assert.match(method, /^(get|put|post|delete)$/, what);
        assert.match(operation.operationId ?? '', /^[a-z][A-Za-z]+$/, what);
        assert.ok(!operationIds.has(operation.operationId ?? ''), `${what}: operationId twice`);
        operationIds.add(operation.operationId ?? '');
        assert.ok((operation.summary ?? '').length > 5, `${what}: summary`);
        assert.ok((operation.tags ?? []).length > 0, `${what}: tags`);
        for (const tag of operation.tags ?? [])
          assert.ok(groups.includes(tag), `${what}: ${tag} is no group`);
        const body = operation.requestBody;
        if (body !== undefined) {
          const { required = [] } = body.content['application/json']?.schema ?? {};
          assert.equal(body.required, required.length > 0, `${what}: a body of which nothing is required`);
        }
        const codes = Object.keys(operation.responses ?? {});
        assert.ok(
          codes.some((code) => /^2/.test(code)),
          `${what}: ${codes}`,
        );
        for (const [code, response] of Object.entries(operation.responses ?? {})) {
          assert.match(code, /^([1-5]\d\d|[1-5]XX|default)$/, what);
          assert.equal(typeof response.description, 'string', `${what} ${code}`);
          if (/^[45]/.test(code))
            assert.deepEqual(Object.keys(response.content ?? {}), ['application/json'], `${what} ${code}`);
        }
        const declared = (operation.parameters ?? []).filter((it) => it.in === 'path');
        const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
        assert.deepEqual(declared.map(({ name }) => name).sort(), inPath.sort(), what);
        for (const parameter of operation.parameters ?? []) {
          assert.ok(['path', 'query', 'header'].includes(parameter.in), what);
          assert.equal(typeof parameter.schema, 'object', what);
          if (parameter.in === 'path') assert.equal(parameter.required, true);
        }
        // The one that takes its parameters in query or body, as its creation does.
        const takesBody = method !== 'get' && (method !== 'delete' || deletesWithBody.has(what));
        if (!takesBody) assert.equal(operation.requestBody, undefined, what);
        if (operation.tags?.includes('addition')) additions.push(what);
        else assert.ok(specified.includes(what), `${what}: not in the specification, so an addition`);
      }
    }
    assert.deepEqual(
      specified.filter((what) => {
        const [method = '', path = ''] = what.split(' ');
        return document.paths[path]?.[method] === undefined;
      }),
      [],
      'what the specification names is there',
    );
    assert.ok(!additions.some((what) => specified.includes(what)), additions.join('\n'));
    assert.deepEqual(
      [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].filter(
        ([, ref = '']) => !ref.startsWith('#/'),
      ),
      [],
    );
  });
});

interface Operation {
  operationId?: string;
  summary?: string;
  tags?: string[];
  parameters?: { name: string; in: string; required?: boolean; schema?: object }[];
  requestBody?: { required?: boolean; content: Record<string, { schema: { required?: string[] } }> };
  responses?: Record<string, { description?: string; content?: Record<string, unknown> }>;
}

/** The operations of the specification that are there so far; everything else is an addition. */
const specified = [
  'get /v1/users/me',
  'get /v1/users/me/sources',
  'get /v1/workspaces/{id}',
  'get /v1/workspaces/{id}/projects',
  'get /v1/workspaces/{id}/accounts',
  'get /v1/accounts/{id}',
  'post /v1/components',
  'get /v1/components/{id}',
  'get /v1/components/registry/{key}',
  'get /v1/orgs/{id}/sources',
  'post /v1/sources',
  'put /v1/sources/{id}',
  'delete /v1/sources/{id}',
  'get /v1/sources/{id}/event_summaries',
  'post /v1/workflows',
  'get /v1/workflows/{id}',
  'put /v1/workflows/{id}',
  'get /v1/workflows/{id}/event_summaries',
  'get /v1/workflows/{id}/$errors/event_summaries',
  'delete /v1/sources/{id}/events',
  'get /sources/{id}/sse',
  'post /v1/subscriptions',
  'delete /v1/subscriptions',
  'post /v1/auto_subscriptions',
  'get /v1/users/me/subscriptions',
  'get /v1/workspaces/{id}/subscriptions',
  'post /v1/webhooks',
  'get /v1/users/me/webhooks',
  'delete /v1/webhooks/{id}',
];
