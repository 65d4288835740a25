import type { Clock } from '#lib/clock.ts';
import { GrantError } from './grant.ts';

/** Clocks of two machines differ by less. */
const clockToleranceSeconds = 300;

/**
 * The claims of an id_token that came from the token endpoint itself. Its signature is not checked: TLS authenticates the sender
 * (OpenID Connect Core 1.0, 3.1.3.7, item 6). Audience, expiry, nonce and issuer are checked. Throws GrantError `moment`.
 */
export function idTokenClaims(
  idToken: string,
  expected: { provider: string; clientId: string; nonce: string | undefined; issuer: string | undefined },
  clock: Clock,
): Record<string, unknown> {
  const refuse = (why: string) =>
    new GrantError('moment', `${expected.provider} sent an id_token that cannot be used: ${why}`);
  const claims = payloadOf(idToken);
  if (claims === undefined) throw refuse('it is no JSON Web Token');
  const audience = Array.isArray(claims.aud) ? claims.aud : [claims.aud];
  if (!audience.includes(expected.clientId)) throw refuse('it is for another client');
  if (typeof claims.exp === 'number' && claims.exp + clockToleranceSeconds < clock.now() / 1000)
    throw refuse('it has ended');
  if (expected.nonce !== undefined && claims.nonce !== expected.nonce)
    throw refuse('its nonce is not the one that was sent');
  if (expected.issuer !== undefined && claims.iss !== expected.issuer)
    throw refuse('it is of another issuer than the authorization response');
  return claims;
}

function payloadOf(idToken: string): Record<string, unknown> | undefined {
  const parts = idToken.split('.');
  if (parts.length !== 3) return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(parts[1] ?? '', 'base64url').toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
