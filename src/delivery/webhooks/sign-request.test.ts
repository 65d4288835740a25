import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { newSigningSecret, signatureHeaders, signingKey } from './sign-request.ts';

const body = '{"text":"żółw 💥\\u0000","n":1.50}';
// The library refuses timestamps of other days.
const message = { id: 'dlv_1', nowMs: Date.now(), body: Buffer.from(body) };

test('a new secret is whsec_ and 32 random bytes', () => {
  const secret = newSigningSecret();
  assert.match(secret, /^whsec_[0-9A-Za-z+/]{43}=$/);
  assert.equal(signingKey(secret).bytes.length, 32);
  assert.notEqual(newSigningSecret(), secret);
});

test('the public library verifies the headers, and nothing that was changed', () => {
  const secret = newSigningSecret();
  const headers = signatureHeaders([signingKey(secret)], message);
  const receiver = new Webhook(secret);
  assert.deepEqual(receiver.verify(body, headers), JSON.parse(body));
  assert.equal(headers['webhook-id'], 'dlv_1');
  assert.throws(() => receiver.verify(body.replace('1.50', '1.51'), headers));
  assert.throws(() => receiver.verify(body, { ...headers, 'webhook-id': 'dlv_2' }));
  const later = String(Number(headers['webhook-timestamp']) + 1);
  assert.throws(() => receiver.verify(body, { ...headers, 'webhook-timestamp': later }));
  assert.throws(() => new Webhook(newSigningSecret()).verify(body, headers));
});

test('it is what the library itself would have signed', () => {
  const secret = newSigningSecret();
  const { 'webhook-signature': signature } = signatureHeaders([signingKey(secret)], message);
  assert.equal(signature, new Webhook(secret).sign(message.id, new Date(message.nowMs), body));
});

test('with two keys, receivers with either secret verify it', () => {
  const [newest, old, third] = [newSigningSecret(), newSigningSecret(), newSigningSecret()];
  const headers = signatureHeaders([signingKey(newest), signingKey(old)], message);
  for (const secret of [newest, old]) new Webhook(secret).verify(body, headers);
  assert.throws(() => new Webhook(third).verify(body, headers));
});

test('x-pd-signature is the HMAC over time and body, keyed with the text of the secret', () => {
  const [newest, old] = [newSigningSecret(), newSigningSecret()];
  const headers = signatureHeaders([signingKey(newest), signingKey(old)], message);
  const seconds = Math.floor(message.nowMs / 1000);
  const hex = (secret: string) => createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex');
  assert.equal(headers['x-pd-signature'], `t=${seconds},v1=${hex(newest)},v1=${hex(old)}`);
  assert.equal(headers['x-pd-timestamp'], new Date(message.nowMs).toISOString());
});
