import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { describeApp } from './describe-app.ts';
import { parseApp } from './parse-app.ts';

const keys = {
  slug: 'acme',
  name: 'Acme',
  auth_type: 'keys',
  custom_fields: [
    { name: 'host' },
    { name: 'api_key' },
    { name: 'region', default: 'eu' },
    { name: 'team', optional: true },
  ],
};
const oauth = {
  slug: 'acme',
  name: 'Acme',
  auth_type: 'oauth',
  custom_fields: [{ name: 'shop' }],
  oauth: { authorization_url: 'https://acme.example/authorize', token_url: 'https://acme.example/token' },
};
const test_request = { url: 'https://{{host}}/me', headers: { authorization: 'Bearer {{api_key}}' } };

function assertProblem(json: unknown, code: string, place: string) {
  assert.throws(
    () => parseApp(json),
    (error: unknown) => {
      assert.ok(error instanceof CallerError, String(error));
      assert.deepEqual([error.code, error.details.parameter], [code, place], error.message);
      assert.ok(error.message.startsWith(`${place}: `), error.message);
      return true;
    },
    place,
  );
}

describe('an app as a file or the API gives it', () => {
  test('gets sensible defaults', () => {
    const { oauth: settings, customFields } = parseApp(oauth);
    assert.deepEqual(
      { ...settings, registration: undefined },
      {
        ...{ version: 2, grant: 'authorization_code', authorizationUrl: 'https://acme.example/authorize' },
        ...{ tokenUrl: 'https://acme.example/token', refreshUrl: undefined, revocationUrl: undefined },
        ...{ scopes: [], scopeSeparator: ' ', pkce: true, clientAuth: 'post', authorizationParameters: {} },
        ...{ tokenParameters: {}, tokenBody: 'form', expiresInSeconds: undefined, uid: undefined },
        ...{ responseFields: {}, accessTokenPath: 'access_token', registration: undefined },
      },
    );
    assert.match(settings?.registration.text ?? '', /\{\{redirect_uri\}\}/);
    const shop = { name: 'shop', label: 'shop', description: '', default: undefined, optional: false };
    assert.deepEqual(customFields, [{ ...shop, secret: false }]);
    assert.equal(parseApp(keys).customFields[1]?.secret, true, 'a field that sounds like a secret is one');
  });

  test('reads back what it is described as', () => {
    for (const json of [{ ...keys, test_request }, oauth]) {
      const app = parseApp(json);
      assert.deepEqual(parseApp(JSON.parse(JSON.stringify(describeApp(app)))), app);
    }
  });

  test('takes plain http on the same machine only', () => {
    for (const host of ['127.0.0.1:8080', 'localhost:1', '[::1]:9']) {
      const settings = { ...oauth.oauth, token_url: `http://${host}/token` };
      assert.ok(parseApp({ ...oauth, oauth: settings }));
    }
    for (const host of ['acme.example', '127.0.0.1.evil.example', 'localhost.evil.example', '10.0.0.1']) {
      const settings = { ...oauth.oauth, token_url: `http://${host}/token` };
      assertProblem({ ...oauth, oauth: settings }, 'invalid_parameter', 'oauth.token_url');
    }
  });

  test('says where something is wrong', () => {
    const withOAuth = (change: object) => ({ ...oauth, oauth: { ...oauth.oauth, ...change } });
    const withTest = (change: object) => ({ ...keys, test_request: { ...test_request, ...change } });
    const cases: [unknown, string, string][] = [
      [[], 'invalid_parameter', 'body'],
      [{ ...keys, slug: undefined }, 'missing_parameter', 'slug'],
      [{ ...keys, slug: 'Acme!' }, 'invalid_parameter', 'slug'],
      [{ ...keys, slug: '../x' }, 'invalid_parameter', 'slug'],
      [{ ...keys, name: '' }, 'missing_parameter', 'name'],
      [{ ...keys, auth_type: 'basic' }, 'invalid_parameter', 'auth_type'],
      [{ ...keys, icon: 'x' }, 'unknown_parameter', 'icon'],
      [{ ...keys, custom_fields: [{ label: 'x' }] }, 'missing_parameter', 'custom_fields[0].name'],
      [{ ...keys, custom_fields: [{ name: 'a b' }] }, 'invalid_parameter', 'custom_fields[0].name'],
      [
        { ...keys, custom_fields: [{ name: 'a' }, { name: 'a' }] },
        'invalid_parameter',
        'custom_fields[1].name',
      ],
      [{ ...keys, custom_fields: [{ name: '__proto__' }] }, 'invalid_parameter', 'custom_fields[0].name'],
      [{ ...keys, custom_fields: [{ name: 'oauth_uid' }] }, 'invalid_parameter', 'custom_fields[0].name'],
      [
        { ...keys, custom_fields: [{ name: 'a', secret: 'yes' }] },
        'invalid_parameter',
        'custom_fields[0].secret',
      ],
      [{ ...keys, custom_fields: [{ name: 'a', kind: 1 }] }, 'unknown_parameter', 'custom_fields[0].kind'],
      [{ ...keys, oauth: oauth.oauth }, 'invalid_parameter', 'oauth'],
      [{ ...keys, auth_type: 'none' }, 'invalid_parameter', 'custom_fields'],
      [{ ...oauth, oauth: undefined }, 'missing_parameter', 'oauth'],
      [withOAuth({ token_url: undefined }), 'missing_parameter', 'oauth.token_url'],
      [withOAuth({ token_url: 'acme' }), 'invalid_parameter', 'oauth.token_url'],
      [withOAuth({ token_url: 'ftp://acme.example/' }), 'invalid_parameter', 'oauth.token_url'],
      [withOAuth({ token_url: 'https://u@acme.example/' }), 'invalid_parameter', 'oauth.token_url'],
      [withOAuth({ token_url: 'https://acme.example/#x' }), 'invalid_parameter', 'oauth.token_url'],
      [withOAuth({ token_url: 'https://acme.example/{{x}}' }), 'invalid_parameter', 'oauth.token_url'],
      [withOAuth({ tokenUrl: 'x' }), 'unknown_parameter', 'oauth.tokenUrl'],
      [withOAuth({ version: 3 }), 'invalid_parameter', 'oauth.version'],
      [withOAuth({ grant: 'client_credentials' }), 'invalid_parameter', 'oauth.authorization_url'],
      [withOAuth({ scopes: ['a', 1] }), 'invalid_parameter', 'oauth.scopes[1]'],
      [
        withOAuth({ authorization_parameters: { state: 'x' } }),
        'invalid_parameter',
        'oauth.authorization_parameters.state',
      ],
      [
        withOAuth({ token_parameters: { client_id: 'x' } }),
        'invalid_parameter',
        'oauth.token_parameters.client_id',
      ],
      [
        withOAuth({ response_fields: { oauth_uid: 'x' } }),
        'invalid_parameter',
        'oauth.response_fields.oauth_uid',
      ],
      [withOAuth({ uid: { from: 'request', path: 'id' } }), 'missing_parameter', 'oauth.uid.url'],
      [withOAuth({ registration: { text: '{{secret}}' } }), 'invalid_parameter', 'oauth.registration.text'],
      [withOAuth({ registration: { url: 'javascript:1' } }), 'invalid_parameter', 'oauth.registration.url'],
      [withTest({ url: 'https://{{hots}}/me' }), 'invalid_parameter', 'test_request.url'],
      [withTest({ url: 'https://{{team}}.example/me' }), 'invalid_parameter', 'test_request.url'],
      [withTest({ url: 'https://a.example/{{ host }}' }), 'invalid_parameter', 'test_request.url'],
      [withTest({ headers: { host: 'x' } }), 'invalid_parameter', 'test_request.headers.host'],
      [withTest({ headers: { a: '{{oauth_access_token}}' } }), 'invalid_parameter', 'test_request.headers.a'],
      [withTest({ headers: { a: 'b\r\nc: d' } }), 'invalid_parameter', 'test_request.headers.a'],
      [withTest({ body: 'x' }), 'invalid_parameter', 'test_request.body'],
      [withTest({ statuses: [99] }), 'invalid_parameter', 'test_request.statuses[0]'],
      [withTest({ expect: { path: 'ok' } }), 'missing_parameter', 'test_request.expect.equals'],
      [{ ...keys, test_request: { kind: 'tcp', host: 'x' } }, 'missing_parameter', 'test_request.port'],
    ];
    for (const [json, code, place] of cases) assertProblem(json, code, place);
  });

  test('lets no field of an account decide where the client secret is sent', () => {
    for (const host of [
      '{{shop}}',
      'api.{{shop}}',
      '{{shop}}.com',
      '{{shop}}:443',
      'a.{{shop}}.example.com{{shop}}',
    ]) {
      for (const key of ['authorization_url', 'token_url', 'refresh_url', 'revocation_url']) {
        const settings = { ...oauth.oauth, [key]: `https://${host}/x` };
        assertProblem({ ...oauth, oauth: settings }, 'invalid_parameter', `oauth.${key}`);
      }
    }
    const settings = { ...oauth.oauth, token_url: '{{shop}}/token' };
    assertProblem({ ...oauth, oauth: settings }, 'invalid_parameter', 'oauth.token_url');
    const sub = { ...oauth.oauth, token_url: 'https://{{shop}}.acme.example/token' };
    assert.ok(parseApp({ ...oauth, oauth: sub }));
  });
});
