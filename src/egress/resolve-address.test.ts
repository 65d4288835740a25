import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { canonicalHost } from '#lib/canonical-host.ts';
import { AddressPolicy } from './address-policy.ts';
import { dialVetted } from './dial-vetted.ts';
import { type LookupAll, resolveAndVet } from './resolve-address.ts';

const open = new AddressPolicy({ allow: ['public'], deny: () => [] });
const local = new AddressPolicy({ allow: ['public', 'local'], deny: () => [] });
const noLookup: LookupAll = async (name) => assert.fail(`no look-up expected, but ${name} was asked`);
const answering =
  (...addresses: string[]): LookupAll =>
  async () =>
    addresses.map((address) => ({ address }));

test('every spelling of a loopback, private or metadata address is refused without asking a resolver', async () => {
  const hosts = [
    ...[
      '127.0.0.1',
      '[::1]',
      '::1',
      '[::]',
      '0.0.0.0',
      '2130706433',
      '0x7f000001',
      '0177.0.0.1',
      '127.1',
      '0',
    ],
    ...[
      '１２７.0.0.1',
      '127。0。0。1',
      '%31%32%37.0.0.1',
      '127.0.0.1.',
      'localhost',
      'LOCALHOST',
      'localhost.',
    ],
    ...[
      'foo.localhost',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '::127.0.0.1',
      '64:ff9b::7f00:1',
      '2002:7f00:1::',
    ],
    ...['fe80::1%eth0', 'fd00:ec2::254', '169.254.169.254', '0xA9.0xFE.0xA9.0xFE', '169.254.43518'],
    ...['100.100.100.200', '192.0.0.192', '168.63.129.16', '10.0.0.1', '[fd00::1]'],
  ];
  for (const host of hosts) {
    await assert.rejects(resolveAndVet(host, 80, open, { lookup: noLookup }), { code: 'EACCES' }, host);
  }
});

test('what is no host is not found, and never a way to name another one', async () => {
  const hosts = [
    '',
    ' ',
    'a b',
    'example.com/x',
    'example.com@127.0.0.1',
    '127.0.0.1#@example.com',
    'a\\b',
    'a:80',
    'a\n',
    '[',
    ']',
  ];
  for (const host of [
    ...hosts,
    'example.com:80@127.0.0.1:22',
    'unix:/x',
    'a\0b',
    'a%00b',
    'x'.repeat(2_000),
    '256.1.1.1',
    'nowhere.invalid',
  ]) {
    await assert.rejects(resolveAndVet(host, 80, local, { lookup: noLookup }), { code: 'ENOTFOUND' }, host);
  }
});

test('names are read once: lower case, IDNA, no brackets', () => {
  assert.equal(canonicalHost('EXAMPLE.com'), 'example.com');
  assert.equal(canonicalHost('bücher.example'), 'xn--bcher-kva.example');
  assert.equal(canonicalHost('[2606:4700::1]'), '2606:4700::1');
  assert.equal(canonicalHost('under_score.example'), 'under_score.example');
});

test('only the allowed addresses of a name are given out, and a name with none is refused', async () => {
  const mixed = answering('10.0.0.1', '1.1.1.1', '::ffff:127.0.0.1', '2606:4700::1111', '64:ff9b::7f00:1');
  assert.deepEqual(await resolveAndVet('mixed.example', 80, open, { lookup: mixed }), {
    addresses: ['1.1.1.1', '2606:4700::1111'],
    port: 80,
  });
  for (const address of [
    '10.0.0.1',
    '::1',
    '::ffff:127.0.0.1',
    '64:ff9b::7f00:1',
    'fd00:ec2::254',
    'not an address',
  ]) {
    await assert.rejects(
      resolveAndVet('inside.example', 80, open, { lookup: answering(address) }),
      { code: 'EACCES' },
      address,
    );
  }
});

test('a refusal says what was found, names the setting, and keeps addresses behind names to itself', async () => {
  await assert.rejects(
    resolveAndVet('db.example', 5432, open, { lookup: answering('10.7.7.7') }),
    (error: Error) => {
      assert.match(
        error.message,
        /db\.example:5432 is not allowed: it is a private address\. MILLRACE_EGRESS is "public"/,
      );
      assert.doesNotMatch(error.message, /10\.7\.7\.7/);
      return true;
    },
  );
});

test('resolver errors keep their code where clients retry on it, and are ENOTFOUND otherwise', async () => {
  const failing =
    (code: string): LookupAll =>
    () =>
      Promise.reject(Object.assign(new Error('x'), { code }));
  await assert.rejects(resolveAndVet('a.example', 80, open, { lookup: failing('EAI_AGAIN') }), {
    code: 'EAI_AGAIN',
  });
  await assert.rejects(resolveAndVet('a.example', 80, open, { lookup: failing('ESERVFAIL') }), {
    code: 'ENOTFOUND',
  });
  await assert.rejects(resolveAndVet('a.example', 80, open, { lookup: answering() }), { code: 'ENOTFOUND' });
});

test('a rebinding name is resolved once, and the vetted address is dialled', async () => {
  const server = createServer((socket) => socket.on('error', () => {}).end()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let asked = 0;
  const rebinding: LookupAll = async () => {
    asked += 1;
    return asked === 1 ? [{ address: '10.255.255.1' }, { address: '127.0.0.1' }] : [{ address: '127.0.0.9' }];
  };
  const policy = new AddressPolicy({ allow: ['127.0.0.0/8'], deny: () => [] });
  const socket = await dialVetted('rebind.example', port, {
    policy,
    connectTimeoutMs: 5_000,
    lookup: rebinding,
  });
  assert.equal(socket.remoteAddress, '127.0.0.1');
  assert.equal(asked, 1);
  socket.destroy();
  server.close();
});

test('several vetted addresses are tried until one answers', async () => {
  const server = createServer((socket) => socket.on('error', () => {}).end()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const lookup = answering('127.0.0.9', '::1', '127.0.0.1');
  const socket = await dialVetted('several.example', port, {
    policy: local,
    connectTimeoutMs: 5_000,
    lookup,
  });
  assert.equal(socket.remoteAddress, '127.0.0.1');
  socket.destroy();
  server.close();
  await once(server, 'close');
  await assert.rejects(
    dialVetted('several.example', port, { policy: local, connectTimeoutMs: 5_000, lookup }),
    { code: 'ECONNREFUSED' },
  );
});

test('a resolver that does not answer ends in ETIMEDOUT, and a given signal ends the wait at once', async () => {
  const silent: LookupAll = () => new Promise(() => {});
  const stay = setInterval(() => {}, 1_000);
  await assert.rejects(
    dialVetted('slow.example', 80, { policy: open, connectTimeoutMs: 20, lookup: silent }),
    { code: 'ETIMEDOUT' },
  );
  const signal = AbortSignal.abort(new Error('enough'));
  await assert.rejects(
    dialVetted('slow.example', 80, { policy: open, connectTimeoutMs: 20_000, lookup: silent, signal }),
    /enough/,
  );
  clearInterval(stay);
});

test('a connection that the operator leads elsewhere goes there, and the name it was meant for is not looked up', async () => {
  const server = createServer((socket) => socket.on('error', () => {}).end()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const asked: string[] = [];
  const lookup: LookupAll = async (name) => {
    asked.push(name);
    return [{ address: '127.0.0.1' }];
  };
  const policy = new AddressPolicy({
    allow: ['local'],
    connectTo: [`api.example:443:mirror.example:${port}`, '[2001:db8::1]:443:127.0.0.1:'],
    deny: () => [],
  });
  const socket = await dialVetted('API.example', 443, { policy, connectTimeoutMs: 5_000, lookup });
  assert.equal(socket.remotePort, port);
  assert.deepEqual(asked, ['mirror.example']);
  socket.destroy();
  server.close();
  assert.deepEqual(await resolveAndVet('[2001:db8::1]', 443, policy, { lookup: noLookup }), {
    addresses: ['127.0.0.1'],
    port: 443,
  });
});

test('where a connection is led to is vetted like any other, port and all', async () => {
  const connectTo = [
    'api.example:443:[::1]:8443',
    'inner.example:443:inside.example:',
    'self.example:443:127.0.0.1:8080',
  ];
  const strict = new AddressPolicy({ allow: ['public'], connectTo, deny: () => [] });
  await assert.rejects(
    dialVetted('api.example', 443, { policy: strict, connectTimeoutMs: 5_000, lookup: noLookup }),
    {
      code: 'EACCES',
      message: /api\.example:443 is not allowed where MILLRACE_CONNECT_TO leads it: it is a loopback address/,
    },
  );
  await assert.rejects(
    resolveAndVet('inner.example', 443, strict, { lookup: answering('10.7.7.7') }),
    (error: Error) => error.message.includes('a private address') && !error.message.includes('10.7.7.7'),
  );
  const own = [{ address: '127.0.0.1', port: 8080 }];
  const near = new AddressPolicy({ allow: ['local'], connectTo, deny: () => own });
  await assert.rejects(resolveAndVet('self.example', 443, near, { lookup: noLookup }), {
    code: 'EACCES',
    message: /: the service itself, its database or its proxy listens there, which is never reachable$/,
  });
});
