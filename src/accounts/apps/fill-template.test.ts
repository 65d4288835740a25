import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { cpuMsOf } from '../../../test/support/cpu-time.ts';
import { fieldsOf, fillTemplate, TemplateError } from './fill-template.ts';

const url = (template: string, values: Record<string, unknown>) => fillTemplate(template, values, 'url');

/** Refused, by a message that names the field and does not show the value. */
function assertRefused(template: string, values: Record<string, unknown>, mode: 'url' | 'text' = 'url') {
  assert.throws(
    () => fillTemplate(template, values, mode),
    (error: unknown) => {
      assert.ok(error instanceof TemplateError);
      for (const value of Object.values(values)) {
        if (typeof value === 'string' && value.length > 3) assert.ok(!error.message.includes(value));
      }
      return true;
    },
    `${template} ${JSON.stringify(values)}`,
  );
}

describe('a URL template', () => {
  test('takes values percent-encoded into its path and its query', () => {
    assert.equal(
      url('https://api.example.com/v1/{{id}}/x?q={{q}}&r={{q}}', { id: 'a/b?c#d', q: 'x&y=1 +' }),
      'https://api.example.com/v1/a%2Fb%3Fc%23d/x?q=x%26y%3D1%20%2B&r=x%26y%3D1%20%2B',
    );
    assert.equal(
      url('https://t.example/bot{{token}}/me', { token: '12:ab' }),
      'https://t.example/bot12:ab/me',
    );
    assert.equal(url('https://e.example/{{n}}/{{b}}', { n: 7, b: true }), 'https://e.example/7/true');
  });

  test('takes a host where the field stands for the host, also as users paste it', () => {
    for (const [given, host] of [
      ['gitlab.com', 'gitlab.com'],
      ['localhost:8080', 'localhost:8080'],
      ['https://git.example.org/', 'git.example.org'],
      [' git.example.org ', 'git.example.org'],
      ['[::1]:80', '[::1]:80'],
    ] as const) {
      assert.equal(url('https://{{host}}/api?x=1', { host: given }), `https://${host}/api?x=1`);
    }
    assert.equal(
      url('https://{{host}}:{{port}}/', { host: 'a.example', port: 5432 }),
      'https://a.example:5432/',
    );
  });

  test('takes a part of a host where the field is one, and the whole name when it is that', () => {
    for (const given of ['acme', 'acme.myshopify.com', 'https://acme.myshopify.com/', 'ACME.MyShopify.com']) {
      assert.equal(
        url('https://{{shop}}.myshopify.com/admin', { shop: given }).toLowerCase(),
        'https://acme.myshopify.com/admin',
      );
    }
  });

  test('takes the base URL of a server where it begins with the field', () => {
    for (const [given, base] of [
      ['https://n8n.example.org/sub/', 'https://n8n.example.org/sub'],
      ['http://10.0.0.1:5678', 'http://10.0.0.1:5678'],
      ['acme.example.org', 'https://acme.example.org'],
    ] as const) {
      assert.equal(url('{{base}}/api', { base: given }), `${base}/api`);
    }
    for (const base of [
      'javascript:alert(1)',
      'file:///etc/passwd',
      'https://u:p@a.example',
      'a.example?x',
      'a b',
    ]) {
      assertRefused('{{base}}/api', { base });
    }
  });

  test('refuses values that would lead to another host, path or port', () => {
    const hostile = [
      ...['evil.example#', 'evil.example?', 'evil.example\\', 'a@evil.example', 'evil.example/x'],
      ...[
        'a:b@evil.example',
        '//evil.example',
        'evil.example%2f',
        'evil.example:80',
        'a b',
        'a\r\nb',
        '..',
        'a..b',
      ],
      ...['', ' ', '.evil', '\u2025', 'evil。example', '[::1]', 'http://', 'ev\til', 'a\u0000'],
    ];
    for (const shop of hostile) assertRefused('https://{{shop}}.myshopify.com/admin', { shop });
    for (const host of hostile.filter((value) => !['evil.example:80', '[::1]'].includes(value))) {
      assertRefused('https://{{host}}/api', { host });
    }
    // A URL parser reads these as another address than they look.
    for (const host of ['127.1', '0x7f.1', '2130706433', '1.2.3.4.5', '010.0.0.1']) {
      assertRefused('https://{{host}}/api', { host });
    }
    for (const port of ['0x50', '99999', '80/x', '80@evil', '-1', '']) {
      assertRefused('https://a.example:{{port}}/', { port });
    }
    for (const id of ['..', '.', '']) assertRefused('https://a.example/{{id}}/x', { id });
    assertRefused('https://a.example/{{x}}{{y}}/z', { x: '.', y: '.' });
  });

  test('never leads anywhere else, whatever the values are', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (shop, id) => {
        let filled: string;
        try {
          filled = url('https://{{shop}}.shops.example/a/{{id}}/b?q={{id}}', { shop, id });
        } catch (error) {
          assert.ok(error instanceof TemplateError);
          return;
        }
        const parsed = new URL(filled);
        assert.ok(parsed.hostname.endsWith('.shops.example'));
        assert.equal(parsed.port + parsed.username + parsed.hash, '');
        assert.match(parsed.pathname, /^\/a\/[^/]+\/b$/);
        assert.equal(parsed.searchParams.get('q'), id.toWellFormed());
      }),
      { numRuns: 500 },
    );
  });

  test('names a field that has no value, and takes none from the prototype', () => {
    for (const values of [{}, { shop: null }, { shop: undefined }, { shop: {} }, { shop: ['a'] }]) {
      assert.throws(() => url('https://{{shop}}.example.com/', values), /^TemplateError: shop: /);
    }
    assert.throws(() => url('https://a.example/{{constructor}}', {}), /constructor: has no value/);
    assert.throws(() => fillTemplate('{{toString}}', {}, 'text'), /toString: has no value/);
  });
});

test('an address of any length is judged at once, as this happens in the process that serves all users', async () => {
  const slashes = '/'.repeat(60_000);
  const tookMs = await cpuMsOf(() => {
    assertRefused('https://{{h}}/x', { h: `${slashes}x` });
    assertRefused('https://{{h}}.example.com/', { h: `a${slashes}x` });
    assertRefused('{{h}}/x', { h: `https://a/${slashes}x` });
    assertRefused('https://a:{{h}}/x', { h: `${' '.repeat(60_000)}1` });
  });
  assert.ok(tookMs < 1000, `${tookMs} ms`);
});

describe('a text template', () => {
  test('takes values as they are, but nothing that ends a header line', () => {
    assert.equal(fillTemplate('Bearer {{t}}', { t: 'a b/ü' }, 'text'), 'Bearer a b/ü');
    assert.equal(fillTemplate('{{a}}:{{b}}', { a: '$&', b: '{{a}}' }, 'text'), '$&:{{a}}');
    for (const t of ['a\r\nx-admin: 1', 'a\nb', 'a\rb', 'a\u0000b', 'a\u007f']) {
      assertRefused('Bearer {{t}}', { t }, 'text');
    }
  });

  test('escapes values inside of JSON', () => {
    const values = { a: '"}, "admin": true, "x": "\n\u2028' };
    assert.deepEqual(JSON.parse(fillTemplate('{"key":"{{a}}"}', values, 'json')), { key: values.a });
  });
});

test('the fields of an account are its custom fields, with defaults for what is blank', () => {
  const field = (name: string, fallback?: string) => ({
    ...{ name, label: name, description: '', default: fallback, optional: true, secret: false },
  });
  const app = { customFields: [field('host', 'gitlab.com'), field('port'), field('user')] };
  assert.deepEqual(fieldsOf(app, { host: '', user: 'ada', oauth_access_token: 'x' }), {
    host: 'gitlab.com',
    user: 'ada',
  });
});
