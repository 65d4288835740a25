import type { SessionPlace } from '#identity/sessions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { IdentityProvider, ProviderStatus } from './identity-provider.ts';
import { findIdentityByKey, listIdentitiesOf, takeSignIn, type UserIdentity } from './identity-store.ts';
import { unlinkIdentity } from './manage-identities.ts';
import { ProviderFault } from './provider-fault.ts';
import { type Person, readPerson } from './read-person.ts';
import {
  checksOf,
  hashOf,
  newSignIn,
  openSignIn,
  type PendingSignIn,
  type SignInCookie,
  sealSignIn,
} from './sign-in-cookie.ts';
import { linkPerson, type SignedIn, type SignInOptions, signInPerson } from './sign-in-person.ts';
import { SignInRefusal } from './sign-in-refusal.ts';

const returnToCharactersMax = 500;

export interface SingleSignOnOptions extends SignInOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  provider: IdentityProvider;
  issuer: string;
  groupsClaim: string;
  /** Seals the cookies of sign-ins: the same on all nodes. */
  cookieKey: Uint8Array;
  publicUrl(): string;
  onAccountChange(accountId: string): void;
}

/** How a sign-in ended. */
export interface SignInEnd {
  returnTo: string;
  userId: string;
  /** Undefined: an account was linked, and the session that is there continues. */
  session: SignedIn['session'] | undefined;
}

/**
 * Sign-in with an OpenID Connect provider: authorization code flow with PKCE, state and nonce. A sign-in is bound to the browser that began
 * it by a sealed cookie, so that any node can finish it; its end is in the store, so that its answer counts once on all nodes.
 */
export class SingleSignOn {
  readonly #options: SingleSignOnOptions;

  constructor(options: SingleSignOnOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  get issuer(): string {
    return this.#options.issuer;
  }

  get isOnly(): boolean {
    return this.#options.isOnly;
  }

  /** The exact redirect URI to register at the provider. */
  redirectUri(): string {
    return `${this.#options.publicUrl()}/oidc/callback`;
  }

  status(): Promise<ProviderStatus> {
    return this.#options.provider.status();
  }

  /**
   * Begins a sign-in, or with `link` the linking of an account to a user who is signed in. `origin` is that of the page. Throws CallerError
   * `invalid_parameter` and `conflict`, and UnavailableError `provider_unavailable`.
   */
  async start(request: {
    origin: string | undefined;
    returnTo: string;
    link?: PendingSignIn['link'];
  }): Promise<{ url: string; cookie: SignInCookie }> {
    const { clock, provider, cookieKey } = this.#options;
    requireLocalPath(request.returnTo);
    this.#requirePublicOrigin(request.origin);
    const signIn = newSignIn(
      { returnTo: request.returnTo, ...(request.link === undefined ? {} : { link: request.link }) },
      clock.now(),
    );
    try {
      const url = await provider.authorizationUrl(this.redirectUri(), checksOf(signIn));
      return { url, cookie: sealSignIn(signIn, cookieKey) };
    } catch (error) {
      if (!(error instanceof ProviderFault)) throw error;
      throw new UnavailableError('provider_unavailable', this.#unavailable(error));
    }
  }

  /**
   * The provider sent the browser back, with this query. The answer counts once, from the browser that began the sign-in, and with the
   * state that was sent. Throws SignInRefusal.
   */
  async finish(
    query: string,
    { cookies, place }: { cookies: ReadonlyMap<string, string>; place: SessionPlace },
  ): Promise<SignInEnd> {
    const { clock, cookieKey, logger, name } = this.#options;
    const callbackUrl = new URL(`${this.redirectUri()}${query}`);
    const state = callbackUrl.searchParams.get('state') ?? '';
    const signIn = openSignIn(state, cookies, { key: cookieKey, nowMs: clock.now() });
    if (signIn === undefined) {
      throw new SignInRefusal(
        'not_started_here',
        403,
        'This sign-in was not started in this browser, or more than ten minutes ago, or cookies are turned off. Start again on the sign-in page.',
      );
    }
    const person = await this.#person(callbackUrl, signIn);
    const signInLog = { issuer: person.issuer, subject: person.subject };
    if (signIn.link !== undefined) {
      const { link } = signIn;
      await this.#once(state, signIn, (tx, nowMs) => linkPerson(tx, { name }, { ...link, person }, nowMs));
      logger.info({ ...signInLog, user: link.userId }, 'single-sign-on.identity-linked');
      return { returnTo: signIn.returnTo, userId: link.userId, session: undefined };
    }
    const signedIn = await this.#once(state, signIn, (tx, nowMs) =>
      signInPerson(tx, this.#options, { person, place }, nowMs),
    );
    this.#noteChanges(signedIn, signInLog);
    return { returnTo: signIn.returnTo, userId: signedIn.userId, session: signedIn.session };
  }

  /** The accounts at the provider that are linked to a user. */
  identitiesOf(userId: string): Promise<UserIdentity[]> {
    return listIdentitiesOf(this.#options.store.read, userId);
  }

  /** Throws as `unlinkIdentity` does. */
  async unlink(userId: string, id: string): Promise<void> {
    const { store, clock, logger, onAccountChange } = this.#options;
    const accountIds = await store.transaction(async (tx) => {
      await store.takeTurn(tx, 'signIn');
      await store.notify(tx, 'millrace_access', userId);
      return unlinkIdentity(tx, this.#options, { userId, id }, clock.now());
    });
    logger.info({ user: userId, identity: id }, 'single-sign-on.identity-unlinked');
    for (const accountId of accountIds) onAccountChange(accountId);
  }

  /** Where the provider ends its own session, for a session that began with it; undefined for others, and where it has no such page. */
  async signOutUrl(keyId: string): Promise<string | undefined> {
    const { store, provider, publicUrl } = this.#options;
    const identity = await findIdentityByKey(store.read, keyId);
    if (identity === undefined || identity.issuer !== this.issuer) return undefined;
    return provider.signOutUrl(`${publicUrl()}/sign-in`);
  }

  /** One sign-in after another, so that a user who signs in twice at once is created once. Throws SignInRefusal `used_already`. */
  #once<T>(
    state: string,
    { expiresAtMs }: PendingSignIn,
    work: (tx: Parameters<Parameters<Store['transaction']>[0]>[0], nowMs: number) => Promise<T>,
  ): Promise<T> {
    const { store, clock } = this.#options;
    const nowMs = clock.now();
    return store
      .transaction(async (tx) => {
        await store.takeTurn(tx, 'signIn');
        if (!(await takeSignIn(tx, { stateHash: hashOf(state), expiresAtMs }, nowMs))) {
          throw new SignInRefusal(
            'used_already',
            410,
            'This sign-in was finished already. Start again on the sign-in page.',
          );
        }
        return work(tx, nowMs);
      })
      .catch((error) => {
        if (!(error instanceof CallerError)) throw error;
        throw new SignInRefusal(
          'not_admitted',
          409,
          `You cannot be signed in: ${error.message}. Tell the operator of this service.`,
          error.code,
        );
      });
  }

  async #person(callbackUrl: URL, signIn: PendingSignIn): Promise<Person> {
    const { provider, groupsClaim, name } = this.#options;
    try {
      return readPerson(await provider.claims(callbackUrl, checksOf(signIn)), { groupsClaim });
    } catch (error) {
      if (!(error instanceof ProviderFault)) throw error;
      const again = 'Try again; if that does not help, tell the operator, who finds the reason in the log.';
      switch (error.kind) {
        case 'unavailable': {
          const text = this.#unavailable(error);
          const sentences = `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
          throw new SignInRefusal('provider_unavailable', 503, sentences, error.reason);
        }
        case 'denied':
          throw new SignInRefusal(
            'access_denied',
            403,
            `You did not agree at ${name}, or it does not let you use this service.`,
            error.reason,
          );
        case 'refused':
          throw new SignInRefusal(
            'provider_refused',
            403,
            `${name} refused the sign-in. ${again}`,
            error.reason,
          );
        case 'untrusted':
          throw new SignInRefusal(
            'answer_not_trusted',
            502,
            `The answer of ${name} could not be verified, so you are not signed in. ${again}`,
            error.reason,
          );
      }
    }
  }

  /** As a message of the API: a page begins it in upper case, and ends it. */
  #unavailable({ kind }: ProviderFault): string {
    const { name, isOnly } = this.#options;
    const who = isOnly ? 'admins of the instance can' : 'you can';
    return kind === 'unavailable'
      ? `${name} does not answer at the moment: try again in a minute; until then ${who} sign in with an API key`
      : `${name} gives answers that this service cannot use, and trying again does not help: tell the operator, who finds the reason under Instance, Running and in the log; until then ${who} sign in with an API key`;
  }

  /** The provider sends the browser to the public URL, where it has only the cookies of that host. */
  #requirePublicOrigin(origin: string | undefined): void {
    const { publicUrl } = this.#options;
    const expected = new URL(publicUrl()).origin;
    if (origin === undefined || origin === expected) return;
    throw new CallerError(
      'conflict',
      `single sign-on works at ${expected} only, the public URL of this service: open the dashboard there, or have the operator set MILLRACE_PUBLIC_URL`,
    );
  }

  #noteChanges({ userId, isNewUser, session, changes }: SignedIn, signInLog: object): void {
    const { logger, onAccountChange } = this.#options;
    const { added, changed, removed, unknown, admin, accountIds } = changes;
    logger.info(
      { ...signInLog, user: userId, session: session.id, isNewUser, added, changed, removed, admin },
      'single-sign-on.signed-in',
    );
    if (unknown.length > 0) logger.warn({ workspaces: unknown }, 'single-sign-on.workspace-skipped');
    for (const accountId of accountIds) onAccountChange(accountId);
  }
}

/** Never another host, however it is written. Throws CallerError `invalid_parameter`. */
function requireLocalPath(path: string): void {
  const base = 'http://this.invalid';
  const isLocal =
    path.length <= returnToCharactersMax &&
    /^\/(?![/\\])[!-~]*$/.test(path) &&
    URL.canParse(path, base) &&
    new URL(path, base).origin === base &&
    !new URL(path, base).pathname.startsWith('//');
  if (isLocal) return;
  throw new CallerError(
    'invalid_parameter',
    `return_to: found ${JSON.stringify(path.slice(0, 100))}, expected a path of this service, such as /workflows, of at most ${returnToCharactersMax} characters`,
    { parameter: 'return_to' },
  );
}
