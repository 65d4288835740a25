import * as oauth from 'oauth4webapi';
import type { GrantContext } from './grant.ts';
import { providerUrl } from './provider-url.ts';
import { oauth2Of, scopeOf, urlFields } from './token-endpoint.ts';

/** Where to send the browser, and what has to be kept until it comes back. */
export interface AuthorizationRequest {
  url: string;
  verifier: string | undefined;
  nonce: string | undefined;
}

/**
 * The authorization request of RFC 6749, 4.1.1, with PKCE (S256) where the provider takes it, and a nonce where an
 * id_token is requested. Throws GrantError `client`.
 */
export async function authorizationRequest(
  context: GrantContext,
  { redirectUri, state, scopes }: { redirectUri: string; state: string; scopes: string[] | undefined },
): Promise<AuthorizationRequest> {
  const settings = oauth2Of(context);
  const url = providerUrl(settings.authorizationUrl ?? '', urlFields(context));
  const verifier = settings.pkce ? oauth.generateRandomCodeVerifier() : undefined;
  const asked = scopes ?? context.client.scopes ?? settings.scopes;
  const nonce = asked.includes('openid') ? oauth.generateRandomNonce() : undefined;
  const scope = scopeOf(context, scopes);
  const parameters = {
    ...settings.authorizationParameters,
    response_type: 'code',
    client_id: context.client.clientId,
    redirect_uri: redirectUri,
    state,
    ...(scope !== '' && { scope }),
    ...(nonce !== undefined && { nonce }),
    ...(verifier !== undefined && {
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    }),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return { url: url.href, verifier, nonce };
}
