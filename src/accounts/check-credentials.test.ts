import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseApp } from './apps/parse-app.ts';
import { completeCredentials } from './check-credentials.ts';

const fields = [
  { name: 'host', label: 'Host' },
  { name: 'port', default: '5432' },
  { name: 'ca', optional: true },
];
const database = parseApp({ slug: 'db', name: 'Database', auth_type: 'keys', custom_fields: fields });

describe('credentials that are brought along', () => {
  test('get the defaults of fields that are not given', () => {
    assert.deepEqual(completeCredentials(database, { host: 'db.example', port: '', more: 1 }), {
      ...{ host: 'db.example', port: '5432', more: 1 },
    });
    assert.deepEqual(completeCredentials(database, { host: 'h', port: 1, ca: 'x' }), {
      host: 'h',
      port: 1,
      ca: 'x',
    });
  });

  test('lack no required field of an app with keys', () => {
    for (const credentials of [{}, { host: '' }, { host: null, port: '1' }]) {
      assert.throws(() => completeCredentials(database, credentials), {
        code: 'missing_parameter',
        message: 'credentials.host: required by Database (Host)',
        details: { parameter: 'credentials.host' },
      });
    }
  });

  test('have no object where the app asks for a text', () => {
    for (const host of [{ name: 'h' }, ['h']]) {
      assert.throws(() => completeCredentials(database, { host }), {
        code: 'invalid_parameter',
        message: 'credentials.host: expected a text, as Database asks for it',
        details: { parameter: 'credentials.host' },
      });
    }
  });

  test('are taken as they are for OAuth apps, with defaults, and for apps without a description', () => {
    const urls = { authorization_url: 'https://a.example/', token_url: 'https://a.example/' };
    const app = { slug: 'a', name: 'A', auth_type: 'oauth', custom_fields: fields, oauth: urls };
    assert.deepEqual(completeCredentials(parseApp(app), { token: 'x' }), { token: 'x', port: '5432' });
    assert.deepEqual(completeCredentials(undefined, { token: 'x' }), { token: 'x' });
  });
});
