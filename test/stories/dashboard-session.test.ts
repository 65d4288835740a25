import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const csrf = { 'x-millrace-csrf': '1' };

/** A request as a browser, or an attacker who imitates one, sends it. */
async function ask(
  service: ServiceClient,
  method: string,
  path: string,
  options: { headers?: Record<string, string | undefined>; body?: unknown } = {},
): Promise<{ status: number; headers: Headers; text: string; code: unknown }> {
  const given = Object.entries(options.headers ?? {}).filter(([, value]) => value !== undefined);
  const response = await fetch(service.url + path, {
    method,
    headers: {
      ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(Object.fromEntries(given) as Record<string, string>),
    },
    ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
  });
  const text = await response.text();
  const code = text.startsWith('{') ? (JSON.parse(text) as { code?: unknown }).code : undefined;
  return { status: response.status, headers: response.headers, text, code };
}

forEachSharedService((fixture) => {
  async function signIn(apiKey = fixture.service.key) {
    const { service } = fixture;
    const answer = await ask(service, 'POST', '/v1/session', {
      headers: { ...csrf, origin: service.url },
      body: { api_key: apiKey },
    });
    const setCookie = answer.headers.get('set-cookie') ?? '';
    return { ...answer, setCookie, cookie: setCookie.split(';', 1)[0] ?? '' };
  }

  test('signing in answers with a cookie that scripts cannot read and that goes to the API alone', async () => {
    const { status, setCookie, text } = await signIn();
    assert.equal(status, 200, text);
    assert.match(
      setCookie,
      /^millrace_session=mse_[0-9A-Za-z]{32}; Path=\/v1; Max-Age=604800; HttpOnly; SameSite=Strict$/,
    );
    assert.ok(!text.includes('mse_') && !text.includes(fixture.service.key));
  });

  test('with the cookie and the header the whole API answers, and without the header none of it', async () => {
    const { service } = fixture;
    const { cookie } = await signIn();
    const asked = (path: string, headers: Record<string, string> = {}) =>
      ask(service, 'GET', path, { headers: { cookie, ...headers } });
    assert.equal((await asked('/v1/users/me', csrf)).status, 200);
    assert.equal((await asked('/v1/users/me')).status, 401);
    // Streams have an address outside of /v1, where the cookie does not count.
    const source = await service.createSource({ key: 'http-new-requests-payload-only' });
    assert.equal((await asked(`/sources/${source.id}/sse`, csrf)).status, 401);
    const created = await ask(service, 'POST', '/v1/users/me/api_keys', {
      headers: { cookie, ...csrf, origin: service.url },
      body: { name: 'made by a page' },
    });
    assert.equal(created.status, 200, created.text);
  });

  test('a page of another origin is refused, whatever it sends', async () => {
    const { service } = fixture;
    const { cookie } = await signIn();
    const change = (headers: Record<string, string | undefined>) =>
      ask(service, 'POST', '/v1/users/me/api_keys', { headers: { cookie, ...csrf, ...headers }, body: {} });
    for (const origin of [
      'https://evil.example',
      'null',
      'http://127.0.0.1:1',
      `${service.url}.evil.example`,
    ]) {
      const answer = await change({ origin });
      assert.deepEqual([answer.status, answer.code], [403, 'foreign_origin'], origin);
    }
    // No browser leaves both out.
    assert.equal((await change({})).code, 'foreign_origin');
    assert.equal((await change({ 'sec-fetch-site': 'cross-site' })).code, 'foreign_origin');
    assert.equal((await change({ 'sec-fetch-site': 'same-site' })).code, 'foreign_origin');
    assert.equal((await change({ 'sec-fetch-site': 'same-origin' })).status, 200);
    const read = await ask(service, 'GET', '/v1/users/me', {
      headers: { cookie, ...csrf, 'sec-fetch-site': 'cross-site' },
    });
    assert.equal(read.code, 'foreign_origin');
    // It cannot sign a user in as another user either.
    const login = await ask(service, 'POST', '/v1/session', {
      headers: { ...csrf, origin: 'https://evil.example' },
      body: { api_key: service.key },
    });
    assert.deepEqual([login.code, login.headers.get('set-cookie')], ['foreign_origin', null]);
    const plain = await ask(service, 'POST', '/v1/session', {
      headers: { origin: service.url },
      body: { api_key: service.key },
    });
    assert.deepEqual([plain.code, plain.headers.get('set-cookie')], ['missing_parameter', null]);
    // No answer of the API lets another origin read it, or ask with the header.
    const preflight = await ask(service, 'OPTIONS', '/v1/users/me', {
      headers: { origin: 'https://evil.example', 'access-control-request-headers': 'x-millrace-csrf' },
    });
    assert.equal(preflight.headers.get('access-control-allow-origin'), null);
  });

  test('a wrong key, a wrong cookie and a wrong key beside a good cookie are 401', async () => {
    const { service } = fixture;
    const wrong = await signIn('no-such-key-0123456789');
    assert.deepEqual([wrong.status, wrong.code, wrong.setCookie], [401, 'unauthorized', '']);
    const { cookie } = await signIn();
    for (const headers of [
      { cookie: `millrace_session=mse_${'x'.repeat(32)}` },
      { cookie: `millrace_session=${service.key}` },
      { cookie, authorization: 'Bearer no-such-key-0123456789' },
    ]) {
      assert.equal(
        (await ask(service, 'GET', '/v1/users/me', { headers: { ...csrf, ...headers } })).status,
        401,
      );
    }
  });

  test('signing out ends the session', async () => {
    const { service } = fixture;
    const { cookie } = await signIn();
    const headers = { cookie, ...csrf, origin: service.url };
    const out = await ask(service, 'DELETE', '/v1/session', { headers });
    assert.equal(out.status, 204);
    assert.match(out.headers.get('set-cookie') ?? '', /^millrace_session=; Path=\/v1; Max-Age=0/);
    assert.equal((await ask(service, 'GET', '/v1/users/me', { headers })).status, 401);
    const byKey = await service.api('DELETE', '/v1/session');
    assert.deepEqual([byKey.status, byKey.body.code], [409, 'conflict']);
  });

  test('revoking the API key ends the sessions that began with it, and no others', async () => {
    const { service } = fixture;
    const { body } = await service.api('POST', '/v1/users/me/api_keys', { name: 'for a while' });
    const mine = await signIn(body.data.api_key);
    const other = await signIn();
    const status = async (cookie: string) =>
      (await ask(service, 'GET', '/v1/users/me', { headers: { cookie, ...csrf } })).status;
    assert.deepEqual([await status(mine.cookie), await status(other.cookie)], [200, 200]);
    await service.api('DELETE', `/v1/users/me/api_keys/${body.data.id}`);
    assert.deepEqual([await status(mine.cookie), await status(other.cookie)], [401, 200]);
  });

  test('user code that answers at an endpoint neither gets the cookie nor can set it', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: `export default {
        name: 'thief', version: '0.0.1', type: 'source',
        props: { http: { type: '$.interface.http', customResponse: true } },
        run(event) { this.http.respond({ status: 200, headers: { 'set-cookie': 'millrace_session=mse_mine; Path=/v1' }, body: 'ok' }); },
      }`,
    });
    const path = new URL(source.configured_props.http.endpoint_url).pathname;
    const answer = await ask(service, 'GET', path);
    assert.deepEqual([answer.status, answer.headers.get('set-cookie')], [200, null]);
    const { setCookie } = await signIn();
    assert.ok(!path.startsWith('/v1') && setCookie.includes('Path=/v1'));
  });

  test('pages are for browsers: an unknown path is a page that leads Home for them, and JSON for API clients', async () => {
    const { service } = fixture;
    const html = { accept: 'text/html' };
    const page = await waitFor(
      async () => {
        const answer = await ask(service, 'GET', '/sources/dc_anything', { headers: html });
        return answer.text.includes('id="root"') ? answer : undefined;
      },
      { what: 'the dashboard to be built' },
    );
    const policy = page.headers.get('content-security-policy') ?? '';
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self';/);
    assert.ok(!policy.includes('unsafe'), policy);
    assert.equal(page.headers.get('x-frame-options'), 'DENY');
    assert.equal(page.headers.get('cache-control'), 'no-cache');
    const asset = /src="(\/assets\/[^"]+\.js)"/.exec(page.text)?.[1] ?? '';
    for (const encoding of ['br', 'gzip']) {
      const script = await fetch(service.url + asset, { headers: { 'accept-encoding': encoding } });
      assert.equal(script.headers.get('content-encoding'), encoding);
      assert.equal(script.headers.get('cache-control'), 'public, max-age=31536000, immutable');
      assert.match(await script.text(), /react/i);
    }
    const etag = page.headers.get('etag') ?? '';
    const again = await ask(service, 'GET', '/', { headers: { ...html, 'if-none-match': etag } });
    assert.equal(again.status, 304);
    const expected: [string, string, Record<string, string>, number, string][] = [
      ['GET', '/sources/dc_anything', { accept: 'application/json' }, 404, 'unknown_path'],
      ['GET', '/no-such-page', { accept: 'application/json, */*' }, 404, 'unknown_path'],
      ['GET', '/v1/no-such-operation', {}, 404, 'unknown_path'],
      ['GET', '/in/no-such-endpoint', {}, 404, 'unknown_endpoint'],
      ['POST', '/in/no-such-endpoint', html, 404, 'unknown_endpoint'],
      ['GET', '/v1/users/me', html, 401, 'unauthorized'],
      ['POST', '/sources', html, 404, 'unknown_path'],
      ['GET', '/assets/..%2f..%2fpackage.json', {}, 404, 'unknown_path'],
      ['GET', '/assets/no-such-file.js', {}, 404, 'unknown_path'],
    ];
    const missing: [string, RegExp][] = [
      ['/no-such-page?token=secret', /<code>\/no-such-page<\/code>/],
      ['/v1/no-such-operation', /<code>\/v1\/no-such-operation<\/code>/],
      ['/assets/no-such-file.js', /Page not found/],
      [`/runs-of/${'x'.repeat(2000)}`, /x…<\/code>/],
      ["/a'%22%3Cscript%3E<script>alert(1)</script>", /<code>\/a&#39;%22%3Cscript%3E/],
      ['/in/no-such-endpoint', /Endpoint not found/],
      ['/in/resume/cut', /Link not found/],
    ];
    for (const [path, pattern] of missing) {
      const answer = await ask(service, 'GET', path, { headers: html });
      assert.equal(answer.status, 404, path);
      assert.match(answer.headers.get('content-type') ?? '', /^text\/html/, path);
      assert.match(answer.text, pattern);
      assert.match(answer.text, /<title>.+ · Millrace<\/title>/);
      assert.equal(answer.text.includes('href="/"'), !path.startsWith('/in/'), path);
      assert.doesNotMatch(answer.text, /<script|secret/);
      const rule = answer.headers.get('content-security-policy') ?? '';
      assert.match(rule, /default-src 'none'; style-src 'sha256-/);
    }
    for (const [method, path, headers, status, code] of expected) {
      const answer = await ask(service, method, path, { headers });
      assert.deepEqual([answer.status, answer.code], [status, code], `${method} ${path}: ${answer.text}`);
    }
  });

  test('the overview shows rates, failures, what waits, and what needs attention, each to its owner', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      name: 'fails at times',
      component_code: `export default {
        name: 'picky', version: '0.0.1', type: 'source', props: { http: '$.interface.http' },
        run({ body }) { if (body.bad) throw new Error('bad'); this.$emit(body); },
      }`,
    });
    const send = (body: object) =>
      fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }).then((response) => response.arrayBuffer());
    await send({ n: 1 });
    await send({ n: 2 });
    await send({ bad: true });
    const { data } = await waitFor(
      async () => {
        const { body } = await service.api('GET', '/v1/users/me/overview');
        return body.data.failing.length > 0 ? body : undefined;
      },
      { what: 'the failure to be counted' },
    );
    const sum = (of: 'events' | 'errors') =>
      data.rates.minutes.reduce(
        (total: number, minute: Record<string, number>) => total + (minute[of] ?? 0),
        0,
      );
    assert.equal(data.rates.minutes.length, 60);
    assert.deepEqual([sum('events'), sum('errors')], [2, 1]);
    const [failing] = data.failing;
    assert.deepEqual([failing.id, failing.name, failing.errors], [source.id, 'fails at times', 1]);
    const { body: me } = await service.api('GET', '/v1/users/me');
    const workspace = await service.api('GET', `/v1/workspaces/${me.data.orgs[0].id}/overview`);
    assert.deepEqual([workspace.status, workspace.body.data.failing], [200, []]);
    assert.equal((await service.api('GET', '/v1/workspaces/o_others/overview')).status, 404);
  });

  test('sources are found by what is in their name, slug or id, whatever its case', async () => {
    const { service } = fixture;
    for (const name of ['Orders of Berlin', '100% sure', 'under_score']) {
      await service.createSource({ name, key: 'http-new-requests-payload-only' });
    }
    const found = async (q: string) => {
      const { body } = await service.api('GET', `/v1/users/me/sources?q=${encodeURIComponent(q)}&limit=100`);
      return body.data.map(({ name }: { name: string }) => name);
    };
    assert.deepEqual(await found('berlin'), ['Orders of Berlin']);
    assert.deepEqual(await found('0% s'), ['100% sure']);
    assert.deepEqual(await found('r_s'), ['under_score']);
    assert.deepEqual(await found('no such name'), []);
  });
});
