import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readSettings } from './read-settings.ts';
import { type SettingDefinition, settingDefinitions } from './settings.ts';
import { viewSettings } from './view-settings.ts';

const secret = 'a-very-secret-value-0123456789';
const view = (environment: Record<string, string>) =>
  new Map(viewSettings(readSettings(environment), environment).map((one) => [one.env, one]));

describe('settings as the admin of the instance sees them', () => {
  test('show each value and where it comes from', () => {
    const shown = view({
      MILLRACE_RUN_DEADLINE: '120',
      MILLRACE_EGRESS: 'public, 10.0.0.0/8',
      MILLRACE_HOST: '',
    });
    assert.equal(shown.size, Object.keys(settingDefinitions).length);
    const of = (env: string) => [shown.get(env)?.value, shown.get(env)?.from];
    assert.deepEqual(of('MILLRACE_RUN_DEADLINE'), ['120', 'environment']);
    assert.deepEqual(of('MILLRACE_RUN_MEMORY'), ['256', 'default']);
    const amountOf = (env: string) => shown.get(env)?.amount;
    assert.equal(amountOf('MILLRACE_RUN_DEADLINE'), '2 minutes');
    assert.equal(amountOf('MILLRACE_RUN_MEMORY'), '256 MB');
    assert.equal(amountOf('MILLRACE_UPLOAD_MAX'), '1 GB');
    assert.equal(amountOf('MILLRACE_SESSION_HOURS'), '7 days');
    assert.equal(amountOf('MILLRACE_QUOTA_COMPUTE_MS'), '1,000 hours a day');
    assert.equal(amountOf('MILLRACE_QUOTA_INVOCATIONS'), '10,000,000 a day');
    assert.equal(amountOf('MILLRACE_PORT'), null);
    assert.equal(
      view({ MILLRACE_ACCOUNT_CHECK_HOURS: '0' }).get('MILLRACE_ACCOUNT_CHECK_HOURS')?.amount,
      null,
    );
    assert.deepEqual(of('MILLRACE_EGRESS'), ['public,10.0.0.0/8', 'environment']);
    assert.deepEqual(of('MILLRACE_HOST'), ['127.0.0.1', 'default']);
    assert.deepEqual(of('MILLRACE_API_KEY'), ['', 'default']);
  });

  test('never hold a secret: keys only whether they are set, of URLs no more than where they lead', () => {
    const shown = view({
      MILLRACE_API_KEY: secret,
      MILLRACE_ENCRYPTION_KEY: secret,
      MILLRACE_NEW_ENCRYPTION_KEY: secret,
      MILLRACE_S3_ACCESS_KEY: secret,
      MILLRACE_S3_SECRET_KEY: secret,
      MILLRACE_DATABASE_URL: `postgres://user:${secret}@db.example:5433/millrace?password=${secret}&sslmode=require`,
      MILLRACE_SMTP_URL: `smtps://${secret}:${secret}@mail.example:465`,
      MILLRACE_EMAIL_FROM: 'millrace@example.com',
      MILLRACE_NPM_REGISTRY: `https://x:${secret}@npm.example/all/#${secret}`,
      MILLRACE_S3_ENDPOINT: 'https://s3.example',
      MILLRACE_EGRESS_PROXY: `http://${secret}:${secret}@proxy.example:3128`,
      HOME: secret,
      OTHER_TOKEN: secret,
    });
    assert.ok(!JSON.stringify([...shown.values()]).includes(secret));
    assert.deepEqual(shown.get('MILLRACE_API_KEY')?.value, null);
    assert.equal(shown.get('MILLRACE_DATABASE_URL')?.value, 'postgres://db.example:5433/millrace');
    assert.equal(shown.get('MILLRACE_SMTP_URL')?.value, 'smtps://mail.example:465');
    assert.equal(shown.get('MILLRACE_NPM_REGISTRY')?.value, 'https://npm.example/all/');
    assert.equal(shown.get('MILLRACE_EGRESS_PROXY')?.value, 'http://proxy.example:3128/');
    const several = `postgres://user:${secret}@db1:5432,db2:5433/millrace?password=${secret}`;
    assert.equal(
      view({ MILLRACE_DATABASE_URL: several }).get('MILLRACE_DATABASE_URL')?.value,
      'postgres://db1:5432,db2:5433/millrace',
    );
    // A socket in place of a host, with who knows what in its path.
    assert.equal(
      view({ MILLRACE_DATABASE_URL: `postgres:///${secret}` }).get('MILLRACE_DATABASE_URL')?.value,
      null,
    );
  });

  test('whose name speaks of a key, a password or a URL are not shown whole, but for files that hold them', () => {
    const files = ['MILLRACE_SMTP_TLS_KEY'];
    for (const definition of Object.values(settingDefinitions) as SettingDefinition[]) {
      if (!/KEY|SECRET|TOKEN|PASSWORD|URL|REGISTRY|ENDPOINT$/.test(definition.env)) continue;
      if (files.includes(definition.env) || !('shown' in definition)) continue;
      assert.notEqual(definition.shown, 'whole', definition.env);
    }
  });
});
