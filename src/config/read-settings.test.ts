import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readSettings, SettingsError } from './read-settings.ts';

function problemsOf(environment: Record<string, string>): string {
  try {
    readSettings(environment);
    return '';
  } catch (error) {
    assert.ok(error instanceof SettingsError);
    return error.message;
  }
}

describe('MILLRACE_API_KEY', () => {
  test('is refused when no request could ever carry it, without being shown', () => {
    const long = 'k'.repeat(19);
    for (const key of [
      long,
      `${long} x`,
      ` ${long}xx`,
      `${long}\tx`,
      `${long}üx`,
      `${long}\nx`,
      'k'.repeat(1025),
    ]) {
      const problems = problemsOf({ MILLRACE_API_KEY: key });
      assert.match(problems, /MILLRACE_API_KEY: expected 20 to 1,024 printable ASCII characters/);
      assert.ok(!problems.includes(long));
    }
    for (const key of [`${long}x`, 'k'.repeat(1024), '!"#$%&()*+,-./:;<=>?@~'])
      assert.equal(readSettings({ MILLRACE_API_KEY: key }).apiKey, key);
  });
});

describe('MILLRACE_CONNECT_TO', () => {
  test("takes a list in the form of curl's --connect-to, and reports each invalid entry", () => {
    const list = 'api.example:443:gateway.example:8443, [2001:db8::1]:443:[::1]:8443,::rest.example:';
    assert.deepEqual(readSettings({ MILLRACE_CONNECT_TO: list }).connectTo, list.split(/, ?/));
    assert.deepEqual(readSettings({}).connectTo, []);
    const problems = problemsOf({ MILLRACE_CONNECT_TO: 'api.example=127.0.0.1,a:1:b:2,c:443:d:0' });
    assert.match(problems, /MILLRACE_CONNECT_TO: expected HOST1:PORT1:HOST2:PORT2.* found "api\.example=127/);
    assert.match(problems, /MILLRACE_CONNECT_TO: 0 is no port from 1 to 65535.* found "c:443:d:0"/);
    assert.doesNotMatch(problems, /a:1:b:2/);
  });
});

describe('MILLRACE_TRUSTED_PROXIES', () => {
  test('takes addresses and CIDRs, and nothing else', () => {
    const list = '127.0.0.1, 10.0.0.0/8,::1,fd00::/8';
    assert.deepEqual(readSettings({ MILLRACE_TRUSTED_PROXIES: list }).trustedProxies, [
      '127.0.0.1',
      '10.0.0.0/8',
      '::1',
      'fd00::/8',
    ]);
    assert.deepEqual(readSettings({}).trustedProxies, []);
    for (const proxy of ['proxy.example', 'true', '*', '10.0.0.0/33', '10.0.0.0/', '::/129', '10.0.0.0/8/8'])
      assert.match(
        problemsOf({ MILLRACE_TRUSTED_PROXIES: proxy }),
        /MILLRACE_TRUSTED_PROXIES: expected/,
        proxy,
      );
  });

  test('does not believe everybody, and says what to write instead', () => {
    for (const proxy of ['0.0.0.0/0', '::/0', '10.0.0.0/00'])
      assert.match(
        problemsOf({ MILLRACE_TRUSTED_PROXIES: `10.0.0.0/8,${proxy}` }),
        /MILLRACE_TRUSTED_PROXIES: "[^"]+\/0+" would let every caller .* write the address or network of your proxy/,
        proxy,
      );
  });
});

describe('mail server and object storage', () => {
  test('need both of their halves, and a URL of the right kind', () => {
    const mail = {
      MILLRACE_SMTP_URL: 'smtps://me:secret@mail.example',
      MILLRACE_EMAIL_FROM: 'a@example.com',
    };
    const keys = { MILLRACE_S3_ACCESS_KEY: 'AK', MILLRACE_S3_SECRET_KEY: 'SK' };
    assert.equal(readSettings({ ...mail, ...keys }).smtpUrl, mail.MILLRACE_SMTP_URL);
    for (const [given, missing] of [
      ['MILLRACE_SMTP_URL', 'MILLRACE_EMAIL_FROM'],
      ['MILLRACE_EMAIL_FROM', 'MILLRACE_SMTP_URL'],
      ['MILLRACE_S3_ACCESS_KEY', 'MILLRACE_S3_SECRET_KEY'],
      ['MILLRACE_S3_SECRET_KEY', 'MILLRACE_S3_ACCESS_KEY'],
    ] as const) {
      const value = { ...mail, ...keys }[given];
      assert.match(problemsOf({ [given]: value }), new RegExp(`${missing}: needed with ${given}`));
    }
    assert.match(problemsOf({ ...mail, MILLRACE_SMTP_URL: 'http://x' }), /MILLRACE_SMTP_URL: expected a URL/);
    assert.match(problemsOf({ MILLRACE_S3_ENDPOINT: 's3://x' }), /MILLRACE_S3_ENDPOINT: expected a URL/);
  });
});
