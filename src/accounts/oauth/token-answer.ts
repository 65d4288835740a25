import type { OAuth2Settings } from '#accounts/apps/app-definition.ts';
import { parseAnswer } from '#egress/answer-json.ts';
import type { GuardedResponse } from '#egress/guarded-fetch.ts';
import { parentAt, valueAt } from './value-at.ts';

/** The answer of a token endpoint, classified by its meaning and not by its status. */
export type TokenAnswer =
  | {
      kind: 'tokens';
      /** As it came. */
      raw: Record<string, unknown>;
      /** With the names and types of RFC 6749, section 5.1; without id_token. */
      conform: Record<string, unknown>;
    }
  | { kind: 'refused'; code: string | undefined; description: string | undefined };

/** Longer than any answer means: some providers say "never" with a number. */
const expiresInSecondsMax = 100 * 365 * 24 * 3600;

/**
 * Reads an answer whatever a provider made of RFC 6749: errors with status 200 (GitHub, Slack), forms instead of JSON,
 * no token_type or an odd one (Slack's "bot"), `expires_in` as text, tokens within other objects, scopes separated
 * by commas or in an array.
 */
export function readTokenAnswer(answer: GuardedResponse, settings: OAuth2Settings): TokenAnswer {
  const raw = readObject(answer);
  if (raw === undefined) return { kind: 'refused', code: undefined, description: undefined };
  const token = valueAt(raw, settings.accessTokenPath);
  const isSuccess = answer.status >= 200 && answer.status <= 299;
  if (isSuccess && raw.ok !== false && typeof token === 'string' && token !== '') {
    return { kind: 'tokens', raw, conform: conformAnswer(raw, token, settings) };
  }
  return { kind: 'refused', ...refusalOf(raw) };
}

function conformAnswer(
  raw: Record<string, unknown>,
  token: string,
  settings: OAuth2Settings,
): Record<string, unknown> {
  // The values beside the token belong to it: Slack answers with the tokens of a bot and of a user.
  const beside = parentAt(raw, settings.accessTokenPath) as Record<string, unknown>;
  const places = beside === raw || typeof raw.access_token === 'string' ? [beside] : [beside, raw];
  const field = (name: string): unknown =>
    places.find((object) => Object.hasOwn(object, name) && object[name] !== null)?.[name];
  const refreshToken = field('refresh_token');
  const expiresIn = secondsOf(field('expires_in'));
  const scope = scopeText(field('scope'));
  return {
    access_token: token,
    token_type: 'bearer',
    ...(typeof refreshToken === 'string' && refreshToken !== '' && { refresh_token: refreshToken }),
    ...(expiresIn !== undefined && { expires_in: expiresIn }),
    ...(scope !== undefined && { scope }),
  };
}

/** Zero, negative values and anything but a number mean that the lifetime is unknown. */
function secondsOf(value: unknown): number | undefined {
  if (typeof value !== 'number' && typeof value !== 'string') return undefined;
  const seconds = Number(value);
  return seconds > 0 && seconds <= expiresInSecondsMax ? seconds : undefined;
}

function scopeText(value: unknown): string | undefined {
  const parts = Array.isArray(value) ? value.filter((part) => typeof part === 'string') : [value];
  const text = parts
    .flatMap((part) => (typeof part === 'string' ? part.split(/[\s,]+/) : []))
    .filter((part) => part !== '')
    .join(' ');
  return text === '' ? undefined : text;
}

/** `error` and its description, where providers put them. */
function refusalOf(raw: Record<string, unknown>): {
  code: string | undefined;
  description: string | undefined;
} {
  const { error } = raw;
  const within = typeof error === 'object' && error !== null ? (error as Record<string, unknown>) : {};
  const code = firstText(error, within.type, within.code, within.status, raw.error_code, raw.code);
  const description = firstText(
    raw.error_description,
    within.message,
    raw.error_message,
    raw.message,
    raw.detail,
  );
  return { code, description };
}

function firstText(...values: unknown[]): string | undefined {
  return values.find((value): value is string => typeof value === 'string' && value !== '');
}

function readObject(answer: GuardedResponse): Record<string, unknown> | undefined {
  try {
    const value = parseAnswer(answer.body);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    const text = answer.body.toString('utf8');
    // Forms: GitHub's when it is not asked for JSON, and older providers'.
    const isForm = /^(access_token|error)=|&(access_token|error)=/.test(text) && !/[<\s]/.test(text.trim());
    return isForm ? Object.fromEntries(new URLSearchParams(text.trim())) : undefined;
  }
}
