import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readGroupGrant } from './group-grants.ts';
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

  test('an address with the prefix of a network is refused', () => {
    assert.match(
      problemsOf({ MILLRACE_TRUSTED_PROXIES: '127.0.0.1,172.18.0.5/16' }),
      /MILLRACE_TRUSTED_PROXIES: "172\.18\.0\.5\/16" is an address in 172\.18\.0\.0\/16; write .* or 172\.18\.0\.5 for/,
    );
  });

  test('IPv4 inside IPv6 is refused with what to write, where it would be all of IPv4, or nothing', () => {
    for (const [proxy, written] of [
      ['::ffff:0:0/96', '0.0.0.0/0'],
      ['::ffff:10.0.0.0/104', '10.0.0.0/8'],
      ['::ffff:127.0.0.1', '127.0.0.1'],
      ['64:ff9b::/96', '0.0.0.0/0'],
    ] as const)
      for (const name of ['MILLRACE_TRUSTED_PROXIES', 'MILLRACE_EGRESS'])
        assert.ok(
          problemsOf({ [name]: proxy }).includes(
            `${name}: ${JSON.stringify(proxy)} is IPv4 inside IPv6; write ${written}`,
          ),
          problemsOf({ [name]: proxy }),
        );
  });

  test('an unknown setting is refused with the one that was meant', () => {
    assert.equal(problemsOf({ MILLRACE_EGRES: 'local' }).split('\n  ')[1], 'MILLRACE_EGRES: no such setting; expected MILLRACE_EGRESS'); // biome-ignore format: one sentence
    assert.match(problemsOf({ MILLRACE_COLOUR: 'x' }), /MILLRACE_COLOUR: no such setting; expected one of docs\/reference\/settings\.md$/); // biome-ignore format: one sentence
  });

  test('what is wrong in MILLRACE_EGRESS is listed with everything else', () => {
    const problems = problemsOf({ MILLRACE_EGRESS: 'public,lokal', MILLRACE_PORT: 'abc' });
    assert.match(problems, /MILLRACE_EGRESS: expected public, local or a CIDR .* found "lokal"/);
    assert.match(problems, /MILLRACE_PORT: /);
  });

  test('does not trust all proxies, and says what to write instead', () => {
    for (const proxy of ['0.0.0.0/0', '::/0', '10.0.0.0/00', '128.0.0.0/1', '8000::/1'])
      assert.match(
        problemsOf({ MILLRACE_TRUSTED_PROXIES: `10.0.0.0/8,${proxy}` }),
        /MILLRACE_TRUSTED_PROXIES: "[^"]+\/[01]+" would let every caller .* write the address or network of your proxy/,
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
    assert.match(problemsOf({ ...mail, MILLRACE_SMTP_URL: 'smtp://' }), /MILLRACE_SMTP_URL: expected a host/);
    const unescaped = problemsOf({ ...mail, MILLRACE_SMTP_URL: 'smtp://me:50%off@mail.example' });
    assert.match(unescaped, /MILLRACE_SMTP_URL: .* a percent sign is written %25/);
    assert.doesNotMatch(unescaped, /50%off/);
    assert.match(problemsOf({ MILLRACE_S3_ENDPOINT: 's3://x' }), /MILLRACE_S3_ENDPOINT: expected a URL/);
  });

  test('MILLRACE_FILES=s3 needs a bucket and its keys, and names that are none are refused', () => {
    const keys = { MILLRACE_S3_ACCESS_KEY: 'AK', MILLRACE_S3_SECRET_KEY: 'SK' };
    const whole = { ...keys, MILLRACE_FILES: 's3', MILLRACE_FILES_BUCKET: 'my-bucket' };
    assert.equal(readSettings(whole).filesPrefix, 'millrace/');
    assert.match(
      problemsOf({ ...keys, MILLRACE_FILES: 's3' }),
      /MILLRACE_FILES_BUCKET: needed with MILLRACE_FILES=s3/,
    );
    assert.match(
      problemsOf({ MILLRACE_FILES_BUCKET: 'my-bucket' }),
      /MILLRACE_S3_ACCESS_KEY: needed with MILLRACE_FILES_BUCKET/,
    );
    assert.match(
      problemsOf({ ...whole, MILLRACE_FILES: 'disk' }),
      /MILLRACE_FILES: expected one of store, s3/,
    );
    for (const bucket of ['My_Bucket', 'a..b', 'x', '192.168.0.1'])
      assert.match(problemsOf({ ...whole, MILLRACE_FILES_BUCKET: bucket }), /expected the name of a bucket/);
    for (const prefix of ['a', '../', 'a//', '/a/', 'ä/', '.a/'])
      assert.match(
        problemsOf({ ...whole, MILLRACE_FILES_PREFIX: prefix }),
        /MILLRACE_FILES_PREFIX: expected/,
      );
    assert.equal(readSettings({ ...whole, MILLRACE_FILES_PREFIX: 'prod/eu-1/' }).filesPrefix, 'prod/eu-1/');
  });
});

test('what would stand in each request to object storage is checked at the start, and no key is shown', () => {
  for (const region of ['eu central', 'us-east-1/../..@evil.example', 'eu\nx'])
    assert.match(
      problemsOf({ MILLRACE_S3_REGION: region }),
      /MILLRACE_S3_REGION: expected letters.* found "(?:eu|us)/,
    );
  for (const name of ['MILLRACE_S3_ACCESS_KEY', 'MILLRACE_S3_SECRET_KEY']) {
    const keys = { MILLRACE_S3_ACCESS_KEY: 'AK', MILLRACE_S3_SECRET_KEY: 'SK' };
    const problems = problemsOf({ ...keys, [name]: 'hush\nx' });
    assert.match(problems, new RegExp(`${name}: expected ASCII characters without spaces`));
    assert.doesNotMatch(problems, /hush/);
  }
  for (const endpoint of [
    'https://u:hush@s3.example',
    'https://s3.example/?hush',
    'https://s3.example?',
    'https://s3.example/#',
    'https://s3.example/#hush',
  ]) {
    const problems = problemsOf({ MILLRACE_S3_ENDPOINT: endpoint });
    assert.match(problems, /MILLRACE_S3_ENDPOINT: expected a URL without user/);
    assert.doesNotMatch(problems, /hush/);
  }
});

test('URLs that requests are made of have no spaces at their ends', () => {
  for (const name of ['MILLRACE_PUBLIC_URL', 'MILLRACE_NPM_REGISTRY', 'MILLRACE_S3_ENDPOINT'])
    assert.match(
      problemsOf({ [name]: 'https://x.example ' }),
      new RegExp(`${name}: expected a URL without spaces`),
    );
});

describe('MILLRACE_EGRESS_PROXY', () => {
  test('takes the URL of an HTTP proxy, and shows none that is not', () => {
    const url = 'http://user:p%40ss@proxy.example:3128';
    const except = 'db.example, .inner.example, 10.0.0.0/8, ::1';
    const settings = readSettings({ MILLRACE_EGRESS_PROXY: url, MILLRACE_EGRESS_PROXY_EXCEPT: except });
    assert.equal(settings.egressProxy, url);
    assert.deepEqual(settings.egressProxyExcept, except.split(', '));
    for (const wrong of [
      'http://a b:hush@127.0.0.1:3128',
      ' http://127.0.0.1:3128',
      'proxy.example:3128',
      'https://user:hush@proxy.example',
      'socks5://user:hush@proxy.example',
      'http://user:hush@proxy.example/path',
      'http://user:hush%@proxy.example:3128',
      'http://user:hush@proxy.example',
      'http://user:hush@proxy.example:0',
      'http://us%3Aer:hush@proxy.example:3128',
      'hush',
    ]) {
      const problems = problemsOf({ MILLRACE_EGRESS_PROXY: wrong });
      assert.match(problems, /MILLRACE_EGRESS_PROXY: (?:expected|user and password)/, wrong);
      assert.doesNotMatch(problems, /hush/);
    }
    assert.match(
      problemsOf({ MILLRACE_EGRESS_PROXY: url, MILLRACE_EGRESS_PROXY_EXCEPT: '*.example,a b' }),
      /MILLRACE_EGRESS_PROXY_EXCEPT: expected names, .* found "a b"/,
    );
    assert.match(
      problemsOf({ MILLRACE_EGRESS_PROXY: url, MILLRACE_EGRESS_PROXY_EXCEPT: 'db.example,10.1.2.3/8' }),
      /MILLRACE_EGRESS_PROXY_EXCEPT: "10\.1\.2\.3\/8" is an address in 10\.0\.0\.0\/8; write 10\.0\.0\.0\/8 for all/,
    );
    for (const wrong of ['fe80::1%eth0', '0.0.0.0/0', '::/0'])
      assert.match(
        problemsOf({ MILLRACE_EGRESS_PROXY: url, MILLRACE_EGRESS_PROXY_EXCEPT: wrong }),
        /MILLRACE_EGRESS_PROXY_EXCEPT: /,
        wrong,
      );
    assert.match(
      problemsOf({ MILLRACE_EGRESS_PROXY_EXCEPT: 'db.example' }),
      /MILLRACE_EGRESS_PROXY: needed with MILLRACE_EGRESS_PROXY_EXCEPT/,
    );
  });
});

test('what traces need is checked at the start, and no header of the receiver is shown', () => {
  const problems = problemsOf({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318',
    OTEL_EXPORTER_OTLP_HEADERS: 'hush-hush',
    OTEL_TRACES_SAMPLER: 'sometimes',
    OTEL_TRACES_SAMPLER_ARG: '2',
  });
  assert.match(problems, /OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL that starts with http/);
  assert.match(problems, /OTEL_EXPORTER_OTLP_HEADERS: expected name=value,name=value/);
  assert.match(problems, /OTEL_TRACES_SAMPLER: expected one of always_on, .*found "sometimes"/);
  assert.match(problems, /OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1, found "2"/);
  assert.doesNotMatch(problems, /hush/);
  // Others of OpenTelemetry are for other programs.
  assert.equal(readSettings({ OTEL_METRICS_EXPORTER: 'none' }).traceEndpoint, '');
});

describe('single sign-on', () => {
  const set = {
    MILLRACE_OIDC_ISSUER: 'https://login.example/realms/main',
    MILLRACE_OIDC_CLIENT_ID: 'millrace',
  };

  test('needs an issuer with TLS, or on this machine, and a client', () => {
    assert.equal(readSettings({ ...set, MILLRACE_OIDC_ONLY: 'on' }).oidcOnly, 'on');
    for (const issuer of ['http://127.0.0.1:9', 'http://[::1]:9/a', 'http://localhost'])
      assert.equal(readSettings({ ...set, MILLRACE_OIDC_ISSUER: issuer }).oidcIssuer, issuer);
    for (const issuer of [
      ...['http://login.example', 'login.example', 'ftp://login.example', 'http://localhost.example'],
      ...['https://me:secret@login.example', 'https://login.example?a=b', 'https://login.example#x'],
    ]) {
      assert.match(
        problemsOf({ ...set, MILLRACE_OIDC_ISSUER: issuer }),
        /MILLRACE_OIDC_ISSUER: expected a URL that starts with https:\/\//,
        issuer,
      );
    }
    const { MILLRACE_OIDC_CLIENT_ID: _, ...alone } = set;
    assert.match(problemsOf(alone), /MILLRACE_OIDC_CLIENT_ID: needed with MILLRACE_OIDC_ISSUER/);
    for (const [env, value] of [
      ['MILLRACE_OIDC_CLIENT_SECRET', 'a secret'],
      ['MILLRACE_OIDC_GROUPS', 'devs=main:member'],
      ['MILLRACE_OIDC_CREATE_USERS', 'on'],
      ['MILLRACE_OIDC_ONLY', 'on'],
    ] as const) {
      const problems = problemsOf({ [env]: value });
      assert.match(problems, new RegExp(`${env}: needs MILLRACE_OIDC_ISSUER and MILLRACE_OIDC_CLIENT_ID`));
      assert.ok(!problems.includes('a secret'));
    }
    for (const scopes of ['profile email', 'openid,profile'])
      assert.match(
        problemsOf({ ...set, MILLRACE_OIDC_SCOPES: scopes }),
        /MILLRACE_OIDC_SCOPES: expected scopes separated by spaces, with openid among them/,
      );
  });

  test('has groups that give a role in a workspace, or the administration of the instance', () => {
    const list = 'devs=main:member,/ops/team a=o_1:admin,cn=x%2Cou=y=z:viewer,%25=instance-admin';
    const { oidcGroups } = readSettings({ ...set, MILLRACE_OIDC_GROUPS: list });
    assert.deepEqual(oidcGroups.map(readGroupGrant), [
      { group: 'devs', kind: 'workspace', workspace: 'main', role: 'member' },
      { group: '/ops/team a', kind: 'workspace', workspace: 'o_1', role: 'admin' },
      { group: 'cn=x,ou=y', kind: 'workspace', workspace: 'z', role: 'viewer' },
      { group: '%', kind: 'instance-admin' },
    ]);
    for (const entry of [
      'devs',
      '=main:member',
      'devs=main',
      'devs=main:owner',
      'devs=:admin',
      'a=b:admin:c',
      '%=b:admin',
    ])
      assert.match(
        problemsOf({ ...set, MILLRACE_OIDC_GROUPS: `ok=main:viewer,${entry}` }),
        /MILLRACE_OIDC_GROUPS: expected <group>=<workspace>:<role>.*found "/,
        entry,
      );
  });
});

test('a session URL is one of PostgreSQL, and needs the URL that leads to the pooler', () => {
  const url = 'postgres://a@127.0.0.1:6432/b';
  const session = { MILLRACE_DATABASE_SESSION_URL: 'postgres://a@127.0.0.1:5432/b' };
  assert.match(problemsOf(session), /MILLRACE_DATABASE_URL: needed with MILLRACE_DATABASE_SESSION_URL/);
  assert.equal(problemsOf({ ...session, MILLRACE_DATABASE_URL: url }), '');
  assert.match(
    problemsOf({ MILLRACE_DATABASE_URL: url, MILLRACE_DATABASE_SESSION_URL: 'mysql://a' }),
    /MILLRACE_DATABASE_SESSION_URL: expected a URL that starts with postgres:/,
  );
});
