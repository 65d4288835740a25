/** A request that reached a webhook, and that Millrace signed. */
export interface WebhookRequest<Event> {
  /**
   * The id of the delivery (`webhook-id`), the same for each of its attempts: forget requests whose id you have seen, since a delivery
   * may come more than once.
   */
  readonly deliveryId: string;
  /** When this attempt was signed. */
  readonly signedAt: Date;
  /** What was emitted: the body. */
  readonly event: Event;
  /** dc_… or p_…; undefined where the header is absent. It is not signed. */
  readonly emitterId: string | undefined;
  /** Id of the event; undefined where the header is absent. It is not signed. */
  readonly eventId: string | undefined;
}

export interface VerifyWebhookOptions {
  /** `signing_secret` of the webhook (`whsec_…`), or several, any of which may have signed. */
  secret: string | readonly string[];
  /** The headers of the request: a Headers, or an object of names in any letter case, such as Node's `request.headers`. */
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The body exactly as it came: JSON that was parsed and written again has another signature. */
  body: string | Uint8Array | ArrayBuffer;
  /** How old a request may be, or how far ahead its clock; default 300. A larger one lets who recorded a request send it again. */
  toleranceSeconds?: number;
  /** Epoch milliseconds; default now. */
  nowMs?: number;
}

/** The request is not to be trusted: answer 400 and do nothing else. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError';
  readonly reason: 'headers_missing' | 'too_old' | 'too_new' | 'wrong_signature' | 'body_not_json';

  constructor(reason: WebhookVerificationError['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

const toleranceDefaultSeconds = 300;
const secretPrefix = 'whsec_';

/**
 * What came to a webhook, when its signature is one of Millrace's (Standard Webhooks, https://www.standardwebhooks.com). Rejects
 * with WebhookVerificationError when the request is not to be trusted, TypeError for a secret that is none.
 */
export async function verifyWebhook<Event = unknown>(
  options: VerifyWebhookOptions,
): Promise<WebhookRequest<Event>> {
  const { headers, toleranceSeconds = toleranceDefaultSeconds, nowMs = Date.now() } = options;
  const deliveryId = headerOf(headers, 'webhook-id');
  const timestamp = headerOf(headers, 'webhook-timestamp');
  const signature = headerOf(headers, 'webhook-signature');
  if (deliveryId === undefined || signature === undefined || !/^\d{1,12}$/.test(timestamp ?? '')) {
    throw new WebhookVerificationError(
      'headers_missing',
      'the request has no webhook-id, webhook-timestamp and webhook-signature',
    );
  }
  const seconds = Number(timestamp);
  const ageSeconds = nowMs / 1000 - seconds;
  if (ageSeconds > toleranceSeconds)
    throw new WebhookVerificationError(
      'too_old',
      `the request was signed ${Math.round(ageSeconds)} s ago, ${toleranceSeconds} s are allowed`,
    );
  if (ageSeconds < -toleranceSeconds)
    throw new WebhookVerificationError(
      'too_new',
      `the request was signed ${Math.round(-ageSeconds)} s in the future, ${toleranceSeconds} s are allowed`,
    );
  const body = bytesOf(options.body);
  const signed = joined(new TextEncoder().encode(`${deliveryId}.${timestamp}.`), body);
  const secrets = typeof options.secret === 'string' ? [options.secret] : options.secret;
  if (!(await isSignedBy(secrets, signature, signed)))
    throw new WebhookVerificationError('wrong_signature', 'no signature of the request is one of the secret');
  return {
    deliveryId,
    signedAt: new Date(seconds * 1000),
    event: parsed(body) as Event,
    emitterId: headerOf(headers, 'x-pd-emitter-id'),
    eventId: headerOf(headers, 'x-pd-event-id'),
  };
}

/** Compared by Web Crypto, which takes the same time wherever they differ. */
async function isSignedBy(
  secrets: readonly string[],
  signature: string,
  signed: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  if (secrets.length === 0) throw new TypeError('secret: expected at least one');
  const keys = await Promise.all(secrets.map(keyOf));
  const signatures = signature
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .map((one) => fromBase64(one.slice('v1,'.length)));
  for (const key of keys) {
    for (const bytes of signatures) {
      if (bytes !== undefined && (await crypto.subtle.verify('HMAC', key, bytes, signed))) return true;
    }
  }
  return false;
}

async function keyOf(secret: string): Promise<CryptoKey> {
  const bytes = secret.startsWith(secretPrefix) ? fromBase64(secret.slice(secretPrefix.length)) : undefined;
  if (bytes === undefined || bytes.length === 0)
    throw new TypeError(`secret: expected ${secretPrefix} and base64, the signing_secret of the webhook`);
  return await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
}

function headerOf(headers: VerifyWebhookOptions['headers'], name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  return typeof found === 'string' || found === undefined ? found : found.join(' ');
}

function bytesOf(body: VerifyWebhookOptions['body']): Uint8Array {
  if (typeof body === 'string') return new TextEncoder().encode(body);
  return body instanceof ArrayBuffer ? new Uint8Array(body) : body;
}

function joined(start: Uint8Array, end: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(start.length + end.length);
  bytes.set(start);
  bytes.set(end, start.length);
  return bytes;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    throw new WebhookVerificationError('body_not_json', 'the body is signed, but is not JSON');
  }
}
