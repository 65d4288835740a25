import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { type VerifyWebhookOptions, verifyWebhook, WebhookVerificationError } from './verify-webhook.ts';

const secret = `whsec_${Buffer.from('a secret of 32 bytes, as it has').toString('base64')}`;
const other = `whsec_${Buffer.from('another one').toString('base64')}`;
const nowMs = 1_700_000_000_000;
const body = JSON.stringify({ text: 'ü', n: 1 });

/** Signed by the library that the scheme comes from. */
function signed(from: { secret?: string; at?: number; id?: string } = {}): Record<string, string> {
  const { id = 'dlv_1', at = nowMs } = from;
  return {
    'Webhook-Id': id,
    'Webhook-Timestamp': String(Math.floor(at / 1000)),
    'Webhook-Signature': new Webhook(from.secret ?? secret).sign(id, new Date(at), body),
    'X-Pd-Emitter-Id': 'dc_1',
    'X-Pd-Event-Id': '1-0',
  };
}

async function reasonOf(options: Partial<VerifyWebhookOptions>): Promise<string> {
  try {
    await verifyWebhook({ secret, headers: signed(), body, nowMs, ...options });
  } catch (error) {
    assert.ok(error instanceof WebhookVerificationError, String(error));
    return error.reason;
  }
  return 'verified';
}

test('a signed request is what it says, whatever its headers and body come as', async () => {
  const expected = {
    deliveryId: 'dlv_1',
    signedAt: new Date(nowMs),
    event: { text: 'ü', n: 1 },
    emitterId: 'dc_1',
    eventId: '1-0',
  };
  const bytes = new TextEncoder().encode(body);
  for (const headers of [signed(), new Headers(signed())])
    for (const form of [body, bytes, bytes.buffer])
      assert.deepEqual(await verifyWebhook({ secret, headers, body: form, nowMs }), expected);
});

test('one signature of one of the secrets is enough, as after a rotation', async () => {
  const both = { ...signed(), 'Webhook-Signature': `v1,AAAA v2,zzzz ${signed()['Webhook-Signature']}` };
  assert.equal(await reasonOf({ headers: both }), 'verified');
  assert.equal(await reasonOf({ secret: [other, secret] }), 'verified');
  assert.equal(await reasonOf({ secret: [other] }), 'wrong_signature');
});

test('what was changed, replayed, or signed with another secret is refused, with the reason', async () => {
  assert.equal(await reasonOf({ body: body.replace('1', '2') }), 'wrong_signature');
  assert.equal(await reasonOf({ headers: signed({ secret: other }) }), 'wrong_signature');
  assert.equal(await reasonOf({ headers: { ...signed(), 'Webhook-Id': 'dlv_2' } }), 'wrong_signature');
  assert.equal(
    await reasonOf({ headers: { ...signed(), 'Webhook-Signature': 'v1,%%% v1' } }),
    'wrong_signature',
  );
  assert.equal(await reasonOf({ nowMs: nowMs + 301_000 }), 'too_old');
  assert.equal(await reasonOf({ nowMs: nowMs - 301_000 }), 'too_new');
  assert.equal(await reasonOf({ nowMs: nowMs + 301_000, toleranceSeconds: 600 }), 'verified');
  for (const name of ['Webhook-Id', 'Webhook-Timestamp', 'Webhook-Signature'])
    assert.equal(await reasonOf({ headers: { ...signed(), [name]: undefined } }), 'headers_missing', name);
  assert.equal(await reasonOf({ headers: { ...signed(), 'Webhook-Timestamp': 'NaN' } }), 'headers_missing');
});

test('a secret that is none is the mistake of who verifies, not of who sent', async () => {
  for (const wrong of ['', 'whsec_', 'whsec_%%%', 'key', []])
    await assert.rejects(verifyWebhook({ secret: wrong, headers: signed(), body, nowMs }), TypeError);
});
