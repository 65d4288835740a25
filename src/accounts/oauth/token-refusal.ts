import type { Clock } from '#lib/clock.ts';
import { GrantError } from './grant.ts';

/** Maximum of a provider's message that is shown to users. */
const descriptionCharactersMax = 300;

/** The grant is no longer valid; the first by RFC 6749, the others as GitHub, Slack and others say it. */
const grantCodes = new Set([
  'invalid_grant',
  'access_denied',
  'account_inactive',
  'bad_refresh_token',
  'bad_verification_code',
  'code_already_used',
  'consent_required',
  'expired_token',
  'interaction_required',
  'invalid_auth',
  'invalid_code',
  'invalid_refresh_token',
  'login_required',
  'token_expired',
  'token_revoked',
]);

/** The provider cannot right now. */
const momentCodes = new Set([
  'fatal_error',
  'internal_error',
  'rate_limited',
  'ratelimited',
  'request_timeout',
  'server_error',
  'service_unavailable',
  'slow_down',
  'temporarily_unavailable',
]);

/**
 * The error for an answer without tokens. `subject` is what was refused, such as "the refresh token". A provider's
 * words may repeat what was sent, so they pass through `redact`.
 */
export function refusalError(
  refusal: {
    provider: string;
    subject: string;
    status: number;
    retryAfter: string | undefined;
    code: string | undefined;
    description: string | undefined;
  },
  redact: (text: string) => string,
  clock: Clock,
): GrantError {
  const { provider, subject, status } = refusal;
  const code = refusal.code === undefined ? undefined : plainText(redact(refusal.code), 64);
  const description =
    refusal.description === undefined
      ? undefined
      : plainText(redact(refusal.description), descriptionCharactersMax);
  const said = [code, description].filter((text) => text !== undefined && text !== '').join(': ');
  const reach = reachOf(status, code);
  const message =
    said === ''
      ? `${provider} answered ${subject} with status ${status} and ${isRedirect(status) ? 'a redirect, which no credentials are sent to' : 'nothing that can be understood'}`
      : `${provider} refused ${subject} (status ${status}): ${said}`;
  const retryAfterSeconds = secondsUntil(refusal.retryAfter, clock);
  return new GrantError(reach, message, {
    ...(code !== undefined && { providerCode: code }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  });
}

function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

function reachOf(status: number, code: string | undefined): GrantError['reach'] {
  if (status >= 500 || status === 429 || status === 408) return 'moment';
  if (code === undefined) return status === 401 ? 'client' : 'moment';
  if (grantCodes.has(code.toLowerCase())) return 'grant';
  return momentCodes.has(code.toLowerCase()) ? 'moment' : 'client';
}

/** One line of text without control characters, and not longer than that. */
export function plainText(text: string, charactersMax: number): string {
  const line = text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .toWellFormed();
  return line.length <= charactersMax ? line : `${line.slice(0, charactersMax).toWellFormed()}…`;
}

/** Retry-After (RFC 9110, 10.2.3): seconds, or a date. */
function secondsUntil(header: string | undefined, clock: Clock): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - clock.now()) / 1000));
}
