import { AuthorizationResponseError, ResponseBodyError, WWWAuthenticateChallengeError } from 'openid-client';
import { makeRedactor } from '#vault/redact.ts';
import { UnansweredRequest, UnusableAnswer } from './provider-fetch.ts';

/**
 * - unavailable: it cannot be reached, or it has an error of its own
 * - refused: it says no, to the user or to this service
 * - denied: the user said no there, or may not use this service
 * - untrusted: its answer does not pass a check
 */
export type FaultKind = 'unavailable' | 'refused' | 'denied' | 'untrusted';

/** What the provider did wrong. `reason` is for the log and the operator, without tokens, codes and secrets. */
export class ProviderFault extends Error {
  override name = 'ProviderFault';
  readonly kind: FaultKind;
  readonly reason: string;

  constructor(kind: FaultKind, reason: string) {
    super(`the provider: ${reason}`);
    this.kind = kind;
    this.reason = reason;
  }
}

const reasonCharactersMax = 500;

/** What an error of the library says about the provider. The error itself holds answers, tokens and all: it ends here. */
export function providerFault(error: unknown, secrets: readonly string[]): ProviderFault {
  if (error instanceof ProviderFault) return error;
  const redact = makeRedactor(secrets.filter((text) => text !== ''));
  const fault = (kind: FaultKind, reason: string) =>
    new ProviderFault(kind, redact(reason).slice(0, reasonCharactersMax));
  if (error instanceof AuthorizationResponseError) {
    const kind =
      error.error === 'access_denied' ? 'denied' : isTransient(error.error) ? 'unavailable' : 'refused';
    return fault(kind, described(error));
  }
  if (error instanceof ResponseBodyError)
    return fault(error.status >= 500 ? 'unavailable' : 'refused', `${error.status} ${described(error)}`);
  if (error instanceof WWWAuthenticateChallengeError)
    return fault('refused', `a request was answered with status ${error.status} and a challenge`);
  const chain = chainOf(error);
  const unanswered = chain.find((link) => link instanceof UnansweredRequest);
  if (unanswered !== undefined) return fault('unavailable', unanswered.message);
  const unusable = chain.find((link) => link instanceof UnusableAnswer);
  if (unusable !== undefined) return fault('untrusted', unusable.message);
  const isLate = chain.some(({ name }) => name === 'TimeoutError' || name === 'AbortError');
  if (isLate) return fault('unavailable', 'it did not answer in time');
  const response = chain.map(({ cause }) => cause).find((cause) => cause instanceof Response);
  if (response !== undefined) {
    const kind = response.status >= 500 ? 'unavailable' : 'untrusted';
    return fault(kind, `${messages(chain)}; the status was ${response.status}`);
  }
  return fault('untrusted', messages(chain));
}

function described({
  error,
  error_description: description = '',
}: {
  error: string;
  error_description?: string;
}): string {
  return description === '' ? error : `${error}: ${description}`;
}

function isTransient(error: string): boolean {
  return error === 'temporarily_unavailable' || error === 'server_error';
}

function messages(chain: readonly Error[]): string {
  return [...new Set(chain.map(({ message }) => message))].join(': ');
}

function chainOf(error: unknown): Error[] {
  const chain: Error[] = [];
  for (let at = error; at instanceof Error && chain.length < 10; at = at.cause) chain.push(at);
  return chain;
}
