import { authorizationRequest } from '#accounts/oauth/authorization-request.ts';
import { type Grant, type GrantContext, GrantError, type TokenEndpoint } from '#accounts/oauth/grant.ts';
import type { OAuth1Flow } from '#accounts/oauth/oauth1-flow.ts';
import type { GrantType } from '#storage/tables/account-tables.ts';

/** The redirect of a browser to a provider. */
export interface Departure {
  url: string;
  /** Identifies the provider's answer: `state` in OAuth 2, the request token in OAuth 1. */
  state: string;
  /** Kept secret until the browser comes back. */
  keep: Record<string, string>;
}

/** The query of the redirect URI when the browser comes back. */
export type ProviderAnswer = Readonly<Record<string, string | undefined>>;

/** Sends browsers to providers and reads their answers, for OAuth 2 and OAuth 1 apps. */
export class ConnectProvider {
  readonly #tokens: TokenEndpoint;
  readonly #oauth1: Pick<OAuth1Flow, 'requestToken' | 'authorizationUrl' | 'accessToken'>;
  readonly #redirectUri: () => string;

  constructor(options: {
    tokens: TokenEndpoint;
    oauth1: Pick<OAuth1Flow, 'requestToken' | 'authorizationUrl' | 'accessToken'>;
    redirectUri: () => string;
  }) {
    this.#tokens = options.tokens;
    this.#oauth1 = options.oauth1;
    this.#redirectUri = options.redirectUri;
  }

  /** Throws GrantError. */
  async depart(
    context: GrantContext,
    request: { state: string; scopes: string[] | undefined },
  ): Promise<Departure> {
    const redirectUri = this.#redirectUri();
    if (context.app.oauth?.version === 1) {
      const token = await this.#oauth1.requestToken(context, { callbackUrl: redirectUri });
      const url = this.#oauth1.authorizationUrl(context, token);
      return { url, state: token.token, keep: { requestToken: token.token, tokenSecret: token.tokenSecret } };
    }
    const { url, verifier, nonce } = await authorizationRequest(context, { redirectUri, ...request });
    return {
      url,
      state: request.state,
      // The exchange needs exactly this URI: the public URL may have changed meanwhile.
      keep: {
        redirectUri,
        ...(verifier !== undefined && { verifier }),
        ...(nonce !== undefined && { nonce }),
      },
    };
  }

  /** Throws GrantError. */
  async arrive(
    context: GrantContext,
    keep: Readonly<Record<string, unknown>>,
    answer: ProviderAnswer,
  ): Promise<{ grant: Grant; type: GrantType }> {
    const kept = (name: string) => (typeof keep[name] === 'string' ? keep[name] : undefined);
    if (context.app.oauth?.version === 1) {
      const grant = await this.#oauth1.accessToken(context, {
        token: kept('requestToken') ?? '',
        tokenSecret: kept('tokenSecret') ?? '',
        verifier: given(context, answer.oauth_verifier, 'oauth_verifier'),
      });
      return { grant, type: 'oauth1' };
    }
    const grant = await this.#tokens.exchangeCode(context, {
      code: given(context, answer.code, 'code'),
      verifier: kept('verifier'),
      nonce: kept('nonce'),
      redirectUri: kept('redirectUri') ?? this.#redirectUri(),
      issuer: answer.iss,
    });
    return { grant, type: 'authorization_code' };
  }
}

/** The state that identifies a callback; stores keep its hash. */
export function stateOf(answer: ProviderAnswer): string | undefined {
  return answer.state ?? answer.oauth_token ?? answer.denied;
}

/** The provider's refusal: `error` of OAuth 2, `denied` of some OAuth 1 providers. */
export function refusalIn(answer: ProviderAnswer): { code: string; description: string } | undefined {
  if (answer.error !== undefined && answer.error !== '')
    return { code: answer.error, description: answer.error_description ?? '' };
  return answer.denied === undefined ? undefined : { code: 'access_denied', description: '' };
}

function given({ app }: GrantContext, value: string | undefined, name: string): string {
  if (value !== undefined && value !== '') return value;
  throw new GrantError('moment', `${app.name} sent the browser back without ${name}`);
}
