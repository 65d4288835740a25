import type { AppDefinition } from '#accounts/apps/app-definition.ts';
import { HttpReceiver, type ReceivedRequest, type ReceiverAnswer } from './http-receiver.ts';

/**
 * A real token endpoint (RFC 6749) whose refresh tokens are good once, as those of strict providers: who sends one that
 * was spent is refused for good. It can be made to fail in the ways that providers fail.
 */
export class TokenServer {
  readonly receiver: HttpReceiver;
  /** Seconds that access tokens live. */
  lifeSeconds = 3600;
  /** Stands beside the tokens, where the app looks for `oauth_uid`. */
  user: string | undefined;
  /** Answers this instead of tokens, if set. */
  failure: ReceiverAnswer | 'hang up' | undefined;
  /** Requests wait for this before they are looked at. */
  gate: Promise<void> = Promise.resolve();
  /** Tokens that were given for a refresh token so far. */
  refreshes = 0;
  /** Spent refresh tokens that were sent again. */
  replays = 0;
  #tokens = 0;
  readonly #good = new Set<string>();

  private constructor(receiver: HttpReceiver) {
    this.receiver = receiver;
  }

  static async start(): Promise<TokenServer> {
    const receiver = await HttpReceiver.start();
    const server = new TokenServer(receiver);
    receiver.answerAlways(async (request, response) => {
      await server.gate;
      if (server.failure === 'hang up') {
        response.destroy();
        return undefined;
      }
      return server.failure ?? server.#answer(request);
    });
    return server;
  }

  get url(): string {
    return `${this.receiver.url}/token`;
  }

  /** The tokens that follow a user's consent. */
  grant(): { accessToken: string; refreshToken: string } {
    this.#tokens += 1;
    const refreshToken = `refresh-token-number-${this.#tokens}`;
    this.#good.add(refreshToken);
    return { accessToken: `access-token-number-${this.#tokens}`, refreshToken };
  }

  /** An app whose provider this is. */
  app(slug: string): AppDefinition {
    return {
      slug,
      name: 'Example',
      description: 'An app for tests',
      categories: [],
      authType: 'oauth',
      customFields: [],
      oauth: {
        version: 2,
        grant: 'authorization_code',
        authorizationUrl: `${this.receiver.url}/authorize`,
        tokenUrl: this.url,
        revocationUrl: undefined,
        scopes: ['read'],
        scopeSeparator: ' ',
        pkce: true,
        clientAuth: 'post',
        authorizationParameters: {},
        tokenParameters: {},
        tokenBody: 'form',
        expiresInSeconds: undefined,
        uid: { from: 'token', path: 'user' },
        responseFields: {},
        accessTokenPath: 'access_token',
        registration: { url: 'https://example.com', text: '' },
      },
      test: undefined,
    };
  }

  close(): Promise<void> {
    return this.receiver.close();
  }

  #answer(request: ReceivedRequest): ReceiverAnswer {
    const form = new URLSearchParams(request.body.toString());
    if (form.get('grant_type') === 'refresh_token') {
      const sent = form.get('refresh_token') ?? '';
      if (!this.#good.delete(sent)) {
        this.replays += 1;
        return { status: 400, body: { error: 'invalid_grant', error_description: 'spent or unknown' } };
      }
      this.refreshes += 1;
    }
    const { accessToken, refreshToken } = this.grant();
    return {
      body: {
        access_token: accessToken,
        refresh_token: refreshToken,
        token_type: 'Bearer',
        expires_in: this.lifeSeconds,
        scope: 'read',
        user: this.user,
      },
    };
  }
}
