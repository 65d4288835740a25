import * as oidc from 'openid-client';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { basicCredentials } from '#lib/basic-credentials.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { ProviderFault, providerFault } from './provider-fault.ts';
import { providerFetch } from './provider-fetch.ts';
import type { SignInChecks } from './sign-in-cookie.ts';

/** How long what the provider says about itself is used: endpoints change rarely. */
const metadataMs = 5 * 60_000;
/** So long nothing is asked of a provider that could not be reached: strangers may cause these requests. */
const restMs = 2_000;
/** How long the state on the sign-in page and the page of the instance counts before it is looked at again. */
const stateMs = 60_000;
const timeoutSeconds = 10;
/** Seconds that the clocks of the provider and of this machine may be apart. */
const clockToleranceSeconds = 60;

export interface ProviderSettings {
  issuer: string;
  clientId: string;
  /** '': a public client. */
  clientSecret: string;
  scopes: string;
}

export interface IdentityProviderOptions {
  settings: ProviderSettings;
  dispatcher: GuardedDispatcher;
  clock: Clock;
  logger: Logger;
}

export const providerStates = ['unchecked', 'reachable', 'unreachable'] as const;

export interface ProviderStatus {
  state: (typeof providerStates)[number];
  /** Why it is unreachable; without secrets, but with addresses: for the operator. */
  problem: string | null;
  checkedAtMs: number | null;
}

/**
 * The OpenID Connect provider of this service. Endpoints come from its discovery document; the keys that it signs with are fetched for each
 * sign-in, so that a key which the provider has just replaced neither blocks users nor is trusted any longer.
 */
export class IdentityProvider {
  readonly #options: IdentityProviderOptions;
  readonly #fetch: oidc.CustomFetch;
  #metadata: { value: oidc.ServerMetadata; atMs: number } | undefined;
  #failure: { fault: ProviderFault; atMs: number } | undefined;
  #asking: Promise<oidc.ServerMetadata> | undefined;

  constructor(options: IdentityProviderOptions) {
    this.#options = options;
    this.#fetch = providerFetch(options.dispatcher);
  }

  /** Where the browser is sent to sign in. Throws ProviderFault. */
  async authorizationUrl(redirectUri: string, { state, nonce, verifier }: SignInChecks): Promise<string> {
    const config = this.#configure(await this.#discover());
    const url = oidc.buildAuthorizationUrl(config, {
      redirect_uri: redirectUri,
      scope: this.#options.settings.scopes.trim().split(/\s+/).join(' '),
      state,
      nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    });
    return url.href;
  }

  /**
   * Exchanges the answer that the browser brought, as the full URL of the callback, for the claims about the user. Checks `iss` of the
   * answer, and signature, issuer, audience, times and nonce of the ID token. Throws ProviderFault.
   */
  async claims(callbackUrl: URL, { state, nonce, verifier }: SignInChecks): Promise<Record<string, unknown>> {
    const config = this.#configure(await this.#discover());
    try {
      const tokens = await oidc.authorizationCodeGrant(config, callbackUrl, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      });
      const claims: Record<string, unknown> = { ...tokens.claims() };
      // OpenID Connect Core, 3.1.3.7: the library looks at it only where there are several audiences.
      if (claims.azp !== undefined && claims.azp !== this.#options.settings.clientId)
        throw new ProviderFault('untrusted', 'the ID token names another client as its authorized party');
      if (config.serverMetadata().userinfo_endpoint === undefined) return claims;
      const userinfo = await oidc.fetchUserInfo(config, tokens.access_token, String(claims.sub));
      return { ...userinfo, ...claims };
    } catch (error) {
      const code = callbackUrl.searchParams.get('code') ?? '';
      throw providerFault(error, [this.#options.settings.clientSecret, verifier, nonce, state, code]);
    }
  }

  /**
   * Where the browser ends the session at the provider; undefined where the provider has no such page, or what it said about itself is not
   * known. Waits only when it was never asked.
   */
  async signOutUrl(returnUri: string): Promise<string | undefined> {
    await this.status();
    const metadata = this.#metadata?.value;
    if (metadata?.end_session_endpoint === undefined) return undefined;
    const parameters = { post_logout_redirect_uri: returnUri };
    return oidc.buildEndSessionUrl(this.#configure(metadata), parameters).href;
  }

  /** How the provider was found last. Looks again where that is a minute ago, and waits only when it was never looked at. */
  async status(): Promise<ProviderStatus> {
    const nowMs = this.#options.clock.now();
    const checkedAtMs = this.#checkedAtMs();
    if (checkedAtMs === null || nowMs - checkedAtMs > stateMs) {
      const asked = this.#discover({ isFresh: true }).catch(() => undefined);
      if (checkedAtMs === null) await asked;
    }
    return {
      state:
        this.#failure !== undefined
          ? 'unreachable'
          : this.#metadata !== undefined
            ? 'reachable'
            : 'unchecked',
      problem: this.#failure?.fault.reason ?? null,
      checkedAtMs: this.#checkedAtMs(),
    };
  }

  #checkedAtMs(): number | null {
    return this.#failure?.atMs ?? this.#metadata?.atMs ?? null;
  }

  /** What the provider says about itself. One request for all who ask at the same time. Throws ProviderFault. */
  async #discover({ isFresh = false } = {}): Promise<oidc.ServerMetadata> {
    const nowMs = this.#options.clock.now();
    if (this.#failure !== undefined && nowMs - this.#failure.atMs < restMs) throw this.#failure.fault;
    if (!isFresh && this.#metadata !== undefined && nowMs - this.#metadata.atMs < metadataMs)
      return this.#metadata.value;
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #ask(): Promise<oidc.ServerMetadata> {
    const { settings, clock, logger } = this.#options;
    try {
      const config = await oidc.discovery(
        new URL(settings.issuer),
        settings.clientId,
        undefined,
        oidc.None(),
        {
          [oidc.customFetch]: this.#fetch,
          timeout: timeoutSeconds,
          ...(isPlain(settings.issuer) ? { execute: [oidc.allowInsecureRequests] } : {}),
        },
      );
      const value = config.serverMetadata();
      requireEndpoints(value, isPlain(settings.issuer));
      if (this.#failure !== undefined)
        logger.info({ issuer: settings.issuer }, 'single-sign-on.provider-reached');
      this.#failure = undefined;
      this.#metadata = { value, atMs: clock.now() };
      return value;
    } catch (error) {
      const fault = providerFault(error, [settings.clientSecret]);
      if (this.#failure === undefined) {
        const { reason } = fault;
        logger.warn({ issuer: settings.issuer, reason }, 'single-sign-on.provider-lost');
      }
      this.#failure = { fault, atMs: clock.now() };
      throw fault;
    }
  }

  /** A configuration of its own for each sign-in: the library keeps the keys of the provider with it. */
  #configure(metadata: oidc.ServerMetadata): oidc.Configuration {
    const { clientId, clientSecret, issuer } = this.#options.settings;
    const client = { [oidc.clockTolerance]: clockToleranceSeconds };
    const config = new oidc.Configuration(metadata, clientId, client, authentication(metadata, clientSecret));
    config[oidc.customFetch] = this.#fetch;
    config.timeout = timeoutSeconds;
    if (isPlain(issuer)) oidc.allowInsecureRequests(config);
    oidc.enableNonRepudiationChecks(config);
    return config;
  }
}

/** Those that this service asks, and those that the browser is sent to. */
const endpoints = [
  ...(['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const),
  ...(['userinfo_endpoint', 'end_session_endpoint'] as const),
] as const;
const neededEndpoints: ReadonlySet<string> = new Set(['authorization_endpoint', 'token_endpoint']);

/** A browser must not be sent to `javascript:` and the like. Throws ProviderFault `untrusted`. */
function requireEndpoints(metadata: oidc.ServerMetadata, mayBePlain: boolean): void {
  for (const name of endpoints) {
    const found: unknown = metadata[name];
    if (found === undefined && !neededEndpoints.has(name)) continue;
    const protocol = typeof found === 'string' && URL.canParse(found) ? new URL(found).protocol : undefined;
    if (protocol === 'https:' || (mayBePlain && protocol === 'http:')) continue;
    const shown = found === undefined ? 'nothing' : JSON.stringify(found).slice(0, 100);
    throw new ProviderFault('untrusted', `${name}: found ${shown}, expected an https URL`);
  }
}

/** Only on this machine: the settings refuse all others. */
function isPlain(issuer: string): boolean {
  return issuer.startsWith('http:');
}

/** `client_secret_basic` unless the provider says that it does not take it (OpenID Connect Discovery, section 3). */
function authentication(metadata: oidc.ServerMetadata, clientSecret: string): oidc.ClientAuth {
  if (clientSecret === '') return oidc.None();
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  if (!methods.includes('client_secret_basic')) return oidc.ClientSecretPost(clientSecret);
  return (_server, client, _body, headers) => {
    headers.set('authorization', basicCredentials(client.client_id, clientSecret));
  };
}
