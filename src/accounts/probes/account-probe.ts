import type { SignedRequest } from '#accounts/oauth/oauth1-signature.ts';
import type { AddressPolicy } from '#egress/address-policy.ts';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import type { LookupAll } from '#egress/resolve-address.ts';

/**
 * What a test says about credentials: they work; they are refused, so they are bad; or the service could not be asked
 * (network, 5xx, 429, time), which says nothing about them. `message` is shown to users: the request and the answer,
 * without secrets.
 */
export interface TestOutcome {
  outcome: 'works' | 'refused' | 'unreachable';
  message: string;
}

export interface TestRequestOptions {
  dispatcher: GuardedDispatcher;
  policy: AddressPolicy;
  lookup?: LookupAll;
}

/** Signs one request of an OAuth 1 account. Throws UnfitCredentials. */
export type Sign = (request: SignedRequest) => Promise<string>;

/** What a probe of one kind is given. */
export interface ProbeOptions extends TestRequestOptions {
  signal: AbortSignal;
  /** Makes the Authorization header of an HTTP request; undefined where requests are not signed. */
  sign: Sign | undefined;
  /** A template with the credentials in it. Throws UnfitCredentials. */
  fill(template: string, mode: 'url' | 'text' | 'json' | 'form'): string;
}

/** A test cannot be made of these credentials: a field is missing, or is not what it has to be. Names it, no value. */
export class UnfitCredentials extends Error {
  override name = 'UnfitCredentials';
}

/** A network failure, with what was requested. Only its code is reported: messages of libraries hold whole URLs. */
export class ProbeFailure extends Error {
  override name = 'ProbeFailure';
  readonly asked: string;

  constructor(asked: string, cause: unknown) {
    super(`${asked} failed`, { cause });
    this.asked = asked;
  }
}

/** The code of an error, or what kind of error it is. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown error';
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : error.name;
}
