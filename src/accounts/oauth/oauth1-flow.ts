import { randomBytes } from 'node:crypto';
import type { OAuth1Settings } from '#accounts/apps/app-definition.ts';
import { parseAnswer } from '#egress/answer-json.ts';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { type GuardedResponse, guardedFetch } from '#egress/guarded-fetch.ts';
import { assert } from '#lib/assert.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import { makeRedactor } from '#vault/redact.ts';
import { type Grant, type GrantContext, GrantError } from './grant.ts';
import { authorizationHeader, type Parameter, parseForm } from './oauth1-signature.ts';
import { providerUrl } from './provider-url.ts';
import { urlFields } from './token-endpoint.ts';
import { plainText } from './token-refusal.ts';
import { uidAt } from './value-at.ts';

/** For everything together, the answer included. */
const timeoutMs = 20_000;
/** Two tokens and a few words about the account. */
const answerBytesMax = 64 * 1024;
const tokenCharactersMax = 8 * 1024;
/** Maximum of a provider's message that is shown to users. */
const wordsCharactersMax = 300;

/** Temporary credentials (RFC 5849, section 2.1): the token goes through the browser, the secret does not. */
export interface RequestToken {
  token: string;
  tokenSecret: string;
}

/** Connecting an account by OAuth 1.0a (RFC 5849, section 2). Every request is signed, and no redirect is followed. */
export class OAuth1Flow {
  readonly #dispatcher: GuardedDispatcher;
  readonly #clock: Clock;

  constructor(options: { dispatcher: GuardedDispatcher; clock: Clock }) {
    this.#dispatcher = options.dispatcher;
    this.#clock = options.clock;
  }

  /** The first step. `callbackUrl` is where the browser comes back with oauth_token and oauth_verifier. Throws GrantError. */
  async requestToken(context: GrantContext, { callbackUrl }: { callbackUrl: string }): Promise<RequestToken> {
    const settings = settingsOf(context);
    const answer = await this.#ask(context, {
      url: providerUrl(settings.requestTokenUrl, urlFields(context)),
      token: undefined,
      tokenSecret: '',
      more: [['oauth_callback', callbackUrl]],
      // The consumer alone is asked about here.
      refusal: 'client',
    });
    // Without it the provider speaks OAuth 1.0, where another one's authorization can be slipped in (section 2.1).
    if (answer.get('oauth_callback_confirmed') !== 'true') {
      throw new GrantError(
        'client',
        `${context.app.name} did not confirm the callback: it is no OAuth 1.0a provider`,
      );
    }
    return tokensIn(answer, context);
  }

  /** The URL at which the user agrees: the second step. */
  authorizationUrl(context: GrantContext, { token }: Pick<RequestToken, 'token'>): string {
    const settings = settingsOf(context);
    const url = providerUrl(settings.authorizationUrl, urlFields(context));
    for (const [name, value] of Object.entries(settings.authorizationParameters))
      url.searchParams.set(name, value);
    url.searchParams.set('oauth_token', token);
    return url.href;
  }

  /**
   * The third step. `refreshToken` of the grant is the token secret: that is where components look for it
   * (`$auth.oauth_refresh_token`), and nothing is ever refreshed. Throws GrantError.
   */
  async accessToken(
    context: GrantContext,
    request: { token: string; tokenSecret: string; verifier: string },
  ): Promise<Grant> {
    const settings = settingsOf(context);
    const answer = await this.#ask(context, {
      url: providerUrl(settings.accessTokenUrl, urlFields(context)),
      token: request.token,
      tokenSecret: request.tokenSecret,
      more: [['oauth_verifier', request.verifier]],
      // The consumer was good enough for the request token a moment ago.
      refusal: 'grant',
    });
    const { token, tokenSecret } = tokensIn(answer, context);
    return {
      accessToken: token,
      refreshToken: tokenSecret,
      expiresInSeconds: undefined,
      scopes: undefined,
      uid: await this.#uidOf(context, answer, { token, tokenSecret }),
      fields: {},
    };
  }

  /** The id of the account's user at the provider. */
  async #uidOf(
    context: GrantContext,
    answer: ReadonlyMap<string, string>,
    tokens: RequestToken,
  ): Promise<string | undefined> {
    const { uid } = settingsOf(context);
    if (uid === undefined) return undefined;
    if (uid.from === 'token') return answer.get(uid.path);
    const url = providerUrl(uid.url, urlFields(context));
    const { body } = await this.#send(context, { method: 'GET', url, ...tokens, more: [], refusal: 'grant' });
    try {
      return uidAt(parseAnswer(body), uid.path);
    } catch {
      throw new GrantError(
        'moment',
        `${context.app.name} gave a token, but no JSON when asked at ${url.host} whose it is`,
      );
    }
  }

  async #ask(
    context: GrantContext,
    request: Omit<SignedFlowRequest, 'method'>,
  ): Promise<Map<string, string>> {
    const { body } = await this.#send(context, { ...request, method: 'POST' });
    return new Map(parseForm(body.toString('utf8').trim()));
  }

  async #send(context: GrantContext, request: SignedFlowRequest): Promise<GuardedResponse> {
    const { app, client } = context;
    const { method, url, token, tokenSecret, more } = request;
    const authorization = authorizationHeader(
      { method, url, form: [] },
      {
        method: settingsOf(context).signatureMethod,
        consumerKey: client.clientId,
        consumerSecret: client.clientSecret ?? '',
        token,
        tokenSecret,
      },
      { ...freshMark(this.#clock), more },
    );
    const response = await guardedFetch(url.href, {
      dispatcher: this.#dispatcher,
      method,
      headers: {
        authorization,
        accept: method === 'GET' ? 'application/json' : 'application/x-www-form-urlencoded, */*;q=0.5',
        'user-agent': 'Millrace',
      },
      // Signed for this URL, and for no other.
      maxRedirects: 0,
      maxBytes: answerBytesMax,
      timeoutMs,
    }).catch((error: unknown) => {
      const { code } = toError(error) as { code?: unknown };
      const why = typeof code === 'string' ? code : 'no answer';
      throw new GrantError('moment', `${app.name} cannot be reached at ${url.host}: ${why}`);
    });
    if (response.status < 200 || response.status > 299) throw refusedBy(context, request, response);
    return response;
  }
}

interface SignedFlowRequest {
  method: 'GET' | 'POST';
  url: URL;
  token: string | undefined;
  tokenSecret: string;
  more: readonly Parameter[];
  /** What a refusal without a reason is about. */
  refusal: GrantError['reach'];
}

/** Nonce and time of one signature. */
export function freshMark(clock: Clock): { nonce: string; seconds: number } {
  return { nonce: randomBytes(16).toString('hex'), seconds: epochSeconds(clock.now()) };
}

function settingsOf({ app }: GrantContext): OAuth1Settings {
  assert(app.oauth?.version === 1, `${app.slug} is an OAuth 1 app`);
  return app.oauth;
}

function tokensIn(answer: ReadonlyMap<string, string>, { app }: GrantContext): RequestToken {
  const token = answer.get('oauth_token') ?? '';
  const tokenSecret = answer.get('oauth_token_secret') ?? '';
  if (token === '' || tokenSecret === '' || token.length + tokenSecret.length > tokenCharactersMax) {
    throw new GrantError(
      'moment',
      `${app.name} answered without oauth_token and oauth_token_secret, or with ones that are far too long`,
    );
  }
  return { token, tokenSecret };
}

function refusedBy(
  { app, client }: GrantContext,
  { url, refusal, token, tokenSecret, more }: SignedFlowRequest,
  { status, headers, body }: GuardedResponse,
): GrantError {
  const text = body.toString('utf8');
  const problem = problemIn(headers['www-authenticate'] ?? '', text);
  const isRefusal = status >= 400 && status < 500 && status !== 408 && status !== 429;
  // A page says nothing that is worth showing.
  const isPage = /html|xml/i.test(headers['content-type'] ?? '') || /^\s*</.test(text);
  const redact = makeRedactor([
    client.clientSecret ?? '',
    token ?? '',
    tokenSecret,
    ...more.map(([, value]) => value),
  ]);
  const words = problem ?? (isPage ? '' : plainText(redact(text), wordsCharactersMax));
  const moved = status >= 300 && status < 400 ? ' (redirects are not followed)' : '';
  const seconds = /^\d{1,6}$/.exec(headers['retry-after'] ?? '')?.[0];
  return new GrantError(
    isRefusal ? reachOf(problem, refusal) : 'moment',
    `${app.name} answered ${status}${moved} at ${url.host}${url.pathname}${words === '' ? '' : `: ${words}`}`,
    {
      ...(problem !== undefined && { providerCode: problem }),
      ...(seconds !== undefined && { retryAfterSeconds: Number(seconds) }),
    },
  );
}

/** The code of the "problem reporting" extension that many providers use. */
function problemIn(header: string, body: string): string | undefined {
  const inHeader = /\boauth_problem="?([a-z_]{1,64})\b/.exec(header)?.[1];
  return inHeader ?? /(?:^|&)oauth_problem=([a-z_]{1,64})(?:&|\s*$)/.exec(body)?.[1];
}

function reachOf(problem: string | undefined, otherwise: GrantError['reach']): GrantError['reach'] {
  if (problem === undefined) return otherwise;
  if (/^(consumer_key_|signature_|version_|timestamp_|nonce_|parameter_)/.test(problem)) return 'client';
  if (/^(token_|verifier_|permission_|user_|additional_authorization)/.test(problem)) return 'grant';
  return otherwise;
}
