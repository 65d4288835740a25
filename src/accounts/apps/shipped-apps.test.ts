import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { readAppFiles } from './app-files.ts';
import { appIdOf } from './app-id.ts';
import { describeApp } from './describe-app.ts';
import { fillTemplate } from './fill-template.ts';
import { parseApp } from './parse-app.ts';
import { templateFields } from './url-template.ts';

const folder = join(import.meta.dirname, '..', '..', '..', 'apps');

/** What components of the well-known packages read from `$auth`; the rest of an account is optional. */
const readByComponents: Record<string, string[]> = {
  apify: ['api_token'],
  aws: ['accessKeyId', 'secretAccessKey'],
  discord: ['guild_id'],
  gitlab: ['base_api_url'],
  launchdarkly: ['access_token'],
  linear_app: ['api_key'],
  monday: ['api_key'],
  mysql: [
    ...['host', 'port', 'username', 'password', 'database', 'ca', 'key', 'cert', 'ssl_verification_mode'],
  ],
  postgresql: [
    ...['host', 'port', 'user', 'password', 'database', 'ca', 'key', 'cert', 'ssl_verification_mode'],
    'pd_schema_explorer_retrieve_all',
  ],
  quickbooks: ['company_id'],
  sftp: ['host', 'username', 'privateKey'],
  shopify: ['shop_id'],
};

describe('the apps that come with the service', async () => {
  const apps = await readAppFiles(folder);

  test('are all there, each in a file of its slug, and no other file', async () => {
    const files = await readdir(folder);
    assert.deepEqual(files.sort(), apps.map((app) => `${app.slug}.json`).sort());
    assert.ok(apps.length >= 60, `${apps.length} apps`);
    assert.equal(new Set(apps.map((app) => appIdOf(app.slug))).size, apps.length, 'every id is another');
  });

  for (const app of apps) {
    test(`${app.slug}: is described for users, and reads back the same`, () => {
      assert.ok(app.description !== '' && app.categories.length > 0);
      assert.deepEqual(parseApp(JSON.parse(JSON.stringify(describeApp(app)))), app);
      for (const field of app.customFields) assert.notEqual(field.label, field.name);
    });
  }

  test('say how to register an OAuth client, with the redirect URI', () => {
    for (const { slug, oauth } of apps) {
      if (oauth === undefined) continue;
      assert.match(oauth.registration.url, /^https:\/\//, slug);
      assert.deepEqual(templateFields(oauth.registration.text), ['redirect_uri'], slug);
    }
  });

  test('send credentials over TLS only, to hosts of the provider or of the account', () => {
    for (const { slug, oauth, test: request, customFields } of apps) {
      const urls = [
        ...(oauth === undefined ? [] : Object.entries(oauth).filter(([key]) => key.endsWith('Url'))),
        ...(request?.kind === 'http' ? [['test', request.url]] : []),
      ].map(([, url]) => String(url));
      for (const url of urls.filter((text) => text !== 'undefined')) {
        const names = [...customFields.map((field) => field.name), ...templateFields(url)];
        const values = Object.fromEntries(names.map((name) => [name, 'a1b2']));
        assert.equal(new URL(fillTemplate(url, values, 'url')).protocol, 'https:', `${slug} ${url}`);
      }
    }
  });

  test('have the fields that existing components read', () => {
    for (const [slug, names] of Object.entries(readByComponents)) {
      const app = apps.find((found) => found.slug === slug);
      const fromProvider = app?.oauth?.version === 2 ? Object.keys(app.oauth.responseFields) : [];
      const known = [...(app?.customFields.map((field) => field.name) ?? []), ...fromProvider];
      assert.deepEqual(
        names.filter((name) => !known.includes(name)),
        [],
        slug,
      );
    }
  });
});
