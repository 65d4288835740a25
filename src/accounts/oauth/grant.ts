import type { AppDefinition } from '#accounts/apps/app-definition.ts';

/** A client at a provider, with its secret opened. */
export interface OAuthClient {
  /** oa_… */
  id: string;
  clientId: string;
  clientSecret: string | undefined;
  scopes: string[] | undefined;
}

/** The requester of tokens: the app, the fields of the account that its URLs contain, and the client. */
export interface GrantContext {
  app: AppDefinition;
  /** Custom fields of the account by name. */
  fields: Readonly<Record<string, unknown>>;
  client: OAuthClient;
}

/** What a token endpoint gave. */
export interface Grant {
  accessToken: string;
  /** Undefined: none came, and the known one remains valid (RFC 6749, section 6). */
  refreshToken: string | undefined;
  /** Seconds; undefined: the provider did not say, and the app neither. */
  expiresInSeconds: number | undefined;
  scopes: string[] | undefined;
  uid: string | undefined;
  /** More credentials from the answer (`responseFields` of the app). */
  fields: Record<string, unknown>;
}

/**
 * A provider did not issue tokens. The message is shown to users: the request, and the answer; it never holds a
 * secret. `reach` is the extent of the fault:
 * - `grant`: this grant is refused for good (invalid_grant): the account has to be connected again;
 * - `client`: the client or the request is refused (invalid_client, unauthorized_client, invalid_scope, …): the
 *   OAuth client has to be fixed, the grant may still be good;
 * - `moment`: no answer, 5xx, 429, or an answer that makes no sense: to be tried again.
 */
export class GrantError extends Error {
  override name = 'GrantError';
  readonly reach: 'grant' | 'client' | 'moment';
  /** The provider's `error`, such as invalid_grant. */
  readonly providerCode: string | undefined;
  /** From Retry-After; undefined: it did not say. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    reach: GrantError['reach'],
    message: string,
    options: { providerCode?: string; retryAfterSeconds?: number; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.reach = reach;
    this.providerCode = options.providerCode;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** The OAuth 2 token endpoint of an app's provider. Every method throws GrantError. */
export interface TokenEndpoint {
  /** RFC 6749, section 4.1.3, with PKCE (RFC 7636). */
  exchangeCode(
    context: GrantContext,
    request: {
      code: string;
      verifier: string | undefined;
      redirectUri: string;
      nonce: string | undefined;
      /** `iss` of the authorization response (RFC 9207); an id_token has to be of the same issuer. */
      issuer?: string | undefined;
    },
  ): Promise<Grant>;
  /**
   * RFC 6749, section 6. A refresh does not change whose the grant is, so `uid` is learned only with `asksUid`: where it is
   * not known yet. It stays undefined when that fails, because the refresh token may be spent and its successor must not be lost.
   */
  refresh(
    context: GrantContext,
    request: { refreshToken: string; asksUid?: boolean | undefined },
  ): Promise<Grant>;
  /** RFC 6749, section 4.4. */
  clientCredentials(context: GrantContext): Promise<Grant>;
  /** RFC 7009; resolves also when the app has no revocation URL. */
  revoke(
    context: GrantContext,
    request: { token: string; hint: 'access_token' | 'refresh_token' },
  ): Promise<void>;
}
