import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import type { LookupAll } from '#egress/resolve-address.ts';
import { CallerError } from '#lib/errors.ts';
import { checkWebhookUrl, parseWebhookUrl } from './check-webhook-url.ts';

const open = new AddressPolicy({ allow: ['public'], deny: () => [] });
const local = new AddressPolicy({
  allow: ['public', 'local'],
  deny: () => [{ address: '127.0.0.1', port: 8080 }],
});
const answering =
  (...addresses: string[]): LookupAll =>
  async () =>
    addresses.map((address) => ({ address }));
const unknown: LookupAll = async () => {
  throw Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' });
};

function ruleOf(text: string): unknown {
  try {
    parseWebhookUrl(text);
    return 'accepted';
  } catch (error) {
    assert.ok(error instanceof CallerError, text);
    assert.equal(error.code, 'invalid_parameter');
    assert.equal(error.details.parameter, 'url');
    assert.match(error.message, /^url: expected /);
    return error.details.rule;
  }
}

test('a URL that breaks a rule is refused with the name of the rule', () => {
  const refused: Record<string, string[]> = {
    protocol_missing: [
      ...[
        'example.com',
        'example.com/hook',
        '/hook',
        '//example.com/hook',
        '',
        'http',
        'www.example.com?x=1',
      ],
      ...['localhost:3000', 'example.com:8080/hook', '[::1]:80', '127.0.0.1:80', '://example.com'],
    ],
    protocol_unknown: [
      ...['ftp://example.com', 'ws://example.com', 'file:///etc/passwd', 'mailto:a@example.com'],
      ...[
        'javascript:alert(1)',
        'data:text/plain,x',
        'httpss://example.com',
        'hhttp://example.com',
        'blob:x',
      ],
    ],
    host_missing: [
      ...[
        'http://',
        'https://',
        'http:',
        'https:/',
        'https:///hook',
        'http:example.com',
        'http:/example.com',
      ],
      ...['http://?x=1', 'http://#x', 'https://:443/', 'http:\\\\example.com', 'http:////example.com'],
    ],
    credentials: [
      ...['https://user:password@example.com', 'https://user@example.com', 'https://:x@example.com/'],
      ...['https://@example.com/', 'https://a@b@example.com', 'https://user%40x:y@example.com'],
    ],
    port: [
      'http://example.com:0',
      'http://example.com:65536/x',
      'http://example.com:99999999999',
      'http://[::1]:0/',
    ],
    characters: [
      ' https://example.com',
      'https://example.com/a b',
      'https://exa\nmple.com',
      'https://a\u0000b',
      '\t',
    ],
    malformed: [
      'https://exa^mple.com',
      'https://[::1',
      'https://a..%00',
      'https://256.256.256.256/',
      'https://x:y/',
    ],
    too_long: [`https://example.com/${'x'.repeat(2_048)}`, `https://example.com/${'ż'.repeat(1_000)}`],
  };
  for (const [rule, texts] of Object.entries(refused))
    for (const text of texts) assert.equal(ruleOf(text), rule, JSON.stringify(text));
});

test('what is accepted is stored as the one parser writes it, without a fragment', () => {
  const stored: Record<string, string> = {
    'HTTP://EXAMPLE.com': 'http://example.com/',
    'https://example.com:443/a/../b?x=1#part': 'https://example.com/b?x=1',
    'http://example.com:8080/hook?at=a@b': 'http://example.com:8080/hook?at=a@b',
    'https://żółw.example/ż': 'https://xn--w-uga1v8h.example/%C5%BC',
    'http://2130706433/': 'http://127.0.0.1/',
    'http://[::FFFF:1.2.3.4]/': 'http://[::ffff:102:304]/',
    'https://example.com': 'https://example.com/',
    'https://example.com?a=1:2': 'https://example.com/?a=1:2',
  };
  for (const [text, href] of Object.entries(stored)) assert.equal(parseWebhookUrl(text).href, href);
});

test('an address that is not allowed is refused, however it is written', async () => {
  const urls = [
    'http://127.0.0.1/',
    'http://127.1',
    'http://[::1]:9000/',
    'http://10.0.0.1',
    'http://0x7f000001',
  ];
  for (const url of [
    ...urls,
    'http://169.254.169.254/latest',
    'http://localhost/',
    'http://[::ffff:127.0.0.1]/',
  ])
    await assert.rejects(checkWebhookUrl(url, { policy: open }), notAllowed, url);
  await assert.rejects(checkWebhookUrl('http://127.0.0.1:8080/', { policy: local }), notAllowed);
  assert.equal(await checkWebhookUrl('http://127.0.0.1:8081', { policy: local }), 'http://127.0.0.1:8081/');
});

test('a name that only stands for forbidden addresses is refused without telling them', async () => {
  const options = { policy: open, lookup: answering('10.20.30.40', '192.168.7.7') };
  await assert.rejects(checkWebhookUrl('https://internal.example/x', options), (error) => {
    assert.ok(notAllowed(error));
    const text = JSON.stringify([(error as CallerError).message, (error as CallerError).details]);
    for (const part of ['10.20', '192.168', 'private', 'loopback']) assert.ok(!text.includes(part), text);
    return true;
  });
  // One that is allowed is enough: only that one will be dialled.
  await checkWebhookUrl('https://mixed.example', { policy: open, lookup: answering('10.0.0.1', '8.8.8.8') });
});

test('a name that cannot be looked up now is accepted: it is vetted at each request', async () => {
  assert.equal(
    await checkWebhookUrl('https://not-yet.example', { policy: open, lookup: unknown }),
    'https://not-yet.example/',
  );
});

function notAllowed(error: unknown): true {
  assert.ok(error instanceof CallerError);
  assert.equal(error.code, 'invalid_parameter');
  assert.deepEqual(error.details, { parameter: 'url', rule: 'address_not_allowed' });
  return true;
}
