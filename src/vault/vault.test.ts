import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DataKey, keyIdOf, Vault } from './vault.ts';

const masterKey = Buffer.alloc(32, 7);
const credentials = { api_key: 's3cr3t-value', nested: { n: 1, text: 'é' } };

function sealOne() {
  const vault = new Vault(masterKey);
  const key = vault.newDataKey('u_owner');
  return { vault, key, sealed: vault.seal(key, 'apn_1', credentials) };
}

test('what was sealed opens again, also in another process with the same master key', () => {
  const { vault, key, sealed } = sealOne();
  assert.deepEqual(vault.open(key, 'apn_1', sealed), credentials);
  assert.deepEqual(new Vault(Buffer.from(masterKey)).open(key, 'apn_1', sealed), credentials);
});

test('neither text shows a secret, and sealing twice gives two texts', () => {
  const { vault, key, sealed } = sealOne();
  assert.match(sealed, /^v1\.[0-9a-f]{16}\.[A-Za-z0-9_-]+$/);
  assert.equal(keyIdOf(sealed), key.keyId);
  assert.equal(Buffer.from(sealed.split('.')[2] ?? '', 'base64url').includes('s3cr3t-value'), false);
  assert.notEqual(vault.seal(key, 'apn_1', credentials), sealed);
});

test('another master key is distinguished from damage, and changes nothing', () => {
  const { vault, key, sealed } = sealOne();
  const other = new Vault(Buffer.alloc(32, 8));
  const wrong = { name: 'UnavailableError', code: 'wrong_encryption_key', message: /another encryption key/ };
  assert.throws(() => other.open(key, 'apn_1', sealed), wrong);
  assert.throws(() => other.seal(key, 'apn_1', credentials), wrong);
  assert.deepEqual(vault.open(key, 'apn_1', sealed), credentials);
});

test('a text of another object, owner or data key does not open', () => {
  const { vault, key, sealed } = sealOne();
  const damaged = { code: 'sealed_value_damaged' };
  assert.throws(() => vault.open(key, 'apn_2', sealed), damaged);
  assert.throws(() => vault.open({ ...key, ownerId: 'u_other' }, 'apn_1', sealed), damaged);
  assert.throws(() => vault.open(vault.newDataKey('u_owner'), 'apn_1', sealed), damaged);
  const other = vault.newDataKey('u_owner');
  assert.throws(() => vault.open({ ...other, keyId: key.keyId }, 'apn_1', sealed), damaged);
});

test('no bit of either text can be changed', () => {
  const { vault, key, sealed } = sealOne();
  const flip = (text: string, index: number) => {
    const [version, keyId, payload = ''] = text.split('.');
    const bytes = Buffer.from(payload, 'base64url');
    bytes[index] = (bytes[index] ?? 0) ^ 1;
    return `${version}.${keyId}.${bytes.toString('base64url')}`;
  };
  const damaged = { code: 'sealed_value_damaged' };
  const length = Buffer.from(sealed.split('.')[2] ?? '', 'base64url').length;
  for (let index = 0; index < length; index += 1) {
    assert.throws(() => vault.open(key, 'apn_1', flip(sealed, index)), damaged);
  }
  for (let index = 0; index < 60; index += 1) {
    assert.throws(() => vault.open({ ...key, wrapped: flip(key.wrapped, index) }, 'apn_1', sealed), damaged);
  }
  for (const broken of [
    '',
    'v1',
    `v2${sealed.slice(2)}`,
    sealed.slice(0, -4),
    `${sealed}AAAA`,
    `v1.${key.keyId}.AAAA`,
  ]) {
    assert.throws(() => vault.open(key, 'apn_1', broken), damaged);
  }
  assert.throws(() => vault.open({ ...key, wrapped: 'x' } satisfies DataKey, 'apn_1', sealed), damaged);
});

test('a master key has 32 bytes', () => {
  assert.throws(() => new Vault(Buffer.alloc(16)), /16 bytes instead of 32/);
});
