import assert from 'node:assert/strict';
import { testActions } from '../../test/support/test-actions.ts';

const uuid = (version: string) => (value: unknown) =>
  assert.match(
    String(value),
    new RegExp(`^[0-9a-f]{8}-[0-9a-f]{4}-${version}[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
  );

testActions(
  ['crypto'],
  [
    ['crypto-hash', { input: 'hello', algorithm: 'md5' }, '5d41402abc4b2a76b9719d911017c592'],
    ['crypto-hash', { input: 'hello', encoding: 'base64' }, 'LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ='],
    [
      'crypto-hash',
      { input: 'hello', algorithm: 'crc' },
      /^algorithm: found "crc", expected one of sha256, /,
    ],
    [
      'crypto-hash',
      { input: 'hello', encoding: 'utf8' },
      /^encoding: found "utf8", expected one of hex, base64, base64url$/,
    ],

    // RFC 4231, test case 2.
    [
      'crypto-hmac',
      { input: 'what do ya want for nothing?', secret: 'Jefe' },
      '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
    ],
    [
      'crypto-hmac',
      {
        input: 'what do ya want for nothing?',
        secret: 'SmVmZQ==',
        secretEncoding: 'base64',
        encoding: 'base64',
      },
      'W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=',
    ],
    ['crypto-hmac', { input: 'x', secret: '' }, /^secret: found nothing, expected a secret in utf8$/],
    [
      'crypto-hmac',
      { input: 'x', secret: 'xyz', secretEncoding: 'hex' },
      /^secret: found nothing, expected a secret in hex$/,
    ],

    ['crypto-generate-uuid', {}, uuid('4')],
    ['crypto-generate-uuid', { version: '7' }, uuid('7')],
    ['crypto-generate-uuid', { version: '1' }, /^version: found "1", expected 4 or 7$/],
  ],
);
