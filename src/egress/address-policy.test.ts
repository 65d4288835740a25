import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseIpAddress, parseIpRange } from '#lib/ip-address.ts';
import { AddressPolicy } from './address-policy.ts';

function policy(allow: string[], deny: { address: string; port: number }[] = []): AddressPolicy {
  return new AddressPolicy({ allow, deny: () => deny });
}

const neverPublic = [
  ...['0.0.0.0', '0.1.2.3', '10.0.0.0', '10.255.255.255', '100.64.0.1', '100.127.255.255', '100.100.100.200'],
  ...[
    '127.0.0.1',
    '127.0.0.2',
    '127.255.255.255',
    '169.254.0.1',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
  ],
  ...['192.0.0.1', '192.0.0.192', '192.0.2.1', '192.88.99.1', '192.168.0.1', '192.168.255.255', '198.18.0.1'],
  ...['198.19.255.255', '198.51.100.7', '203.0.113.9', '224.0.0.1', '239.255.255.255', '240.0.0.1'],
  ...['255.255.255.255', '168.63.129.16'],
  ...[
    '::',
    '::1',
    '[::1]',
    '::127.0.0.1',
    '::7f00:1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:10.0.0.1',
  ],
  ...['::ffff:169.254.169.254', '64:ff9b::7f00:1', '64:ff9b::10.0.0.1', '64:ff9b:1::1', '100::1', '2001::1'],
  ...[
    '2001:0:4136:e378::1',
    '2001:1ff:ffff::',
    '2001:db8::1',
    '2002:7f00:1::',
    '2002:0808:0808::1',
    '3fff::1',
  ],
  ...[
    '3fff:fff:ffff::1',
    '4000::1',
    'fc00::1',
    'fd00:ec2::254',
    'fd12::1',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
  ],
  ...['ff02::1', '5f00::1', '0:0:0:0:0:ffff:7f00:0001', '0000:0000:0000:0000:0000:0000:0000:0001'],
];
const publicAddresses = [
  ...['1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255'],
  ...[
    '128.0.0.0',
    '169.253.255.255',
    '169.255.0.0',
    '172.15.255.255',
    '172.32.0.0',
    '192.0.1.0',
    '192.167.255.255',
  ],
  ...['192.169.0.0', '198.17.255.255', '198.20.0.0', '223.255.255.255', '168.63.129.15', '::ffff:8.8.8.8'],
  ...[
    '64:ff9b::808:808',
    '2606:4700::1111',
    '2001:200::1',
    '2001:4860:4860::8888',
    '2003::1',
    '3ffe::1',
    '3fff:1000::1',
  ],
  ...['2a00::', '2620:0:2d0:200::7'],
];

test('public means global unicast, in every spelling of an address', () => {
  for (const address of neverPublic)
    assert.equal(policy(['public']).check(address, 80).allowed, false, address);
  for (const address of publicAddresses)
    assert.equal(policy(['public']).check(address, 80).allowed, true, address);
});

test('text that is no IP literal is refused, however it looks', () => {
  const texts = [
    '',
    'localhost',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '127.1',
    '1.1.1.1.',
    '1.1.1.1:80',
    ' 1.1.1.1',
  ];
  for (const text of [...texts, '１.1.1.1', '1。1.1.1', '1.1.1.1/8', '[1.1.1.1', '::1]', 'example.com']) {
    assert.equal(policy(['public', 'local', '0.0.0.0/0', '::/0']).check(text, 80).allowed, false, text);
  }
});

test('local opens loopback, private and unique-local addresses, and nothing of the link or the cloud', () => {
  const local = [
    '127.0.0.1',
    '127.9.9.9',
    '::1',
    '::ffff:127.0.0.1',
    '10.1.2.3',
    '172.20.0.1',
    '192.168.1.1',
    'fd00::2',
  ];
  for (const address of local) assert.equal(policy(['local']).check(address, 80).allowed, true, address);
  const closed = [
    '0.0.0.0',
    '::',
    '169.254.1.1',
    '169.254.169.254',
    'fe80::1',
    'fd00:ec2::254',
    '100.100.100.200',
  ];
  for (const address of [...closed, '168.63.129.16', '100.64.0.1', '8.8.8.8', '224.0.0.1']) {
    assert.equal(policy(['local']).check(address, 80).allowed, false, address);
  }
});

test('a CIDR opens exactly its addresses', () => {
  const some = policy(['10.1.0.0/16', 'fd12:3456::/32', '192.168.7.7']);
  for (const address of ['10.1.0.0', '10.1.255.255', '::ffff:10.1.2.3', 'fd12:3456:ffff::1', '192.168.7.7']) {
    assert.equal(some.check(address, 80).allowed, true, address);
  }
  for (const address of ['10.0.255.255', '10.2.0.0', 'fd12:3457::', '192.168.7.8', '1.1.1.1']) {
    assert.equal(some.check(address, 80).allowed, false, address);
  }
});

test('metadata addresses are opened by no range, only by name', () => {
  const wide = policy(['public', 'local', '0.0.0.0/0', '::/0', '169.254.0.0/16', '100.64.0.0/10']);
  for (const address of [
    '169.254.169.254',
    '::ffff:a9fe:a9fe',
    '100.100.100.200',
    '168.63.129.16',
    'fd00:ec2::254',
  ]) {
    assert.equal(wide.check(address, 80).allowed, false, address);
  }
  assert.equal(wide.check('169.254.1.1', 80).allowed, true);
  assert.equal(policy(['169.254.169.254/32']).check('169.254.169.254', 80).allowed, true);
});

test('the platform on loopback is denied in every form that reaches it, on its port only', () => {
  const own = Object.values(networkInterfaces()).flatMap((entries) =>
    (entries ?? []).map((entry) => entry.address),
  );
  for (const address of ['127.0.0.1', 'localhost', '::1', '0.0.0.0', '::', '::ffff:127.0.0.1', '[::1]']) {
    const denying = policy(['public', 'local', '0.0.0.0/0', '::/0'], [{ address, port: 8080 }]);
    for (const target of [
      '127.0.0.1',
      '127.0.0.2',
      '0.0.0.0',
      '::',
      '::1',
      '[::1]',
      '::ffff:127.0.0.1',
      ...own,
    ]) {
      assert.equal(denying.check(target, 8080).allowed, false, `${address} ${target}`);
    }
    assert.equal(denying.check('127.0.0.1', 8081).allowed, true);
    assert.equal(denying.check('1.1.1.1', 8080).allowed, true);
  }
});

test('a denied address elsewhere is denied on its port, and a denied name denies its port everywhere', () => {
  const database = policy(['local'], [{ address: '10.0.0.5', port: 5432 }]);
  assert.equal(database.check('10.0.0.5', 5432).allowed, false);
  assert.equal(database.check('::ffff:10.0.0.5', 5432).allowed, false);
  assert.equal(database.check('10.0.0.6', 5432).allowed, true);
  assert.equal(database.check('127.0.0.1', 5432).allowed, true);
  const named = policy(['local'], [{ address: 'db.internal', port: 5432 }]);
  assert.equal(named.check('10.0.0.6', 5432).allowed, false);
  assert.equal(named.check('10.0.0.6', 5433).allowed, true);
});

test('the denied addresses are asked at every check, because the port is known late', () => {
  let port = 0;
  const late = new AddressPolicy({ allow: ['local'], deny: () => [{ address: '127.0.0.1', port }] });
  assert.equal(late.check('127.0.0.1', 4000).allowed, true);
  port = 4000;
  assert.equal(late.check('127.0.0.1', 4000).allowed, false);
});

test('a setting that is no rule is refused and named', () => {
  for (const entry of ['private', '10.0.0.0/33', '10.0.0/8', '::/129', 'example.com', '10.0.0.0/', '']) {
    assert.throws(
      () => policy([entry]),
      { message: /^MILLRACE_EGRESS: expected public, local or a CIDR/ },
      entry,
    );
  }
});

test('any address is the same number in every spelling, and inside its own range', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 }), (groups) => {
      const plain = groups.map((group) => group.toString(16)).join(':');
      const short = new URL(`http://[${plain}]/`).hostname.slice(1, -1);
      const value = groups.reduce((sum, group) => (sum << 16n) | BigInt(group), 0n);
      assert.equal(parseIpAddress(plain)?.value, value);
      assert.equal(parseIpAddress(short)?.value, value);
      assert.equal(parseIpRange(`${short}/128`)?.base, value);
    }),
  );
});

test('an address with the prefix of a network is refused, with the network and the address to write', () => {
  for (const [entry, network, address] of [
    ['10.1.2.3/8', '10.0.0.0/8', '10.1.2.3'],
    ['192.168.1.1/31', '192.168.1.0/31', '192.168.1.1'],
    ['fd00:1::5/16', 'fd00::/16', 'fd00:1::5'],
    ['::1/0', '::/0', '::1'],
  ] as const)
    assert.throws(() => policy([entry]), {
      message: `MILLRACE_EGRESS: "${entry}" is an address in ${network}; write ${network} for all of that network, or ${address} for the one address`,
    });
  policy(['10.0.0.0/8', '10.1.2.3/32', '10.1.2.3', 'fd00::/16', '::1', '::1/128']);
});
