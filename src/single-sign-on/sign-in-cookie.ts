import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { newSecret } from '#lib/ids.ts';

/** From the click on the sign-in page to the answer of the provider. */
const signInMs = 10 * 60_000;
/** Longer ones were not made here. */
const cookieCharactersMax = 2_000;
const stateForm = /^[\w-]{43}$/;

/** A browser on its way to the provider and back. It is kept in a cookie alone, so that strangers cannot fill the store. */
export interface PendingSignIn {
  /** 190 random bits, from which state, nonce and PKCE verifier are made. */
  secret: string;
  /** A path of this service. */
  returnTo: string;
  expiresAtMs: number;
  /** Set where a user who is signed in links their account at the provider. */
  link?: { userId: string; sessionId: string };
}

export interface SignInCookie {
  name: string;
  value: string;
  maxAgeSeconds: number;
}

/** What goes to the provider and comes back, or is compared with what comes back. Each follows from the secret in one direction only. */
export interface SignInChecks {
  state: string;
  nonce: string;
  verifier: string;
}

export function newSignIn(values: Pick<PendingSignIn, 'returnTo' | 'link'>, nowMs: number): PendingSignIn {
  return { ...values, secret: newSecret(), expiresAtMs: nowMs + signInMs };
}

export function checksOf({ secret }: Pick<PendingSignIn, 'secret'>): SignInChecks {
  const derived = (purpose: string) => createHmac('sha256', secret).update(purpose).digest('base64url');
  return { state: derived('state'), nonce: derived('nonce'), verifier: derived('PKCE verifier') };
}

/** Each sign-in has a cookie of its own: two tabs do not disturb each other. */
export function cookieNameOf(state: string): string {
  return `millrace_sign_in_${hashOf(state).slice(0, 12)}`;
}

export function hashOf(state: string): string {
  return createHash('sha256').update(state).digest('hex');
}

/** The cookie that binds a sign-in to the browser that began it. Its text cannot be made or changed without `key`. */
export function sealSignIn(signIn: PendingSignIn, key: Uint8Array): SignInCookie {
  const text = Buffer.from(JSON.stringify(signIn)).toString('base64url');
  return {
    name: cookieNameOf(checksOf(signIn).state),
    value: `${text}.${macOf(text, key).toString('base64url')}`,
    maxAgeSeconds: signInMs / 1000,
  };
}

/** The sign-in that this state belongs to, when this browser began it and it is not over; undefined otherwise. */
export function openSignIn(
  state: string,
  cookies: ReadonlyMap<string, string>,
  { key, nowMs }: { key: Uint8Array; nowMs: number },
): PendingSignIn | undefined {
  if (!stateForm.test(state)) return undefined;
  const cookie = cookies.get(cookieNameOf(state));
  if (cookie === undefined || cookie.length > cookieCharactersMax) return undefined;
  const [text = '', mac = ''] = cookie.split('.', 2);
  if (!isSame(Buffer.from(mac, 'base64url'), macOf(text, key))) return undefined;
  // Authenticated: only `sealSignIn` can have made it.
  const signIn = JSON.parse(Buffer.from(text, 'base64url').toString()) as PendingSignIn;
  if (!isSame(Buffer.from(checksOf(signIn).state), Buffer.from(state))) return undefined;
  return nowMs < signIn.expiresAtMs ? signIn : undefined;
}

function macOf(text: string, key: Uint8Array): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

function isSame(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}
