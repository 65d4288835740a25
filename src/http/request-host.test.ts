import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dropUnreadableAddresses, requestHost } from './request-host.ts';

const trusted = ['127.0.0.1', '10.0.0.0/8', '::1', 'fd00::/8'];
const headers = { host: 'inside:8080', 'x-forwarded-host': 'forged.example, key.hooks.example' };

test('the host is what a trusted proxy says, the last of several', () => {
  const hostOf = requestHost(trusted);
  for (const remoteAddress of ['127.0.0.1', '10.1.2.3', '::ffff:10.1.2.3', '::1', 'fd00::7'])
    assert.equal(hostOf({ headers, socket: { remoteAddress } }), 'key.hooks.example', remoteAddress);
});

test('other senders are not trusted, and without the header it is Host', () => {
  for (const remoteAddress of ['127.0.0.2', '203.0.113.7', '::ffff:203.0.113.7', 'fe80::1'])
    assert.equal(requestHost(trusted)({ headers, socket: { remoteAddress } }), 'inside:8080', remoteAddress);
  assert.equal(requestHost([])({ headers, socket: { remoteAddress: '127.0.0.1' } }), 'inside:8080');
  assert.equal(requestHost(trusted)({ headers, socket: {} }), 'inside:8080');
  const plain = { host: 'inside:8080' };
  assert.equal(
    requestHost(trusted)({ headers: plain, socket: { remoteAddress: '10.1.2.3' } }),
    'inside:8080',
  );
  assert.equal(requestHost(trusted)({ headers: {}, socket: { remoteAddress: '10.1.2.3' } }), '');
});

test('the caller behind a proxy is an address: other text is dropped with what stands before it, and ports are cut', () => {
  const cases: [string, string | undefined][] = [
    ['198.51.100.1, 203.0.113.9', '198.51.100.1, 203.0.113.9'],
    ['6.6.6.6:99,[2001:db8::1]:443, 2001:db8::2', '6.6.6.6, 2001:db8::1, 2001:db8::2'],
    ['192.0.2.1, evil<script>, 203.0.113.9', '203.0.113.9'],
    ['evil<script>', undefined],
    ['999.1.1.1', undefined],
    ['192.0.2.1, ', undefined],
    ['192.0.2.1:port', undefined],
  ];
  for (const [found, left] of cases) {
    const headers: Record<string, string> = { 'x-forwarded-for': found };
    dropUnreadableAddresses(headers);
    assert.equal(headers['x-forwarded-for'], left, found);
  }
  const none = {};
  dropUnreadableAddresses(none);
  assert.deepEqual(none, {});
});
