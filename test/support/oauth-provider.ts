import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider, { type Configuration, type KoaContextWithOIDC } from 'oidc-provider';

export interface OAuthProviderOptions {
  /** Seconds; default 3600. May be changed later: see `accessTokenSeconds`. */
  accessTokenSeconds?: number;
  /** Default true: every refresh gives another refresh token, and a used one ends the grant. */
  rotates?: boolean;
  clientAuth?: 'client_secret_basic' | 'client_secret_post' | 'none';
  /** Where it sends browsers after they signed out. */
  postLogoutRedirectUris?: string[];
  /** Default: random ones. */
  client?: { id: string; secret: string };
  /** Default: any that is free. */
  port?: number;
}

/** What a user at the provider does. */
export type Decision = { login: string } | 'deny';

/**
 * A real authorization server (oidc-provider) on 127.0.0.1: code flow with PKCE required, client credentials,
 * rotating refresh tokens, revocation. No click is needed: `decision` says who signs in, or that access is denied.
 */
export class OAuthProvider {
  readonly url: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** The lifetime of tokens issued from now on. */
  accessTokenSeconds: number;
  decision: Decision = { login: 'ada' };
  /** What it says about its users, by login, in the userinfo response. */
  readonly people = new Map<string, Record<string, unknown>>();
  /** Takes requests to the token endpoint instead of the provider; true: it was answered. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
  /** Grants that were given and refused, by grant type. */
  readonly granted: string[] = [];
  readonly refused: string[] = [];
  revocations = 0;
  readonly #close: () => Promise<void>;

  private constructor(url: string, options: OAuthProviderOptions, close: () => Promise<void>) {
    this.url = url;
    this.accessTokenSeconds = options.accessTokenSeconds ?? 3600;
    this.clientId = options.client?.id ?? `client-${randomBytes(4).toString('hex')}`;
    this.clientSecret = options.client?.secret ?? `s3cr3t-_.~${randomBytes(12).toString('hex')}`;
    this.#close = close;
  }

  /** `redirectUris` are those of the service: exactly these are accepted. */
  static async start(redirectUris: string[], options: OAuthProviderOptions = {}): Promise<OAuthProvider> {
    const server = createServer();
    server.listen(options.port ?? 0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const close = async () => {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, 'close');
    };
    const running = new OAuthProvider(url, options, close);
    const provider = new Provider(url, running.#configuration(redirectUris, options));
    provider.on('grant.success', (ctx) => running.granted.push(grantTypeOf(ctx)));
    provider.on('grant.error', (ctx) => running.refused.push(grantTypeOf(ctx)));
    provider.on('grant.revoked', () => {});
    const handle = provider.callback();
    server.on('request', (request, response) => {
      const path = (request.url ?? '').split('?')[0] ?? '';
      if (path === '/token' && running.intercept?.(request, response) === true) return;
      if (path === '/token/revocation') running.revocations += 1;
      if (path.startsWith('/interaction/')) {
        running
          .#decide(provider, request, response)
          .catch((error) => response.writeHead(500).end(String(error)));
        return;
      }
      handle(request, response);
    });
    return running;
  }

  /** How the provider stands in the catalogue, as POST /v1/apps takes it. */
  app(slug: string, changes: Record<string, unknown> = {}, oauth: Record<string, unknown> = {}) {
    return {
      slug,
      name: 'Testhub',
      description: 'A provider for tests.',
      auth_type: 'oauth',
      oauth: {
        version: 2,
        authorization_url: `${this.url}/auth`,
        token_url: `${this.url}/token`,
        revocation_url: `${this.url}/token/revocation`,
        scopes: ['openid', 'offline_access', 'api'],
        pkce: true,
        client_auth: 'basic',
        authorization_parameters: { prompt: 'consent' },
        uid: { from: 'id_token', path: 'sub' },
        registration: { url: 'https://testhub.example/apps', text: 'Register `{{redirect_uri}}`.' },
        ...oauth,
      },
      ...changes,
    };
  }

  close(): Promise<void> {
    return this.#close();
  }

  #configuration(redirectUris: string[], options: OAuthProviderOptions): Configuration {
    const { rotates = true, clientAuth = 'client_secret_basic' } = options;
    return {
      clients: [
        {
          client_id: this.clientId,
          ...(clientAuth === 'none' ? {} : { client_secret: this.clientSecret }),
          token_endpoint_auth_method: clientAuth,
          redirect_uris: redirectUris,
          post_logout_redirect_uris: options.postLogoutRedirectUris ?? [],
          grant_types: [
            'authorization_code',
            'refresh_token',
            ...(clientAuth === 'none' ? [] : ['client_credentials']),
          ],
          response_types: ['code'],
        },
      ],
      scopes: ['openid', 'offline_access', 'api'],
      claims: {
        openid: ['sub'],
        email: ['email', 'email_verified'],
        profile: ['preferred_username', 'name'],
        groups: ['groups'],
      },
      cookies: { keys: [randomBytes(16).toString('hex')] },
      pkce: { required: () => true },
      rotateRefreshToken: rotates,
      ttl: {
        AccessToken: () => this.accessTokenSeconds,
        ClientCredentials: () => this.accessTokenSeconds,
        AuthorizationCode: 60,
        Grant: 3600,
        IdToken: 3600,
        Interaction: 600,
        RefreshToken: 3600,
        Session: 3600,
      },
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        revocation: { enabled: true },
      },
      findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ ...this.people.get(sub), sub }) }),
      interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    };
  }

  async #decide(provider: Provider, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { prompt, params, session } = await provider.interactionDetails(request, response);
    const { decision } = this;
    if (decision === 'deny') {
      const result = { error: 'access_denied', error_description: 'the person said no' };
      await provider.interactionFinished(request, response, result);
      return;
    }
    if (prompt.name === 'login' || session?.accountId !== decision.login) {
      await provider.interactionFinished(request, response, { login: { accountId: decision.login } });
      return;
    }
    const grant = new provider.Grant({ accountId: decision.login, clientId: String(params.client_id) });
    grant.addOIDCScope(String(params.scope));
    await provider.interactionFinished(
      request,
      response,
      { consent: { grantId: await grant.save() } },
      { mergeWithLastSubmission: true },
    );
  }
}

function grantTypeOf(ctx: KoaContextWithOIDC): string {
  return String(ctx.oidc.params?.grant_type);
}
