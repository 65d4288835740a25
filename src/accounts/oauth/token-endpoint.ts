import * as oauth from 'oauth4webapi';
import type { OAuth2Settings } from '#accounts/apps/app-definition.ts';
import { fieldsOf } from '#accounts/apps/fill-template.ts';
import { parseAnswer } from '#egress/answer-json.ts';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { type GuardedResponse, guardedFetch } from '#egress/guarded-fetch.ts';
import { basicCredentials } from '#lib/basic-credentials.ts';
import type { Clock } from '#lib/clock.ts';
import { makeRedactor, secretValues } from '#vault/redact.ts';
import { type Grant, type GrantContext, GrantError, type TokenEndpoint } from './grant.ts';
import { idTokenClaims } from './id-token.ts';
import { providerUrl } from './provider-url.ts';
import { readTokenAnswer } from './token-answer.ts';
import { refusalError } from './token-refusal.ts';
import { uidAt, valueAt } from './value-at.ts';

const answerBytesMax = 256 * 1024;
const timeoutMs = 20_000;
/** Timeout of the request that asks whose a refreshed token is. With `timeoutMs` it is shorter than the lease of a refresh. */
const uidTimeoutMs = 5_000;
/** Maximum length of a token, or of a text beside it: both go into every process that uses the account. */
const textCharactersMax = 16_000;
/** Maximum length of any other value beside it, as JSON, which also bounds its depth. */
const jsonCharactersMax = 4_000;

/** How the requests of one operation are made: shared by all of oauth4webapi's functions. */
interface Exchange {
  server: oauth.AuthorizationServer;
  client: oauth.Client;
  authentication: oauth.ClientAuth;
  options: {
    additionalParameters: Record<string, string>;
    [oauth.customFetch]: typeof fetch;
    [oauth.allowInsecureRequests]: boolean;
  };
  /** The answer as it came; empty before. */
  raw(): Record<string, unknown>;
}

/** Token endpoints as their providers run them, over the platform's guarded way out. Redirects are not followed. */
export function createTokenEndpoint(options: { dispatcher: GuardedDispatcher; clock: Clock }): TokenEndpoint {
  return {
    async exchangeCode(context, request) {
      const exchange = begin(options, context, 'the authorization code', [
        request.code,
        request.verifier ?? '',
      ]);
      const grant = await grantFrom(
        context,
        exchange,
        async ({ server, client, authentication, options }) => {
          // The state was checked where the flow is kept, and the issuer by the caller.
          const parameters = oauth.validateAuthResponse(
            server,
            client,
            new URLSearchParams({ code: request.code }),
            oauth.skipStateCheck,
          );
          const response = await oauth.authorizationCodeGrantRequest(
            server,
            client,
            authentication,
            parameters,
            request.redirectUri,
            request.verifier ?? oauth.nopkce,
            options,
          );
          return oauth.processAuthorizationCodeResponse(server, client, response);
        },
      );
      const claims = claimsOf(context, exchange.raw(), request, options.clock);
      return { ...grant, uid: await uidOf(options, context, grant, exchange.raw(), claims) };
    },

    async refresh(context, { refreshToken, asksUid = false }) {
      const exchange = begin(options, context, 'the refresh token', [refreshToken], 'refreshUrl');
      const grant = await grantFrom(context, exchange, async ({ server, client, authentication, options }) =>
        oauth.processRefreshTokenResponse(
          server,
          client,
          await oauth.refreshTokenGrantRequest(server, client, authentication, refreshToken, options),
        ),
      );
      if (!asksUid) return grant;
      try {
        const claims = claimsOf(context, exchange.raw(), { nonce: undefined }, options.clock);
        return { ...grant, uid: await uidOf(options, context, grant, exchange.raw(), claims, uidTimeoutMs) };
      } catch (error) {
        if (!(error instanceof GrantError)) throw error;
        return grant;
      }
    },

    async clientCredentials(context) {
      const exchange = begin(options, context, 'the client credentials', []);
      const scope = scopeOf(context);
      return grantFrom(context, exchange, async ({ server, client, authentication, options }) =>
        oauth.processClientCredentialsResponse(
          server,
          client,
          await oauth.clientCredentialsGrantRequest(
            server,
            client,
            authentication,
            { ...options.additionalParameters, ...(scope === '' ? {} : { scope }) },
            options,
          ),
        ),
      );
    },

    async revoke(context, { token, hint }) {
      const { revocationUrl } = oauth2Of(context);
      if (revocationUrl === undefined) return;
      const url = providerUrl(revocationUrl, urlFields(context));
      const fetcher = async (input: string, init: RequestInit): Promise<Response> => {
        const answer = await send(options, context, input, init);
        if (answer.status < 200 || answer.status > 299) {
          throw new GrantError('moment', `${context.app.name} answered ${answer.status} to the revocation`);
        }
        return new Response(null, { status: 200 });
      };
      await guardErrors(context, async () =>
        oauth.revocationRequest(
          { issuer: url.origin, revocation_endpoint: url.href },
          { client_id: context.client.clientId },
          authenticationOf(context),
          token,
          {
            additionalParameters: { token_type_hint: hint },
            [oauth.customFetch]: fetcher as typeof fetch,
            [oauth.allowInsecureRequests]: url.protocol === 'http:',
          },
        ),
      );
    },
  };
}

/** The scopes to request: the client's, else the app's; with the separator of the provider. */
export function scopeOf({ app, client }: Pick<GrantContext, 'app' | 'client'>, scopes?: string[]): string {
  const settings = oauth2Of({ app });
  return (scopes ?? client.scopes ?? settings.scopes).join(settings.scopeSeparator);
}

export function oauth2Of({ app }: Pick<GrantContext, 'app'>): OAuth2Settings {
  if (app.oauth?.version === 2) return app.oauth;
  throw new GrantError('client', `${app.name} is not connected with OAuth 2`);
}

/** What the provider's URLs may contain: the fields of the account, with the app's defaults. */
export function urlFields({ app, fields }: Pick<GrantContext, 'app' | 'fields'>): Record<string, unknown> {
  return { ...fields, ...fieldsOf(app, fields) };
}

function begin(
  options: { dispatcher: GuardedDispatcher; clock: Clock },
  context: GrantContext,
  subject: string,
  sent: string[],
  endpoint: 'tokenUrl' | 'refreshUrl' = 'tokenUrl',
): Exchange {
  const settings = oauth2Of(context);
  const url = providerUrl(settings[endpoint] ?? settings.tokenUrl, urlFields(context));
  const redact = makeRedactor([
    ...sent,
    context.client.clientSecret ?? '',
    ...secretValues({ ...context.fields }),
  ]);
  let raw: Record<string, unknown> = {};
  const fetcher = async (input: string, init: RequestInit): Promise<Response> => {
    const answer = await send(options, context, input, init);
    const read = readTokenAnswer(answer, settings);
    if (read.kind === 'refused') {
      throw refusalError(
        {
          provider: context.app.name,
          subject,
          status: answer.status,
          retryAfter: answer.headers['retry-after'],
          code: read.code,
          description: read.description,
        },
        redact,
        options.clock,
      );
    }
    raw = read.raw;
    return Response.json(read.conform);
  };
  return {
    server: { issuer: url.origin, token_endpoint: url.href },
    client: { client_id: context.client.clientId },
    authentication: authenticationOf(context),
    options: {
      additionalParameters: settings.tokenParameters,
      [oauth.customFetch]: fetcher as typeof fetch,
      [oauth.allowInsecureRequests]: url.protocol === 'http:',
    },
    raw: () => raw,
  };
}

async function grantFrom(
  context: GrantContext,
  exchange: Exchange,
  ask: (exchange: Exchange) => Promise<oauth.TokenEndpointResponse>,
): Promise<Grant> {
  const settings = oauth2Of(context);
  const tokens = await guardErrors(context, () => ask(exchange));
  const raw = exchange.raw();
  const fields: Record<string, unknown> = {};
  for (const [name, path] of Object.entries(settings.responseFields)) {
    const value = valueAt(raw, path);
    if (value !== undefined && value !== null) fields[name] = value;
  }
  const given = { access_token: tokens.access_token, refresh_token: tokens.refresh_token, ...fields };
  const tooLarge = Object.entries(given).find(([, value]) => isTooLarge(value))?.[0];
  if (tooLarge !== undefined) {
    throw new GrantError('moment', `${context.app.name} answered with ${tooLarge} that is far too large`);
  }
  return {
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token,
    expiresInSeconds: tokens.expires_in ?? settings.expiresInSeconds,
    scopes: tokens.scope?.split(' '),
    uid: undefined,
    fields,
  };
}

function isTooLarge(value: unknown): boolean {
  if (typeof value === 'string') return value.length > textCharactersMax;
  return typeof value === 'object' && JSON.stringify(value).length > jsonCharactersMax;
}

/** The one way out: guarded, bounded, without redirects. */
async function send(
  { dispatcher }: { dispatcher: GuardedDispatcher },
  context: GrantContext,
  url: string,
  init: RequestInit,
  waitMs = timeoutMs,
): Promise<GuardedResponse> {
  const headers: Record<string, string> = { ...(init.headers as Record<string, string>) };
  let body = init.body === undefined || init.body === null ? undefined : String(init.body);
  if (body !== undefined && oauth2Of(context).tokenBody === 'json') {
    body = JSON.stringify(Object.fromEntries(new URLSearchParams(body)));
    headers['content-type'] = 'application/json';
  }
  const { host } = new URL(url);
  try {
    return await guardedFetch(url, {
      dispatcher,
      method: init.method ?? 'GET',
      headers: { ...headers, 'user-agent': 'Millrace' },
      ...(body === undefined ? {} : { body }),
      maxRedirects: 0,
      maxBytes: answerBytesMax,
      timeoutMs: waitMs,
    });
  } catch (error) {
    const { code } = Object(error) as { code?: unknown };
    const why = typeof code === 'string' ? code : 'no answer';
    throw new GrantError('moment', `${context.app.name} cannot be reached at ${host}: ${why}`);
  }
}

/** Errors of the library hold the answer, tokens and all: they end here. */
async function guardErrors<T>(context: GrantContext, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof GrantError) throw error;
    const { code } = Object(error) as { code?: unknown };
    throw new GrantError(
      'moment',
      `${context.app.name} answered with tokens that cannot be used (${typeof code === 'string' ? code : 'unknown'})`,
    );
  }
}

function authenticationOf({ app, client }: GrantContext): oauth.ClientAuth {
  const { clientAuth } = oauth2Of({ app });
  const { clientSecret } = client;
  if (clientSecret === undefined) {
    if (clientAuth === 'none') return oauth.None();
    throw new GrantError(
      'client',
      `the OAuth client for ${app.name} has no secret, and ${app.name} asks for one`,
    );
  }
  return clientAuth === 'basic' ? basicAuthentication(clientSecret) : oauth.ClientSecretPost(clientSecret);
}

function basicAuthentication(clientSecret: string): oauth.ClientAuth {
  return (_server, client, _body, headers) => {
    headers.set('authorization', basicCredentials(client.client_id, clientSecret));
  };
}

function claimsOf(
  context: GrantContext,
  raw: Record<string, unknown>,
  { nonce, issuer }: { nonce: string | undefined; issuer?: string | undefined },
  clock: Clock,
): Record<string, unknown> | undefined {
  if (typeof raw.id_token !== 'string') return undefined;
  const { app, client } = context;
  return idTokenClaims(raw.id_token, { provider: app.name, clientId: client.clientId, nonce, issuer }, clock);
}

/** The id of the account's user at the provider. */
async function uidOf(
  options: { dispatcher: GuardedDispatcher },
  context: GrantContext,
  grant: Grant,
  raw: Record<string, unknown>,
  claims: Record<string, unknown> | undefined,
  waitMs = timeoutMs,
): Promise<string | undefined> {
  const { uid } = oauth2Of(context);
  if (uid === undefined) return uidAt(claims, 'sub');
  if (uid.from !== 'request') return uidAt(uid.from === 'token' ? raw : claims, uid.path);
  const url = providerUrl(uid.url, {
    ...urlFields(context),
    ...grant.fields,
    oauth_access_token: grant.accessToken,
  });
  const headers = { accept: 'application/json', authorization: `Bearer ${grant.accessToken}` };
  const answer = await send(options, context, url.href, { method: 'GET', headers }, waitMs);
  if (answer.status < 200 || answer.status > 299) {
    throw new GrantError(
      'moment',
      `${context.app.name} gave tokens, but answered ${answer.status} when asked at ${url.host} whose they are`,
    );
  }
  try {
    return uidAt(parseAnswer(answer.body), uid.path);
  } catch {
    throw new GrantError(
      'moment',
      `${context.app.name} gave tokens, but no JSON when asked at ${url.host} whose they are`,
    );
  }
}
