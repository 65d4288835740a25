import { createHash, timingSafeEqual } from 'node:crypto';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import { openObject } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { type Account, findSealedAccount } from './account-store.ts';
import type { AppDefinition } from './apps/app-definition.ts';
import type { OAuthClient } from './oauth/grant.ts';
import { freshMark } from './oauth/oauth1-flow.ts';
import {
  authorizationHeader,
  type Parameter,
  parseForm,
  type SignedRequest,
} from './oauth/oauth1-signature.ts';
import type { SignerUris } from './oauth/oauth1-signer-uris.ts';

export interface OAuth1SignerOptions {
  store: Pick<Store, 'read'>;
  vault: Vault;
  clock: Clock;
  uris: Pick<SignerUris, 'accountOf'>;
  findApp(slug: string, ownerIds: readonly string[]): Promise<AppDefinition | undefined>;
  findClient(id: string): Promise<OAuthClient | undefined>;
}

/** Parameters that only the signer sets, or that are refused: each may be in a request once (RFC 5849, section 3.2). */
const reservedNames: ReadonlySet<string> = new Set([
  'oauth_consumer_key',
  'oauth_token',
  'oauth_signature_method',
  'oauth_signature',
  'oauth_timestamp',
  'oauth_nonce',
  'oauth_version',
]);

/**
 * Signs requests of components for OAuth 1 accounts. A component has the token of the account, but not the secret of the
 * client: that is opened for one signature and kept nowhere.
 */
export class OAuth1Signer {
  readonly #options: OAuth1SignerOptions;

  constructor(options: OAuth1SignerOptions) {
    this.#options = options;
  }

  /**
   * Resolves with the Authorization header for `{ requestData: { method, url, data? }, token: { key, secret? } }`, where
   * data is a form as text or by field. `capability` is the last part of the account's signer URI. Throws CallerError
   * `not_found` (one error for every capability that is no good), `invalid_parameter`, `missing_parameter`, or
   * `oauth_client_missing`; messages never hold what was sent, nor any secret.
   */
  async sign(capability: string, body: unknown): Promise<string> {
    const { store, vault, uris } = this.#options;
    const accountId = uris.accountOf(capability);
    const account = accountId === undefined ? undefined : await findSealedAccount(store.read, accountId);
    if (account === undefined || account.grant_type !== 'oauth1')
      throw new CallerError('not_found', 'there is no such signer: its account may have been deleted');
    const { requestData, token } = fieldsIn(body, 'the body');
    const request = readRequest(requestData);
    const { id, owner_id: ownerId, sealed } = account;
    const credentials = await openObject(store.read, vault, { ownerId, id, sealed });
    const tokenSecret = requireOwnToken(token, credentials);
    return this.header(account, { ...credentials, oauth_refresh_token: tokenSecret }, request);
  }

  /** The Authorization header of a request with these credentials of an OAuth 1 account. Throws CallerError `oauth_client_missing`. */
  async header(
    account: Pick<Account, 'owner_id' | 'app_slug' | 'oauth_client_id'>,
    credentials: Readonly<Record<string, unknown>>,
    request: SignedRequest,
  ): Promise<string> {
    const { oauth_client_id: clientRowId, app_slug: slug, owner_id: ownerId } = account;
    const app = await this.#options.findApp(slug, [ownerId]);
    if (app?.oauth?.version !== 1)
      throw missingClient(`the app ${slug} is no longer in the catalogue as an OAuth 1 app`);
    const client = clientRowId === null ? undefined : await this.#options.findClient(clientRowId);
    // A token is worth something only together with the client that it was given to.
    if (client === undefined || client.clientId !== credentials.oauth_client_id)
      throw missingClient(
        'the OAuth client that the account was connected with was removed or replaced: connect the account again',
      );
    return authorizationHeader(
      request,
      {
        method: app.oauth.signatureMethod,
        consumerKey: client.clientId,
        consumerSecret: client.clientSecret ?? '',
        token: String(credentials.oauth_access_token),
        tokenSecret: String(credentials.oauth_refresh_token),
      },
      freshMark(this.#options.clock),
    );
  }
}

function readRequest(requestData: unknown): SignedRequest {
  const { method, url: text, data } = fieldsIn(requestData, 'requestData');
  if (typeof method !== 'string' || !/^[A-Za-z-]{1,32}$/.test(method))
    throw invalid('requestData.method', 'an HTTP method, such as GET');
  const url = typeof text === 'string' ? URL.parse(text) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw invalid('requestData.url', 'a whole URL with http: or https:');
  const form = readForm(data);
  const reserved = [...url.searchParams.keys(), ...form.map(([name]) => name)].find((name) =>
    reservedNames.has(name),
  );
  if (reserved !== undefined)
    throw invalid('requestData', `no ${reserved} in query or data: the signer puts it into the header`);
  return { method, url, form };
}

/** A form as text, or by field: a value, or several in a list. */
function readForm(data: unknown): Parameter[] {
  if (data === undefined || data === null) return [];
  if (typeof data === 'string') return parseForm(data);
  return Object.entries(fieldsIn(data, 'requestData.data')).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one): Parameter => {
      if (one === null) return [name, ''];
      if (typeof one === 'object') {
        throw invalid(
          'requestData.data',
          'fields of a form: texts, numbers, true or false, or lists of these',
        );
      }
      return [name, String(one)];
    }),
  );
}

/** The secret of the account's token, when the request was made with that token. */
function requireOwnToken(token: unknown, credentials: Record<string, unknown>): string {
  const { key, secret } = fieldsIn(token, 'token');
  const { oauth_access_token: ownKey, oauth_refresh_token: ownSecret } = credentials;
  if (key === undefined)
    throw new CallerError('missing_parameter', 'token.key: required', { parameter: 'token.key' });
  const isOwn = isSame(key, ownKey) && (secret === undefined || secret === null || isSame(secret, ownSecret));
  if (!isOwn || typeof ownSecret !== 'string') {
    throw invalid(
      'token',
      'key and secret of the account that this signer is for ($auth.oauth_access_token and $auth.oauth_refresh_token)',
    );
  }
  return ownSecret;
}

function isSame(given: unknown, own: unknown): boolean {
  if (typeof given !== 'string' || typeof own !== 'string' || own === '') return false;
  return timingSafeEqual(digest(given), digest(own));
}

/** A digest has one length for any text, as the comparison in constant time needs. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function fieldsIn(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  if (what === 'the body') throw new CallerError('invalid_body', 'the body must be a JSON object');
  if (value === undefined)
    throw new CallerError('missing_parameter', `${what}: required`, { parameter: what });
  throw invalid(what, 'an object');
}

function invalid(parameter: string, expected: string): CallerError {
  return new CallerError('invalid_parameter', `${parameter}: expected ${expected}`, { parameter });
}

function missingClient(message: string): CallerError {
  return new CallerError('oauth_client_missing', message);
}
