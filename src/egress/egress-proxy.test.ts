import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { ConnectProxy } from '../../test/support/connect-proxy.ts';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { AddressPolicy } from './address-policy.ts';
import { dialPeer } from './dial-vetted.ts';
import { EgressProxy } from './egress-proxy.ts';
import { createGuardedDispatcher } from './guarded-dispatcher.ts';
import { guardedFetch } from './guarded-fetch.ts';

/** Addresses that lead nowhere but by the proxy of the test, which connects to this machine. */
const outside = '198.51.100.7';

function policyOf(url: string, more: { except?: string[]; allow?: string[] } = {}): AddressPolicy {
  const proxy = new EgressProxy({ url, except: more.except ?? [] });
  return new AddressPolicy({
    allow: more.allow ?? ['198.51.100.0/24', '127.0.0.0/8'],
    deny: () => proxy.places,
    proxy,
  });
}

const connectTimeoutMs = 5_000;
const never = new AbortController().signal;

test('a connection is made by the proxy, which is asked for the vetted address and not for the name', async () => {
  await using proxy = await ConnectProxy.start('user:p%C3%A4ss');
  await using receiver = await HttpReceiver.start({ answer: { body: 'here' } });
  const lookup = async () => [{ address: '10.0.0.1' }, { address: outside }];
  const policy = policyOf(proxy.url);
  const dispatcher = createGuardedDispatcher({ policy, lookup });
  const answer = await guardedFetch(`http://api.example:${receiver.port}/x`, { dispatcher });
  assert.equal(answer.body.toString(), 'here');
  assert.equal(receiver.requests[0]?.headers.host, `api.example:${receiver.port}`);
  assert.deepEqual(proxy.asked, [`CONNECT ${outside}:${receiver.port}`]);
  // The policy holds as it does without a proxy, also for the proxy itself.
  for (const host of ['10.0.0.1', '169.254.169.254'])
    await assert.rejects(guardedFetch(`http://${host}/`, { dispatcher }), { code: 'EACCES' });
  await assert.rejects(guardedFetch(`http://${proxy.place}/`, { dispatcher }), {
    code: 'EACCES',
    message: /: the service itself, its database or its proxy listens there, which is never reachable$/,
  });
  assert.equal(proxy.asked.length, 1);
  await dispatcher.destroy();
});

test('an address that the name of the proxy has only now is not asked for either', async () => {
  await using proxy = await ConnectProxy.start();
  const { port } = new URL(proxy.url);
  const looked = [['127.0.0.1'], ['127.0.0.1', outside]];
  const named = new EgressProxy({
    url: `http://proxy.example:${port}`,
    lookup: async () => (looked.shift() ?? assert.fail('looked up again')).map((address) => ({ address })),
  });
  const places = (): string[] => named.places.map(({ address }) => address);
  // Before it was looked up its port is denied everywhere.
  assert.deepEqual(places(), ['proxy.example']);
  await named.resolve();
  assert.deepEqual(places(), ['127.0.0.1']);
  const policy = new AddressPolicy({
    allow: ['198.51.100.0/24'],
    deny: () => named.places,
    proxy: named,
  });
  await assert.rejects(dialPeer(outside, Number(port), { policy, connectTimeoutMs }), {
    code: 'EACCES',
    message: /: the service itself, its database or its proxy listens there, which is never reachable$/,
  });
  assert.deepEqual(places(), ['127.0.0.1', outside]);
  assert.deepEqual(proxy.asked, []);
});

test('what a server says first is not lost behind the answer of the proxy, and the peer is the address that was asked for', async () => {
  const server = createServer((socket) => socket.on('error', () => {}).end('220 hello\r\n')).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await using proxy = await ConnectProxy.start();
  for (let n = 0; n < 10; n += 1) {
    const { socket, peer } = await dialPeer(outside, port, { policy: policyOf(proxy.url), connectTimeoutMs });
    assert.equal(await text(socket), '220 hello\r\n');
    assert.deepEqual(peer, { address: outside, port });
    socket.destroy();
  }
  assert.equal(proxy.asked.length, 10);
  server.close();
});

test('an address that the proxy does not reach is followed by the next one', async () => {
  await using receiver = await HttpReceiver.start();
  await using proxy = await ConnectProxy.start();
  const policy = policyOf(proxy.url);
  const lookup = async () => ['198.51.100.1', '198.51.100.2'].map((address) => ({ address }));
  const { port } = receiver;
  await receiver.close();
  await assert.rejects(dialPeer('two.example', port, { policy, connectTimeoutMs, lookup }), {
    code: 'EHOSTUNREACH',
    message: `the proxy ${proxy.place} answers CONNECT to 198.51.100.2:${port} with 502`,
  });
  assert.deepEqual(proxy.asked, [`CONNECT 198.51.100.1:${port}`, `CONNECT 198.51.100.2:${port}`]);
});

test('a proxy that refuses, is away, says something else or nothing is named in the error, and its password is not', async () => {
  const password = 'hush-hush';
  const refusing = await ConnectProxy.start('user:another');
  const url = refusing.url.replace('another', password);
  const policy = policyOf(url);
  const failure = async (options: { policy: AddressPolicy; connectTimeoutMs: number }) => {
    const error = await dialPeer(outside, 443, options).then(
      () => assert.fail('connected'),
      (reason: Error & { code: string }) => reason,
    );
    assert.ok(!`${error.stack}${JSON.stringify(error)}`.includes(password));
    return `${error.code} ${error.message}`;
  };
  const { place } = refusing;
  assert.equal(
    await failure({ policy, connectTimeoutMs }),
    `EACCES the proxy ${place} answers CONNECT to ${outside}:443 with 407: it expects the user and password of MILLRACE_EGRESS_PROXY`,
  );
  refusing.refusal = { status: 403, reason: 'Forbidden' };
  assert.equal(
    await failure({ policy, connectTimeoutMs }),
    `EACCES the proxy ${place} answers CONNECT to ${outside}:443 with 403`,
  );
  await refusing[Symbol.asyncDispose]();
  assert.equal(
    await failure({ policy, connectTimeoutMs }),
    `ECONNREFUSED the proxy ${place} cannot be reached: ECONNREFUSED`,
  );
  for (const [said, expected] of [
    ['SSH-2.0-x\r\n\r\n', 'EPROTO the proxy PLACE does not speak HTTP'],
    ['HTTP/1.1 200', 'ECONNRESET the proxy PLACE ended the connection without an answer'],
  ] as const) {
    const odd = createServer((socket) => socket.on('error', () => {}).end(said)).listen(0, '127.0.0.1');
    await once(odd, 'listening');
    const at = `127.0.0.1:${(odd.address() as AddressInfo).port}`;
    const found = await failure({ policy: policyOf(`http://user:${password}@${at}`), connectTimeoutMs });
    assert.equal(found, expected.replace('PLACE', at));
    odd.close();
  }
  const silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const at = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const patience = { policy: policyOf(`http://user:${password}@${at}`), connectTimeoutMs: 50 };
  assert.match(
    await failure(patience),
    new RegExp(`^ETIMEDOUT connect ETIMEDOUT .*: the proxy ${at} did not answer in time$`),
  );
  silent.close();
});

test('the machine itself and what the operator excepts are dialled directly', async () => {
  await using proxy = await ConnectProxy.start();
  await using receiver = await HttpReceiver.start();
  const { port } = receiver;
  const lookup = async () => [{ address: '127.0.0.1' }];
  const open = async (host: string, except: string[], address?: string) => {
    const policy = policyOf(proxy.url, { except });
    const { socket } = await dialPeer(host, port, {
      ...{ policy, connectTimeoutMs: 300 },
      lookup: address === undefined ? lookup : async () => [{ address }],
    });
    socket.destroy();
  };
  await open('localhost', []);
  await open('127.0.0.1', []);
  assert.deepEqual(proxy.asked, []);
  // Directly there is no way to these addresses.
  for (const [host, except] of [
    [outside, ['198.51.100.0/24']],
    ['a.inner.example', ['.inner.example']],
    ['API.example.', ['api.example']],
    ['a.münchen.example', ['.münchen.example']],
    ['xn--mnchen-3ya.example', ['MÜNCHEN.example']],
  ] as const)
    await assert.rejects(
      open(host, [...except], outside),
      /E(?:TIMEDOUT|NETUNREACH|HOSTUNREACH|CONNREFUSED)/,
    );
  assert.deepEqual(proxy.asked, []);
  // Names that only look like the excepted ones.
  const others = ['b.example', 'xapi.example', 'sub.api.example', 'xinner.example', 'api.example.org'];
  for (const host of others) await open(host, ['.inner.example', 'api.example', '192.0.2.0/24'], outside);
  assert.equal(proxy.asked.length, others.length);
});

test('whether the proxy works is known from what it answered last, also when only a check asks', async () => {
  const clock = new TestClock();
  const proxy = await ConnectProxy.start();
  const { place } = proxy;
  const egress = new EgressProxy({ url: proxy.url, clock });
  const { health } = egress;
  assert.deepEqual(health.status(), { state: 'unchecked', sinceMs: null, reason: null });
  const startMs = clock.now();
  await egress.check(never);
  assert.deepEqual(health.status(), { state: 'ok', sinceMs: startMs, reason: null });
  assert.deepEqual(proxy.asked, ['CONNECT millrace-check.invalid:443']);
  // What it answered a moment ago is as good as a check.
  clock.step(59_000);
  await egress.check(never);
  assert.equal(proxy.asked.length, 1);
  clock.step(1_000);
  proxy.refusal = { status: 407, reason: 'Proxy Authentication Required' };
  const refused = `the proxy ${place} answers CONNECT to millrace-check.invalid:443 with 407: it expects the user and password of MILLRACE_EGRESS_PROXY`;
  await assert.rejects(egress.check(never), { message: refused });
  const failedMs = clock.now();
  assert.deepEqual(health.status(), { state: 'failing', sinceMs: failedMs, reason: refused });
  // Whatever else it answers, it works.
  proxy.refusal = { status: 403, reason: 'Forbidden' };
  clock.step(1_000);
  const policy = new AddressPolicy({ allow: ['198.51.100.0/24'], deny: () => egress.places, proxy: egress });
  await assert.rejects(dialPeer(outside, 443, { policy, connectTimeoutMs }));
  assert.deepEqual(health.status(), { state: 'ok', sinceMs: clock.now(), reason: null });
  await proxy[Symbol.asyncDispose]();
  clock.step(1_000);
  const awayMs = clock.now();
  await assert.rejects(dialPeer(outside, 443, { policy, connectTimeoutMs }));
  clock.step(1_000);
  const away = `the proxy ${place} cannot be reached: ECONNREFUSED`;
  await assert.rejects(egress.check(never), { message: away });
  assert.deepEqual(health.status(), { state: 'failing', sinceMs: awayMs, reason: away });
});

test('a check that a stop ends says nothing about the proxy', async () => {
  const silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const egress = new EgressProxy({ url: `http://127.0.0.1:${(silent.address() as AddressInfo).port}` });
  const stop = new AbortController();
  const checking = egress.check(stop.signal);
  const [socket] = (await once(silent, 'connection')) as [Socket];
  stop.abort(new Error('the service stops'));
  await assert.rejects(checking, { message: 'the service stops' });
  assert.equal(egress.health.status().state, 'unchecked');
  socket.destroy();
  silent.close();
});
