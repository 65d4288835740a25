import { createHmac } from 'node:crypto';

export type SignatureMethod = 'HMAC-SHA1' | 'HMAC-SHA256';

/** Name and value, decoded. A name may occur several times. */
export type Parameter = readonly [name: string, value: string];

/** What a signature covers of a request. */
export interface SignedRequest {
  method: string;
  /** With the query as it is sent. */
  url: URL;
  /** Parameters of a form-encoded body; none for every other body (RFC 5849, section 3.4.1.3.1). */
  form: readonly Parameter[];
}

/** The keys of the signature: of the client, and of the token when there is one. */
export interface SigningKeys {
  method: SignatureMethod;
  consumerKey: string;
  consumerSecret: string;
  token: string | undefined;
  /** '' without a token. */
  tokenSecret: string;
}

/**
 * The value of the Authorization header (RFC 5849, sections 3.1 and 3.5.1). `seconds` since the epoch; `nonce` is not to
 * be used twice in the same second; `more` are protocol parameters of one step, such as oauth_callback.
 */
export function authorizationHeader(
  request: SignedRequest,
  keys: SigningKeys,
  { nonce, seconds, more = [] }: { nonce: string; seconds: number; more?: readonly Parameter[] },
): string {
  const protocol: Parameter[] = [
    ['oauth_consumer_key', keys.consumerKey],
    ...(keys.token === undefined ? [] : [['oauth_token', keys.token] as const]),
    ['oauth_signature_method', keys.method],
    ['oauth_timestamp', String(seconds)],
    ['oauth_nonce', nonce],
    ['oauth_version', '1.0'],
    ...more,
  ];
  const signature = signatureOf(baseString(request, protocol), keys);
  const fields = [...protocol, ['oauth_signature', signature] as const].map(
    ([name, value]) => `${percentEncode(name)}="${percentEncode(value)}"`,
  );
  return `OAuth ${fields.join(', ')}`;
}

/** RFC 5849, section 3.4.1. `protocol`: the oauth_ parameters of the header, without realm and oauth_signature. */
export function baseString(request: SignedRequest, protocol: readonly Parameter[]): string {
  const { method, url, form } = request;
  const parameters = [...url.searchParams, ...form, ...protocol]
    .map(([name, value]) => [percentEncode(name), percentEncode(value)] as const)
    .sort(([nameA, valueA], [nameB, valueB]) => compare(nameA, nameB) || compare(valueA, valueB))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
  // The URL parser has put scheme and host in lower case and left out the port of the scheme (section 3.4.1.2).
  const uri = `${url.protocol}//${url.host}${url.pathname}`;
  return [method.toUpperCase(), uri, parameters].map(percentEncode).join('&');
}

/** RFC 5849, section 3.4.2; with SHA-256 the same with another hash. */
export function signatureOf(
  text: string,
  keys: Pick<SigningKeys, 'method' | 'consumerSecret' | 'tokenSecret'>,
): string {
  const key = `${percentEncode(keys.consumerSecret)}&${percentEncode(keys.tokenSecret)}`;
  const hash = keys.method === 'HMAC-SHA1' ? 'sha1' : 'sha256';
  return createHmac(hash, key).update(text).digest('base64');
}

/** RFC 5849, section 3.6: everything but letters, digits, `-`, `.`, `_` and `~`, in capitals. */
export function percentEncode(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** The parameters of a form-encoded body. */
export function parseForm(body: string): Parameter[] {
  // An ampersand before it, because the parser would take a question mark for the beginning of a query.
  return [...new URLSearchParams(`&${body}`)];
}

/** Encoded text is ASCII, where this is the order of the bytes. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
