import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sessionTokenOf } from './session-cookie.ts';

const publicUrl = 'https://millrace.example';

/** A request of a page of the service, but for what is given. */
function requestWith(
  headers: Record<string, string | undefined>,
  more: { url?: string; host?: string } = {},
) {
  const given = { 'x-millrace-csrf': '1', cookie: 'millrace_session=mse_1', origin: publicUrl, ...headers };
  const present = Object.entries(given).filter(([, value]) => value !== undefined);
  return {
    ...{ method: 'POST', url: '/v1/sources', host: 'millrace.example', protocol: 'https' as const, ...more },
    headers: Object.fromEntries(present),
  };
}

describe('the cookie of a session', () => {
  test('counts below /v1 only, and only with the header that no page of another origin can send', () => {
    assert.equal(sessionTokenOf(requestWith({}), publicUrl), 'mse_1');
    for (const url of ['/in/x', '/v1', '/v10/sources', '/connect/x'])
      assert.equal(sessionTokenOf(requestWith({}, { url }), publicUrl), undefined, url);
    assert.equal(sessionTokenOf(requestWith({ 'x-millrace-csrf': undefined }), publicUrl), undefined);
  });

  test('is found by its whole name, among other cookies, in a header of at most 16 KB', () => {
    const found = (cookie: string | undefined) => sessionTokenOf(requestWith({ cookie }), publicUrl);
    assert.equal(found('a=b; millrace_session=mse_2; c=d'), 'mse_2');
    const long = 'x'.repeat(16_384);
    const cookies: (string | undefined)[] = [
      ...[undefined, '', 'millrace_session', 'millrace_session=', 'a=mse_1', 'millrace_cf_1=mse_1'],
      ...['xmillrace_session=mse_1', 'millrace_session2=mse_1', 'MILLRACE_SESSION=mse_1'],
      `millrace_session=mse_1; long=${long}`,
    ];
    for (const cookie of cookies) assert.equal(found(cookie), undefined, String(cookie).slice(0, 100));
  });

  test('counts for pages of this service, by the host that was asked or by its public URL', () => {
    const from = (origin: string, host: string, url = publicUrl) =>
      sessionTokenOf(requestWith({ origin }, { host }), url);
    assert.equal(from('https://millrace.example', '10.0.0.7:8080'), 'mse_1');
    assert.equal(from('http://10.0.0.7:8080', '10.0.0.7:8080', ''), 'mse_1');
    assert.equal(from('http://millrace.internal', 'Millrace.Internal', ''), 'mse_1');
    for (const origin of [
      ...[
        'https://millrace.example.evil.example',
        'https://evil-millrace.example',
        'https://millrace.example:8443',
      ],
      ...['ftp://millrace.internal', 'millrace://millrace.internal', 'null', '', 'http://evil.example'],
      // The public URL says the scheme; where a request says its host alone, any proxy may have taken TLS away.
      'http://millrace.example',
    ])
      assert.throws(() => from(origin, 'millrace.internal'), { code: 'foreign_origin' }, origin);
    assert.throws(() => from('http://mill', 'millrace.internal'), { code: 'foreign_origin' });
    assert.throws(() => from('http://millrace.internal.evil.example', 'millrace.internal'), {
      code: 'foreign_origin',
    });
  });
});
