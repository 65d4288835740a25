import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { type ApiAnswer, forEachSharedService, Millrace, testApiKey } from '../support/millrace.ts';
import { createTempFolder } from '../support/temp-folder.ts';

const acme = {
  slug: 'acme',
  name: 'Acme',
  description: 'An app of our own',
  categories: ['Tools'],
  auth_type: 'keys',
  custom_fields: [
    { name: 'host', label: 'Host' },
    { name: 'api_key', label: 'API key' },
    { name: 'region', label: 'Region', default: 'eu' },
  ],
  test_request: { url: 'https://{{host}}/me', headers: { authorization: 'Bearer {{api_key}}' } },
};

function assertError({ status, body }: ApiAnswer, expected: number, code: string, parameter?: string) {
  assert.equal(status, expected, JSON.stringify(body));
  assert.equal(body.code, code, JSON.stringify(body));
  assert.equal(body.details.parameter, parameter);
}

forEachSharedService((fixture) => {
  /** A user of their own, and what they ask. */
  async function person() {
    const { service } = fixture;
    const { id, key } = await service.createUser('person');
    const ask = (method: string, path: string, body?: unknown) => service.api(method, path, body, { key });
    return { id, ask };
  }

  test('the catalogue lists apps page by page, and finds them by name, slug, id and description', async () => {
    const { service } = fixture;
    const pages = async (query: string): Promise<{ name: string; name_slug: string }[]> => {
      const found = [];
      let after = '';
      do {
        const page = (await service.api('GET', `/v1/apps?${query}${after}`)).body;
        found.push(...page.data);
        after = page.page_info.end_cursor === undefined ? '' : `&after=${page.page_info.end_cursor}`;
      } while (after !== '');
      return found;
    };
    const first = (await service.api('GET', '/v1/apps?limit=100')).body;
    const names = (await pages('limit=100')).map((app) => app.name);
    assert.equal(first.page_info.total_count, names.length);
    assert.ok(names.length >= 60);
    assert.deepEqual(names, names.toSorted(new Intl.Collator('en').compare), 'by name');
    const seen = (await pages('limit=40')).map((app) => app.name);
    assert.deepEqual(seen, names);
    const third = first.data[2].id;
    const before = Buffer.from(third).toString('base64url');
    const two = (await service.api('GET', `/v1/apps?limit=5&before=${before}`)).body;
    assert.deepEqual(
      two.data.map((app: { name: string }) => app.name),
      names.slice(0, 2),
    );
    assertError(await service.api('GET', '/v1/apps?after=YXBwX3g'), 400, 'unknown_cursor', 'after');

    const slugs = async (query: string): Promise<string[]> =>
      (await pages(`limit=100&${query}`)).map((app) => app.name_slug);
    assert.equal((await slugs('q=GitHub'))[0], 'github');
    assert.equal((await slugs('q=linear'))[0], 'linear', 'the name itself comes before longer ones');
    assert.ok((await slugs('q=google')).includes('google_sheets'));
    assert.ok((await slugs('q=spreadsheets')).includes('google_sheets'), 'in the description');
    assert.deepEqual(await slugs('q=google-sheets'), ['google_sheets'], 'however it is written');
    assert.deepEqual(
      await slugs('q=google+spreadsheets'),
      ['google_sheets'],
      'words of name and description',
    );
    assert.ok((await slugs('q=developer+tools')).includes('sentry'), 'of a category');
    assert.deepEqual(await slugs('q=no-such-app'), []);
    assert.deepEqual((await slugs('has_triggers=1')).sort(), ['http', 'rss', 'schedule']);
    const withComponents = await slugs('has_components=true');
    const withActions = await slugs('has_actions=1');
    for (const slug of ['http', 'data_stores', 'filter', 'delay', 'formatting', 'json'])
      assert.ok(withComponents.includes(slug) && withActions.includes(slug), slug);
    assert.ok(withComponents.includes('schedule') && !withActions.includes('schedule'));
    assert.ok(!withComponents.includes('slack'));
    assert.equal((await slugs('has_actions=0')).length, names.length);
    assertError(
      await service.api('GET', '/v1/apps?has_actions=yes'),
      400,
      'invalid_parameter',
      'has_actions',
    );
  });

  test('an app shows what an account needs and what to register at its provider', async () => {
    const { service } = fixture;
    const { data } = (await service.api('GET', '/v1/apps/gitlab')).body;
    assert.deepEqual((await service.api('GET', `/v1/apps/${data.id}`)).body.data, data);
    assert.match(data.id, /^app_[0-9A-Za-z]{12}$/);
    assert.deepEqual([data.name_slug, data.name, data.auth_type], ['gitlab', 'GitLab', 'oauth']);
    assert.deepEqual([data.img_src, data.owner_id], [null, null]);
    const [field] = JSON.parse(data.custom_fields_json);
    assert.deepEqual([field.name, field.default, field.optional], ['base_api_url', 'gitlab.com', false]);
    const redirectUri = `${service.url}/connect/callback`;
    assert.equal(data.oauth.redirect_uri, redirectUri);
    assert.ok(data.oauth.registration.text.includes(redirectUri));
    assert.ok(!data.oauth.registration.text.includes('{{'));
    assert.equal(data.definition.oauth.token_url, 'https://gitlab.com/oauth/token');
    assertError(await service.api('GET', '/v1/apps/nothing'), 404, 'not_found', 'id');
  });

  test('a custom app is added, read, changed and removed by its owner', async () => {
    const { ask, id } = await person();
    const made = await ask('POST', '/v1/apps', acme);
    assert.equal(made.status, 200, JSON.stringify(made.body));
    assert.equal(made.body.data.owner_id, id);
    assert.deepEqual((await ask('GET', '/v1/apps/acme')).body.data, made.body.data);
    assert.equal((await ask('GET', '/v1/apps?q=acme')).body.data[0].id, made.body.data.id);
    const { definition } = made.body.data;
    const again = await ask('PUT', '/v1/apps/acme', { ...definition, name: 'Acme 2' });
    assert.equal(again.status, 200, JSON.stringify(again.body));
    assert.deepEqual((await ask('GET', '/v1/apps/acme')).body.data.name, 'Acme 2');

    assertError(await ask('POST', '/v1/apps', acme), 409, 'conflict', 'slug');
    assertError(await ask('POST', '/v1/apps', { ...acme, slug: 'github' }), 409, 'conflict', 'slug');
    assertError(await ask('PUT', '/v1/apps/acme', { ...acme, slug: 'b' }), 400, 'invalid_parameter', 'slug');
    assertError(await ask('PUT', '/v1/apps/github', acme), 403, 'forbidden');
    assertError(await ask('DELETE', '/v1/apps/github'), 403, 'forbidden');
    const bad = { ...acme, slug: 'bad', test_request: { url: 'https://{{hots}}/' } };
    assertError(await ask('POST', '/v1/apps', bad), 400, 'invalid_parameter', 'test_request.url');
    assertError(await ask('POST', '/v1/apps', { ...acme, x: 1 }), 400, 'unknown_parameter', 'x');

    assert.equal((await ask('DELETE', '/v1/apps/acme')).status, 204);
    assertError(await ask('GET', '/v1/apps/acme'), 404, 'not_found', 'id');
  });

  test('an app of a workspace is changed by its admins, seen by its members only', async () => {
    const [admin, member, stranger] = [await person(), await person(), await person()];
    const workspace: string = (await admin.ask('POST', '/v1/workspaces', { name: 'Team' })).body.data.id;
    const added = { user_id: member.id, role: 'member' };
    assert.equal((await admin.ask('POST', `/v1/workspaces/${workspace}/members`, added)).status, 200);

    assertError(await member.ask('POST', `/v1/apps?org_id=${workspace}`, acme), 403, 'forbidden');
    assertError(await stranger.ask('POST', `/v1/apps?org_id=${workspace}`, acme), 404, 'not_found', 'org_id');
    const made = await admin.ask('POST', '/v1/apps', { ...acme, org_id: workspace });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    assert.equal(made.body.data.owner_id, workspace);

    assert.equal((await member.ask('GET', '/v1/apps/acme')).status, 200);
    assertError(await member.ask('PUT', '/v1/apps/acme', acme), 403, 'forbidden');
    assertError(await member.ask('DELETE', '/v1/apps/acme'), 403, 'forbidden');
    for (const [method, path, body] of [
      ['GET', '/v1/apps/acme', undefined],
      ['PUT', '/v1/apps/acme', acme],
      ['DELETE', `/v1/apps/${made.body.data.id}`, undefined],
    ] as const) {
      assertError(await stranger.ask(method, path, body), 404, 'not_found', 'id');
    }
    assert.deepEqual((await stranger.ask('GET', '/v1/apps?q=acme')).body.data, []);
    assert.deepEqual((await member.ask('GET', '/v1/apps/acme?workspace_id=o_nothing')).status, 404);
  });

  test('an account of an app with keys needs its fields, gets the defaults, and keeps its app', async () => {
    const { ask } = await person();
    const app = (await ask('POST', '/v1/apps', acme)).body.data;
    const lacking = await ask('POST', '/v1/accounts', { app: 'acme', credentials: { api_key: 'k' } });
    assertError(lacking, 400, 'missing_parameter', 'credentials.host');
    const credentials = { host: 'acme.example', api_key: 'k' };
    const made = await ask('POST', '/v1/accounts', { app: app.id, credentials });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    assert.deepEqual(made.body.data.app, { id: app.id, name_slug: 'acme', name: 'Acme' });
    const { id } = made.body.data;
    const read = await ask('GET', `/v1/accounts/${id}?include_credentials=1`);
    assert.equal(read.status, 200, JSON.stringify(read.body));
    assert.deepEqual(read.body.data.credentials, { ...credentials, region: 'eu' });
    const changed = await ask('PUT', `/v1/accounts/${id}`, { credentials: { host: 'b.example' } });
    assertError(changed, 400, 'missing_parameter', 'credentials.api_key');

    const refused = await ask('DELETE', '/v1/apps/acme');
    assertError(refused, 409, 'conflict');
    assert.deepEqual(refused.body.details, { accounts: [id], count: 1 });
    assert.equal((await ask('DELETE', `/v1/accounts/${id}`)).status, 204);
    assert.equal((await ask('DELETE', '/v1/apps/acme')).status, 204);

    const unknown = await ask('POST', '/v1/accounts', { app: 'not_in_the_catalogue', credentials: { a: 1 } });
    assert.equal(unknown.status, 200, 'apps without a description are taken as before');
    const id12 = { app: 'app_abcdefghijkl', credentials: { a: 1 } };
    assertError(await ask('POST', '/v1/accounts', id12), 400, 'invalid_parameter', 'app');
  });

  test('the error of a misspelt app names the nearest one, custom apps too', async () => {
    const { ask } = await person();
    assert.equal((await ask('POST', '/v1/apps', acme)).status, 200);
    for (const [method, path, body, nearest, parameter] of [
      ['GET', '/v1/apps/githb', undefined, 'github', 'id'],
      ['GET', '/v1/apps/Google%20Sheets', undefined, 'google_sheets', 'id'],
      ['DELETE', '/v1/apps/acmee', undefined, 'acme', 'id'],
      ['GET', '/v1/apps/gitlba/oauth_client', undefined, 'gitlab', 'id'],
      ['POST', '/v1/accounts/connect', { app: 'opneai' }, 'openai', 'app'],
    ] as const) {
      const answer = await ask(method, path, body);
      assertError(answer, 404, 'not_found', parameter);
      assert.equal(answer.body.details.nearest, nearest);
      assert.match(answer.body.error, new RegExp(`^no app ".*"; did you mean ${nearest}\\?$`));
    }
    const far = (await ask('GET', '/v1/apps/qqqqqqqq')).body;
    assert.deepEqual([far.error, far.details], ['no app "qqqqqqqq"', { parameter: 'id' }]);
  });

  test('an app without accounts takes none', async () => {
    const { ask } = await person();
    for (const path of ['/v1/accounts', '/v1/accounts/connect']) {
      const body = { app: 'rss', ...(path === '/v1/accounts' && { credentials: {} }) };
      const answer = await ask('POST', path, body);
      assertError(answer, 400, 'invalid_parameter', 'app');
      assert.match(answer.body.error, /^app: RSS needs no account/);
    }
  });

  test('what is wrong with a request for an account is named as the caller wrote it', async () => {
    const { ask } = await person();
    const again = await ask('POST', '/v1/accounts/connect', { account_id: 'apn_000000000000' });
    assertError(again, 404, 'not_found', 'account_id');
    const flag = await ask('GET', '/v1/accounts?include_credentials=yes');
    assertError(flag, 400, 'invalid_parameter', 'include_credentials');
    assert.equal(flag.body.error, 'include_credentials: must be one of 0, 1, true, false');
  });
});

describe("the operator's folder of apps", () => {
  test('adds to the catalogue; a broken file in it is no start, and the message says where', async () => {
    const folder = await createTempFolder('operator-apps');
    try {
      const apps = join(folder.path, 'apps');
      await mkdir(apps);
      await writeFile(join(apps, 'acme.json'), JSON.stringify(acme));
      const options = { dataFolder: join(folder.path, 'data'), environment: { MILLRACE_APPS: apps } };
      const service = await Millrace.start(options);
      try {
        const found = await service.api('GET', '/v1/apps/acme', undefined, { key: testApiKey });
        assert.deepEqual([found.body.data.name, found.body.data.owner_id], ['Acme', null]);
      } finally {
        await service.stop();
      }

      const broken = { ...acme, slug: 'broken', custom_fields: [{ label: 'x' }] };
      await writeFile(join(apps, 'broken.json'), JSON.stringify(broken));
      const child = Millrace.spawn(options);
      let said = '';
      child.stderr?.on('data', (chunk: Buffer) => {
        said += chunk;
      });
      const [code] = await once(child, 'close');
      assert.equal(code, 1);
      assert.ok(said.includes(`${join(apps, 'broken.json')}: custom_fields[0].name: required`), said);
      assert.ok(!said.includes('    at '), 'a message, not a stack');
    } finally {
      await folder.remove();
    }
  });
});
