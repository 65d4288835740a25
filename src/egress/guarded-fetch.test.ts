import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CertificateAuthority } from '../../test/support/certificates.ts';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import { AddressPolicy } from './address-policy.ts';
import { createGuardedDispatcher, type GuardedDispatcher } from './guarded-dispatcher.ts';
import { guardedFetch } from './guarded-fetch.ts';
import type { LookupAll } from './resolve-address.ts';

const authority = new CertificateAuthority();
const lookup: LookupAll = async (name) => [
  { address: name === 'private.example' ? '10.0.0.1' : '127.0.0.1' },
];
let receiver: HttpReceiver;
let secure: HttpReceiver;
let dispatcher: GuardedDispatcher;
before(async () => {
  receiver = await HttpReceiver.start();
  secure = await HttpReceiver.start({ tls: authority.issue(['named.example', '127.0.0.1']) });
  const policy = new AddressPolicy({ allow: ['127.0.0.0/8'], deny: () => [] });
  dispatcher = createGuardedDispatcher({ policy, extraCa: authority.pem, lookup });
});
after(async () => {
  await dispatcher.destroy();
  await receiver.close();
  await secure.close();
});

test('a request arrives as it was meant, and its answer comes back', async () => {
  receiver.answerOnce({ status: 201, headers: { 'x-a': '1' }, body: 'made' });
  const seen = receiver.requests.length;
  const response = await guardedFetch(`${receiver.url}/p?q=1`, {
    dispatcher,
    method: 'post',
    headers: { Authorization: 'secret', Host: 'elsewhere.example', Connection: 'upgrade' },
    body: 'content',
  });
  assert.deepEqual(
    [response.status, response.headers['x-a'], String(response.body), response.url],
    [201, '1', 'made', `${receiver.url}/p?q=1`],
  );
  const request = receiver.requests[seen];
  assert.deepEqual([request?.method, request?.url, String(request?.body)], ['POST', '/p?q=1', 'content']);
  assert.equal(request?.headers.authorization, 'secret');
  assert.equal(request?.headers.host, `127.0.0.1:${receiver.port}`);
});

test('TLS is verified for the name in the URL', async () => {
  assert.equal((await guardedFetch(`https://named.example:${secure.port}/`, { dispatcher })).status, 200);
  assert.equal((await guardedFetch(`https://127.0.0.1:${secure.port}/`, { dispatcher })).status, 200);
  await assert.rejects(guardedFetch(`https://other.example:${secure.port}/`, { dispatcher }), {
    code: 'ERR_TLS_CERT_ALTNAME_INVALID',
  });
  const policy = new AddressPolicy({ allow: ['local'], deny: () => [] });
  const untrusting = createGuardedDispatcher({ policy, lookup });
  await assert.rejects(guardedFetch(`https://named.example:${secure.port}/`, { dispatcher: untrusting }), {
    code: /UNABLE_TO_|SELF_SIGNED/,
  });
  await untrusting.destroy();
});

test('forbidden targets are refused before anything is sent, in every spelling', async () => {
  const policy = new AddressPolicy({ allow: ['public'], deny: () => [] });
  const strict = createGuardedDispatcher({ policy, lookup });
  const seen = receiver.requests.length;
  const hosts = [
    '127.0.0.1',
    'localhost',
    '[::1]',
    '0.0.0.0',
    '[::]',
    '2130706433',
    '0x7f.1',
    '127.1',
    '[::ffff:127.0.0.1]',
    'private.example',
    'any.example',
    '127.0.0.1.',
    '１２７.1',
  ];
  for (const host of hosts) {
    await assert.rejects(
      guardedFetch(`http://${host}:${receiver.port}/`, { dispatcher: strict }),
      { code: 'EACCES' },
      host,
    );
  }
  for (const text of [
    `http:127.0.0.1:${receiver.port}/`,
    `http:///127.0.0.1:${receiver.port}/`,
    `ht\ntp://127.0\t.0.1:${receiver.port}`,
  ]) {
    await assert.rejects(guardedFetch(text, { dispatcher: strict }), { code: 'EACCES' }, text);
  }
  assert.equal(receiver.requests.length, seen);
  await strict.destroy();
});

test('only http and https URLs without credentials are called', async () => {
  const texts = [
    'file:///etc/passwd',
    'gopher://x/',
    'data:,x',
    'unix:/x',
    'http://user@127.0.0.1/',
    'http://a:b@127.0.0.1/',
    'nothing',
    'ftp://x/',
  ];
  for (const text of texts)
    await assert.rejects(guardedFetch(text, { dispatcher }), { code: 'ERR_INVALID_URL' }, text);
});

test('redirects are followed and vetted again, up to the limit', async () => {
  receiver.answerOnce({ status: 302, headers: { location: '/next' } }, { body: 'there' });
  const followed = await guardedFetch(`${receiver.url}/first`, { dispatcher });
  assert.deepEqual([followed.url, String(followed.body)], [`${receiver.url}/next`, 'there']);
  for (const location of [
    'http://private.example/',
    'http://169.254.169.254/latest',
    'http://[::1]/',
    '//10.0.0.1/',
  ]) {
    receiver.answerOnce({ status: 307, headers: { location } });
    await assert.rejects(guardedFetch(receiver.url, { dispatcher }), { code: 'EACCES' }, location);
  }
  for (const location of ['file:///etc/passwd', 'http://a:b@127.0.0.1/']) {
    receiver.answerOnce({ status: 302, headers: { location } });
    await assert.rejects(guardedFetch(receiver.url, { dispatcher }), { code: 'ERR_INVALID_URL' }, location);
  }
  const loop = Array.from({ length: 6 }, () => ({ status: 302, headers: { location: '/loop' } }));
  receiver.answerOnce(...loop);
  await assert.rejects(guardedFetch(receiver.url, { dispatcher }), { code: 'ERR_TOO_MANY_REDIRECTS' });
  receiver.answerOnce({ status: 302, headers: { location: '/loop' } });
  assert.equal((await guardedFetch(receiver.url, { dispatcher, maxRedirects: 0 })).status, 302);
  secure.answerOnce({ status: 301, headers: { location: receiver.url } });
  await assert.rejects(guardedFetch(secure.url, { dispatcher }), { code: 'ERR_UNSAFE_REDIRECT' });
});

test('a redirect elsewhere loses the secrets of the first origin, and a POST becomes a GET where browsers do so', async () => {
  const seen = receiver.requests.length;
  receiver.answerOnce({ status: 303, headers: { location: `http://other.example:${receiver.port}/b` } }, {});
  const headers = { Authorization: 'a', Cookie: 'b', 'X-Kept': 'c', 'Content-Type': 'text/plain' };
  await guardedFetch(`${receiver.url}/a`, { dispatcher, method: 'POST', body: 'x', headers });
  const elsewhere = receiver.requests[seen + 1];
  assert.equal(elsewhere?.method, 'GET');
  assert.deepEqual(
    ['authorization', 'cookie', 'x-kept', 'content-type'].map((name) => elsewhere?.headers[name]),
    [undefined, undefined, 'c', undefined],
  );
  receiver.answerOnce({ status: 307, headers: { location: '/d' } }, {});
  await guardedFetch(`${receiver.url}/c`, { dispatcher, method: 'POST', body: 'again', headers });
  const same = receiver.requests[seen + 3];
  assert.deepEqual([same?.method, String(same?.body), same?.headers.authorization], ['POST', 'again', 'a']);
});

test('a body beyond the limit fails the request, or is cut on demand', async () => {
  receiver.answerOnce(
    { body: 'x'.repeat(1_000) },
    { body: 'x'.repeat(1_001) },
    { body: 'x'.repeat(5_000_000) },
  );
  assert.equal((await guardedFetch(receiver.url, { dispatcher, maxBytes: 1_000 })).body.length, 1_000);
  await assert.rejects(guardedFetch(receiver.url, { dispatcher, maxBytes: 1_000 }), {
    code: 'ERR_BODY_TOO_LARGE',
  });
  const cut = await guardedFetch(receiver.url, { dispatcher, maxBytes: 1_000, onOverflow: 'truncate' });
  assert.deepEqual([cut.body.length, cut.truncated], [1_000, true]);
});

test('the time for everything together is bounded, and a signal ends the request at once', async () => {
  receiver.answerOnce(
    () => undefined,
    (_request, response) => void response.writeHead(200).write('first') as undefined,
  );
  await assert.rejects(guardedFetch(receiver.url, { dispatcher, timeoutMs: 100 }), { code: 'ETIMEDOUT' });
  await assert.rejects(guardedFetch(receiver.url, { dispatcher, timeoutMs: 100 }), { code: 'ETIMEDOUT' });
  const stop = new AbortController();
  receiver.answerOnce(() => void stop.abort(new Error('enough')) as undefined);
  await assert.rejects(guardedFetch(receiver.url, { dispatcher, signal: stop.signal }), /enough/);
});
