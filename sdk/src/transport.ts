import { type Authorization, keyAuthorization, TokenAuthorization } from './authorization.ts';
import { EventStream } from './event-stream.ts';
import {
  errorOf,
  jsonOf,
  MillraceConnectionError,
  MillraceError,
  MillraceTimeoutError,
  textOf,
} from './millrace-error.ts';
import { type Page, Paged } from './paged.ts';
import type { RequestOptions, StreamOptions } from './request-options.ts';
import { delay, waitBeforeRetry } from './retry.ts';
import { clientVersion } from './version.ts';

/** Options of `new Millrace(…)`. */
export interface MillraceOptions {
  /** Where the service is, such as `https://events.example.com`; with or without `/v1` at its end. */
  url: string;
  /** API key of a user, or a function that gets it for each request. Without a key and a client nothing says who asks. */
  apiKey?: string | (() => string | Promise<string>);
  /** OAuth client of a workspace (`oac_…`), with `clientSecret`, in place of an API key. */
  clientId?: string;
  clientSecret?: string;
  /** For each attempt of a request, answer included. Milliseconds; default 120,000: deploying may install packages. */
  timeoutMs?: number;
  /** Attempts after the first one; default 3. */
  retriesMax?: number;
  /** In front of ours in the User-Agent header, such as `my-service/1.2`. Browsers send their own. */
  userAgent?: string;
  /** Sent with every request. */
  headers?: Readonly<Record<string, string>>;
  /** In place of the global fetch. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** One operation with its parameters, as the generated methods ask for it. */
export interface ApiRequest {
  readonly method: string;
  /** From the root of the service, with `/v1` where it has one, and with encoded parameters. */
  readonly path: string;
  /** Undefined ones are left out. */
  readonly query?: Readonly<Record<string, unknown>>;
  /** Sent as JSON; a Blob or bytes are sent as they are. */
  readonly body?: unknown;
  /** Asked without saying who asks. */
  readonly isPublic?: boolean;
  /** Doing it twice does no harm. */
  readonly isRepeatable?: boolean;
  /** In place of the default, for operations that may take longer. */
  readonly timeoutMs?: number;
  /** For a stream: the list whose newest item is the place where the stream begins. */
  readonly newestPath?: string;
}

const timeoutDefaultMs = 120_000;
const retriesMaxDefault = 3;

/**
 * Requests of the API: who asks, how long, how often, and what an answer means. Every method rejects with MillraceError for
 * what the service answered, MillraceConnectionError (MillraceTimeoutError among them) when it did not, and the reason of the
 * signal when that was aborted.
 */
export class Transport {
  readonly #root: string;
  readonly #options: MillraceOptions;
  readonly #authorization: Authorization;
  readonly #fetch: (url: string, init: RequestInit) => Promise<Response>;

  constructor(options: MillraceOptions) {
    this.#root = rootOf(options.url);
    this.#options = options;
    // Called as a function of its own: browsers refuse a fetch that is called as a method of something else.
    this.#fetch = options.fetch ?? ((url, init) => fetch(url, init));
    this.#authorization = this.#authorizationOf(options);
  }

  /** The object in `data` of the answer. */
  async data<Data>(request: ApiRequest, options: RequestOptions): Promise<Data> {
    return (await this.json<{ data: Data }>(request, options)).data;
  }

  async json<Answer>(request: ApiRequest, options: RequestOptions): Promise<Answer> {
    const { response, text } = await this.#read(request, options);
    return jsonOf(response, request, text) as Answer;
  }

  /** The same; undefined where the answer has no body. */
  async answer<Answer>(request: ApiRequest, options: RequestOptions): Promise<Answer> {
    const { response, text } = await this.#read(request, options);
    return (text === '' ? undefined : jsonOf(response, request, text)) as Answer;
  }

  paged<Item>(request: ApiRequest, options: RequestOptions): Paged<Item> {
    return new Paged<Item>(request.query ?? {}, (query) =>
      this.json<Page<Item>>({ ...request, query }, options),
    );
  }

  async nothing(request: ApiRequest, options: RequestOptions): Promise<void> {
    await this.#read(request, options);
  }

  async text(request: ApiRequest, options: RequestOptions): Promise<string> {
    return (await this.#read(request, options)).text;
  }

  async #read(request: ApiRequest, options: RequestOptions): Promise<{ response: Response; text: string }> {
    const { retriesMax = this.#options.retriesMax ?? retriesMaxDefault, signal } = options;
    const { headers, isKeyed } = withKey(request, options);
    const isRepeatable =
      options.isRepeatable ?? (isKeyed || (request.isRepeatable ?? request.method === 'GET'));
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#within(request, options, async (limit) => {
          const response = await this.#authorized(request, { ...options, headers }, limit);
          return { response, text: await textOf(response, request) };
        });
      } catch (error) {
        const waitMs =
          attempt > retriesMax
            ? undefined
            : waitBeforeRetry(error, { attempt, isRepeatable, random: Math.random() });
        if (waitMs === undefined) throw error;
        await delay(waitMs, signal);
      }
    }
  }

  stream<Data>(request: ApiRequest, options: StreamOptions): EventStream<Data> {
    const { method, path, newestPath, query } = request;
    const open = async (lastEventId: string | undefined, signal: AbortSignal) => {
      const headers = {
        accept: 'text/event-stream',
        ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
      };
      // The time until the answer begins is limited; how long it then lasts is not.
      const whole = new AbortController();
      const follow = (other: AbortSignal) =>
        other.addEventListener('abort', () => whole.abort(other.reason), { once: true });
      follow(signal);
      const response = await this.#within(request, { signal }, (limit) => {
        follow(limit);
        return this.#authorized(request, { headers }, whole.signal);
      });
      if (response.body === null)
        throw new MillraceConnectionError(`${method} ${path}: the answer has no body`, { method, path });
      return response.body;
    };
    if (newestPath === undefined) return new EventStream<Data>({ open, method, path }, options);
    const newest = async (signal: AbortSignal) => {
      const list = { method, path: newestPath, query: { event_name: query?.event_name, limit: 1 } };
      return (await this.json<Page<{ id: string }>>(list, { signal })).data[0]?.id;
    };
    return new EventStream<Data>({ open, newest, method, path }, options);
  }

  /** Sends it, and once more with a new token when the one before was not taken. Rejects for every answer but 2xx. */
  async #authorized(
    request: ApiRequest,
    { headers, onHeaders }: Pick<RequestOptions, 'headers' | 'onHeaders'>,
    signal: AbortSignal,
  ): Promise<Response> {
    const authorization = request.isPublic === true ? undefined : await this.#authorization.header();
    const response = await this.#send(request, { headers, authorization, signal });
    onHeaders?.(response.headers);
    if (response.ok) return response;
    const isRefused = response.status === 401 && authorization !== undefined;
    if (!isRefused || !this.#authorization.refused(authorization)) throw await errorOf(response, request);
    await response.body?.cancel();
    const again = await this.#send(request, {
      headers,
      authorization: await this.#authorization.header(),
      signal,
    });
    onHeaders?.(again.headers);
    if (!again.ok) throw await errorOf(again, request);
    return again;
  }

  #send(
    { method, path, query = {}, body }: ApiRequest,
    {
      headers,
      authorization,
      signal,
    }: {
      headers: Readonly<Record<string, string>> | undefined;
      authorization: string | undefined;
      signal: AbortSignal;
    },
  ): Promise<Response> {
    const bytes = body instanceof Blob || body instanceof Uint8Array ? body : undefined;
    const type = bytes === undefined ? 'application/json' : 'application/octet-stream';
    return this.#fetch(`${this.#root}${path}${queryText(query)}`, {
      method,
      headers: {
        accept: 'application/json',
        ...userAgentHeader(this.#options.userAgent),
        ...this.#options.headers,
        ...(authorization === undefined ? {} : { authorization }),
        ...(body === undefined ? {} : { 'content-type': type }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: (bytes as RequestInit['body']) ?? JSON.stringify(body) }),
      // The API redirects nowhere; following would turn a POST into a GET, and hand the key on.
      redirect: 'manual',
      signal,
    });
  }

  /** Runs `act` with a signal that ends with the caller's, or after the time limit; then says which it was. */
  async #within<Answer>(
    request: ApiRequest,
    options: Pick<RequestOptions, 'signal' | 'timeoutMs'>,
    act: (signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    const { signal, timeoutMs = this.#options.timeoutMs ?? request.timeoutMs ?? timeoutDefaultMs } = options;
    const { method, path } = request;
    signal?.throwIfAborted();
    const limit = new AbortController();
    const abort = () => limit.abort(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    const state = { isLate: false };
    const timer = setTimeout(() => {
      state.isLate = true;
      limit.abort();
    }, timeoutMs);
    try {
      return await act(limit.signal);
    } catch (cause) {
      signal?.throwIfAborted();
      if (cause instanceof MillraceError || cause instanceof MillraceConnectionError) throw cause;
      const about = { method, path, cause };
      if (state.isLate)
        throw new MillraceTimeoutError(`${method} ${path}: no answer within ${timeoutMs} ms`, about);
      throw new MillraceConnectionError(`${method} ${path}: no answer: ${messageOf(cause)}`, about);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  #authorizationOf({ apiKey, clientId, clientSecret }: MillraceOptions): Authorization {
    if (clientId === undefined && clientSecret === undefined) return keyAuthorization(apiKey);
    if (apiKey !== undefined || clientId === undefined || clientSecret === undefined)
      throw new TypeError('expected either apiKey, or clientId and clientSecret');
    return new TokenAuthorization(() =>
      this.json(
        {
          method: 'POST',
          path: '/v1/oauth/token',
          body: { grant_type: 'client_credentials', client_id: clientId, client_secret: clientSecret },
          isPublic: true,
          isRepeatable: true,
        },
        {},
      ),
    );
  }
}

/** Only of a POST does the service know keys. */
function withKey(
  { method, isPublic = false }: ApiRequest,
  { headers = {}, idempotencyKey }: RequestOptions,
): { headers: Readonly<Record<string, string>>; isKeyed: boolean } {
  if (idempotencyKey === undefined || method !== 'POST' || isPublic) return { headers, isKeyed: false };
  return { headers: { ...headers, 'idempotency-key': idempotencyKey }, isKeyed: true };
}

/**
 * A path with encoded parameters. Throws TypeError for a parameter that would make another path of it: an empty one, `.` and
 * `..`, which no id and no key is.
 */
export function pathOf(texts: TemplateStringsArray, ...parameters: string[]): string {
  return texts.reduce((path, text, at) => {
    const parameter = parameters[at - 1];
    if (typeof parameter !== 'string' || parameter === '' || parameter === '.' || parameter === '..')
      throw new TypeError(`expected an id or key behind ${path}, found ${JSON.stringify(parameter)}`);
    return `${path}${encodeURIComponent(parameter)}${text}`;
  });
}

function rootOf(url: string): string {
  const { protocol, origin, pathname, search, hash, username, password } = new URL(url);
  if (!/^https?:$/.test(protocol)) throw new TypeError(`url: expected http or https, found ${protocol}`);
  if (search !== '' || hash !== '' || username !== '' || password !== '')
    throw new TypeError('url: expected the address of the service, without user, query and fragment');
  return `${origin}${pathname.replace(/\/+$/, '').replace(/\/v1$/, '')}`;
}

function queryText(query: Readonly<Record<string, unknown>>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null) parameters.append(name, String(value));
  const text = parameters.toString();
  return text === '' ? '' : `?${text}`;
}

/** None in browsers, which send their own. */
function userAgentHeader(prefix: string | undefined): Record<string, string> {
  if ('document' in globalThis || 'WorkerGlobalScope' in globalThis) return {};
  const own = `millrace-client/${clientVersion}`;
  return { 'user-agent': prefix === undefined ? own : `${prefix} ${own}` };
}

function messageOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  return thrown.cause instanceof Error ? `${thrown.message} (${thrown.cause.message})` : thrown.message;
}
