import { createHmac, randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { HttpReceiver, type ReceivedRequest, type ReceiverAnswer } from './http-receiver.ts';

export interface ProviderToken {
  key: string;
  secret: string;
}

interface TemporaryToken extends ProviderToken {
  callback: string;
  /** Set when the user has agreed. */
  verifier: string | undefined;
}

/** What was called with a good signature. */
export interface AcceptedCall {
  method: string;
  /** Path with query, as sent. */
  url: string;
  body: string;
  token: string;
}

const methods: Record<string, string> = { 'HMAC-SHA1': 'sha1', 'HMAC-SHA256': 'sha256' };
const clockSkewSeconds = 300;

/**
 * An OAuth 1.0a provider: temporary credentials, a user who agrees immediately, tokens, and an API below `/api/` that
 * is answered only when the signature fits. It reads requests as they came over the wire, after RFC 5849 and without
 * any code of the service, so that a mistake of the service shows. Problems are answered as 401 with `oauth_problem`.
 */
export class OAuth1Provider {
  readonly consumer = { key: 'consumer-key-0123', secret: 'consumer-secret-&%-canary' };
  readonly uid = 'user-77';
  readonly accepted: AcceptedCall[] = [];
  /** Why requests were refused, in order. */
  readonly problems: string[] = [];
  readonly receiver: HttpReceiver;
  readonly #temporary = new Map<string, TemporaryToken>();
  readonly #tokens = new Map<string, ProviderToken>();
  readonly #nonces = new Set<string>();

  private constructor(receiver: HttpReceiver) {
    this.receiver = receiver;
    receiver.answerAlways((request, response) => this.#answer(request, response));
  }

  static async start(options: { tls?: { key: string; cert: string } } = {}): Promise<OAuth1Provider> {
    return new OAuth1Provider(await HttpReceiver.start(options));
  }

  get url(): string {
    return this.receiver.url;
  }

  close(): Promise<void> {
    return this.receiver.close();
  }

  /** An access token as if a user had connected before. */
  addToken(): ProviderToken {
    const token = newToken('access');
    this.#tokens.set(token.key, token);
    return token;
  }

  revoke(key: string): void {
    this.#tokens.delete(key);
  }

  #answer(request: ReceivedRequest, _response: ServerResponse): ReceiverAnswer {
    const url = new URL(request.url, this.url);
    if (url.pathname === '/oauth/authorize') return this.#authorize(url);
    try {
      if (request.method === 'POST' && url.pathname === '/oauth/request_token') return this.#request(request);
      if (request.method === 'POST' && url.pathname === '/oauth/access_token') return this.#exchange(request);
      if (url.pathname.startsWith('/api/')) return this.#api(request);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.problems.push(error.message);
      return {
        status: 401,
        headers: { 'www-authenticate': `OAuth realm="stand-in", oauth_problem="${error.message}"` },
        body: `oauth_problem=${error.message}`,
      };
    }
    return { status: 404, body: 'nothing here' };
  }

  #request(request: ReceivedRequest): ReceiverAnswer {
    const parameters = this.#verify(request, () => '', false);
    const callback = parameters.get('oauth_callback');
    if (callback === undefined) throw new Problem('parameter_absent');
    const token = newToken('temporary');
    this.#temporary.set(token.key, { ...token, callback, verifier: undefined });
    return form({
      oauth_token: token.key,
      oauth_token_secret: token.secret,
      oauth_callback_confirmed: 'true',
    });
  }

  /** With `deny=1` the user refuses. */
  #authorize(url: URL): ReceiverAnswer {
    const token = this.#temporary.get(url.searchParams.get('oauth_token') ?? '');
    if (token === undefined) return { status: 400, body: 'unknown oauth_token' };
    const back = new URL(token.callback);
    if (url.searchParams.get('deny') === '1') {
      back.searchParams.set('denied', token.key);
    } else {
      token.verifier = randomBytes(8).toString('hex');
      back.searchParams.set('oauth_token', token.key);
      back.searchParams.set('oauth_verifier', token.verifier);
    }
    return { status: 302, headers: { location: back.href } };
  }

  #exchange(request: ReceivedRequest): ReceiverAnswer {
    let used: TemporaryToken | undefined;
    const parameters = this.#verify(
      request,
      (key) => {
        used = this.#temporary.get(key);
        return used?.secret;
      },
      true,
    );
    if (used?.verifier === undefined || parameters.get('oauth_verifier') !== used.verifier)
      throw new Problem('verifier_invalid');
    this.#temporary.delete(used.key);
    const token = this.addToken();
    return form({ oauth_token: token.key, oauth_token_secret: token.secret, user_id: this.uid });
  }

  #api(request: ReceivedRequest): ReceiverAnswer {
    let used = '';
    this.#verify(
      request,
      (key) => {
        used = key;
        return this.#tokens.get(key)?.secret;
      },
      true,
    );
    const body = request.body.toString();
    this.accepted.push({ method: request.method, url: request.url, body, token: used });
    return { body: { user: this.uid, method: request.method, url: request.url, body } };
  }

  /** RFC 5849, section 3.2. Returns the protocol parameters; throws Problem. */
  #verify(
    request: ReceivedRequest,
    secretOf: (token: string) => string | undefined,
    needsToken: boolean,
  ): Map<string, string> {
    const fields = headerFields(request.headers.authorization ?? '');
    const names = fields.map(([name]) => name);
    if (new Set(names).size !== names.length) throw new Problem('parameter_rejected');
    const protocol = new Map(fields);
    const need = (name: string): string => {
      const value = protocol.get(name);
      if (value === undefined) throw new Problem('parameter_absent');
      return value;
    };
    if ((protocol.get('oauth_version') ?? '1.0') !== '1.0') throw new Problem('version_rejected');
    const hash = methods[need('oauth_signature_method')];
    if (hash === undefined) throw new Problem('signature_method_rejected');
    if (need('oauth_consumer_key') !== this.consumer.key) throw new Problem('consumer_key_unknown');
    const seconds = Number(need('oauth_timestamp'));
    if (!(Math.abs(seconds - Date.now() / 1000) <= clockSkewSeconds)) throw new Problem('timestamp_refused');
    const nonce = `${seconds} ${need('oauth_nonce')}`;
    if (this.#nonces.has(nonce)) throw new Problem('nonce_used');
    this.#nonces.add(nonce);
    const tokenSecret = needsToken ? secretOf(need('oauth_token')) : '';
    if (tokenSecret === undefined) throw new Problem('token_rejected');

    const base = baseStringOf(request, fields, this.url.startsWith('https:'));
    const key = `${encoded(Buffer.from(this.consumer.secret))}&${encoded(Buffer.from(tokenSecret))}`;
    const expected = createHmac(hash, key).update(base).digest('base64');
    if (need('oauth_signature') !== expected) throw new Problem('signature_invalid');
    return protocol;
  }
}

class Problem extends Error {}

function newToken(kind: string): ProviderToken {
  return {
    key: `${kind}-${randomBytes(12).toString('hex')}`,
    // With characters that have to be encoded.
    secret: `secret/+&=${randomBytes(12).toString('hex')}-canary`,
  };
}

function form(fields: Record<string, string>): ReceiverAnswer {
  return {
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams(fields).toString(),
  };
}

/** Section 3.5.1: `OAuth name="value", …`, both percent-encoded. */
function headerFields(header: string): [name: string, value: string][] {
  const [, rest = ''] = /^OAuth\s+(.*)$/i.exec(header) ?? [];
  return [...rest.matchAll(/([^\s=,]+)="([^"]*)"/g)].map(([, name = '', value = '']) => [
    decodeURIComponent(name),
    decodeURIComponent(value),
  ]);
}

/** Section 3.4.1, from what came over the wire. */
function baseStringOf(
  request: ReceivedRequest,
  fields: readonly [string, string][],
  secure: boolean,
): string {
  const question = request.url.indexOf('?');
  const path = question === -1 ? request.url : request.url.slice(0, question);
  const query = question === -1 ? '' : request.url.slice(question + 1);
  const isForm = /^application\/x-www-form-urlencoded/i.test(request.headers['content-type'] ?? '');
  const pairs = [
    ...pairsOf(Buffer.from(query, 'latin1')),
    ...(isForm ? pairsOf(request.body) : []),
    ...fields
      .filter(([name]) => name !== 'oauth_signature' && name !== 'realm')
      .map(([name, value]) => [encoded(Buffer.from(name)), encoded(Buffer.from(value))] as const),
  ].map(([name, value]) => ({ name, value }));
  pairs.sort((a, b) =>
    a.name === b.name ? Number(a.value > b.value) - Number(a.value < b.value) : a.name < b.name ? -1 : 1,
  );
  const parameters = pairs.map(({ name, value }) => `${name}=${value}`).join('&');
  const host = (request.headers.host ?? '').toLowerCase().replace(/:(80|443)$/, '');
  const scheme = secure ? 'https' : 'http';
  return [request.method, `${scheme}://${host}${path}`, parameters]
    .map((part) => encoded(Buffer.from(part)))
    .join('&');
}

/** Section 3.4.1.3.1: decoded to bytes, and encoded again as section 3.6 wants it. */
function pairsOf(text: Buffer): (readonly [string, string])[] {
  return text
    .toString('latin1')
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const equals = pair.indexOf('=');
      const [name, value] = equals === -1 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1)];
      return [encoded(decoded(name)), encoded(decoded(value))] as const;
    });
}

function decoded(text: string): Buffer {
  const spaced = text.replaceAll('+', ' ');
  return Buffer.from(
    spaced.replace(/%([0-9A-Fa-f]{2})/g, (_whole, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
}

function encoded(bytes: Buffer): string {
  let out = '';
  for (const byte of bytes) {
    const character = String.fromCharCode(byte);
    out += /[A-Za-z0-9\-._~]/.test(character)
      ? character
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return out;
}
