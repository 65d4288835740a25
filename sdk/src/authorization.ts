/** A token is renewed so long before its end that it does not end on its way. */
const renewBeforeMs = 60_000;

export interface Token {
  readonly access_token: string;
  /** Seconds. */
  readonly expires_in: number;
}

/** The credentials of the caller, as the value of the Authorization header. */
export interface Authorization {
  /** Undefined: no header is sent (a cookie, or a proxy, authenticates the caller). */
  header(): Promise<string | undefined>;
  /** The service refused this header. True: another one may work, so the request is repeated. */
  refused(header: string): boolean;
}

/** An API key, or a function that gets it, once for each request. */
export function keyAuthorization(
  apiKey: string | (() => string | Promise<string>) | undefined,
): Authorization {
  return {
    header: async () => {
      const key = typeof apiKey === 'function' ? await apiKey() : apiKey;
      return key === undefined ? undefined : `Bearer ${key}`;
    },
    refused: () => false,
  };
}

/** Access tokens of an OAuth client of a workspace, each used until shortly before its end; one request for one at a time. */
export class TokenAuthorization implements Authorization {
  readonly #obtain: () => Promise<Token>;
  #token: Promise<{ header: string; renewAtMs: number }> | undefined;
  #header: string | undefined;

  constructor(obtain: () => Promise<Token>) {
    this.#obtain = obtain;
  }

  async header(): Promise<string> {
    const token = await this.#current();
    if (Date.now() < token.renewAtMs) return token.header;
    // Another request may have asked for the next one while this one waited.
    if (this.#header === token.header) this.#forget();
    return (await this.#current()).header;
  }

  refused(header: string): boolean {
    if (this.#header === header) this.#forget();
    return true;
  }

  #current(): Promise<{ header: string; renewAtMs: number }> {
    this.#token ??= this.#next();
    return this.#token;
  }

  #forget(): void {
    this.#token = undefined;
    this.#header = undefined;
  }

  async #next(): Promise<{ header: string; renewAtMs: number }> {
    try {
      const { access_token: token, expires_in: seconds } = await this.#obtain();
      this.#header = `Bearer ${token}`;
      // A token that lives shorter than the margin is used for half of its life.
      const lifeMs = seconds * 1000;
      return { header: this.#header, renewAtMs: Date.now() + Math.max(lifeMs - renewBeforeMs, lifeMs / 2) };
    } catch (error) {
      this.#forget();
      throw error;
    }
  }
}
