/** Why a browser that came back from the provider is not signed in. */
export type RefusalCode =
  | 'not_started_here'
  | 'used_already'
  | 'access_denied'
  | 'provider_unavailable'
  | 'provider_refused'
  | 'answer_not_trusted'
  | 'groups_missing'
  | 'no_user'
  | 'user_disabled'
  | 'email_taken'
  | 'session_over'
  | 'identity_taken'
  | 'identity_exists'
  | 'not_admitted';

/** `message` is for the user: what happened and what to do. `reason` is for the log; neither has a token or a code in it. */
export class SignInRefusal extends Error {
  override name = 'SignInRefusal';
  readonly code: RefusalCode;
  readonly status: number;
  readonly reason: string;

  constructor(code: RefusalCode, status: number, message: string, reason = '') {
    super(message);
    this.code = code;
    this.status = status;
    this.reason = reason;
  }
}
