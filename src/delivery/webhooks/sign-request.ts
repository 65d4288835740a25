import { createHmac, randomBytes } from 'node:crypto';

const secretPrefix = 'whsec_';
/** Standard Webhooks asks for 24 to 64 bytes. */
const secretBytes = 32;

/** A new signing secret: `whsec_` and base64. */
export function newSigningSecret(): string {
  return `${secretPrefix}${randomBytes(secretBytes).toString('base64')}`;
}

/** A secret and its bytes, read once. */
export interface SigningKey {
  /** As its owner has it: the key of `x-pd-signature`. */
  text: string;
  bytes: Buffer;
}

export function signingKey(secret: string): SigningKey {
  return { text: secret, bytes: Buffer.from(secret.slice(secretPrefix.length), 'base64') };
}

/**
 * The signature headers of a request, one signature for each key that is valid, the newest first.
 *
 * - `webhook-id`, `webhook-timestamp`, `webhook-signature`: Standard Webhooks (https://www.standardwebhooks.com), which
 *   libraries in all languages verify. Signed here with node:crypto, and verified by the public library in our tests:
 *   that library hashes in JavaScript, which costs four times as much for 1 kB and holds the whole process for 60 ms
 *   for an event of 6 MB, once for each of its receivers.
 * - `x-pd-timestamp`, `x-pd-signature`: as receivers of the service we follow know it, HMAC-SHA256 in hex over
 *   `<t>.<body>`, keyed with the text of the secret.
 */
export function signatureHeaders(
  keys: readonly SigningKey[],
  message: { id: string; nowMs: number; body: Uint8Array },
): Record<string, string> {
  const { id, nowMs, body } = message;
  const seconds = Math.floor(nowMs / 1000);
  const standard = keys.map(({ bytes }) => `v1,${hmac(bytes, `${id}.${seconds}.`, body).digest('base64')}`);
  const hex = keys.map(({ text }) => `v1=${hmac(text, `${seconds}.`, body).digest('hex')}`);
  return {
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': standard.join(' '),
    'x-pd-timestamp': new Date(nowMs).toISOString(),
    'x-pd-signature': `t=${seconds},${hex.join(',')}`,
  };
}

function hmac(key: string | Buffer, start: string, body: Uint8Array) {
  return createHmac('sha256', key).update(start).update(body);
}
