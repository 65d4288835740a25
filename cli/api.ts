import { bytesText, durationText } from './amounts.ts';
import { CliError, type ExitReason } from './exit-codes.ts';
import { readMessages, type StreamMessage } from './stream-messages.ts';

/** Any object of the API: what it has is said by the reference, and shown as it is. */
export type ApiObject = { readonly [field: string]: unknown };

/** As a query or a body; what is undefined is left out. */
export type Parameters = Readonly<Record<string, unknown>>;

/** Builds of components with many packages take minutes, and actions run for as long as they may. */
const answerPatienceMs = 290_000;
/** No answer of the API is as large; what claims to be is not read to the end. */
const answerBytesMax = 64 * 1024 * 1024;
const pageSize = 100;

export interface Connection {
  /** Without a slash at the end. */
  url: string;
  apiKey: string;
  /** Ends everything under way. */
  signal: AbortSignal;
}

/** The one place that calls the REST API. Every problem is a `CliError` with what to do about it. */
export class Api {
  readonly url: string;
  readonly #apiKey: string;
  readonly #signal: AbortSignal;

  constructor(connection: Connection) {
    this.url = connection.url;
    this.#apiKey = connection.apiKey;
    this.#signal = connection.signal;
  }

  /** The whole body of the answer; `{}` where there is none. */
  async call(
    method: string,
    path: string,
    options: { query?: Parameters; body?: Parameters } = {},
  ): Promise<ApiObject> {
    const { body } = await this.answer(method, path, options);
    return body;
  }

  /** Also with the headers, which say when it was answered. */
  async answer(
    method: string,
    path: string,
    options: { query?: Parameters; body?: Parameters } = {},
  ): Promise<{ body: ApiObject; headers: Headers }> {
    const response = await this.#fetch(method, path, {
      ...options,
      signal: AbortSignal.any([this.#signal, AbortSignal.timeout(answerPatienceMs)]),
    });
    const text = await this.#text(response);
    const body = text === '' ? {} : parsed(text);
    if (!response.ok) throw refusal(response, body, this.url);
    if (body === undefined) throw notOurs(this.url, response.status);
    return { body, headers: response.headers };
  }

  /** `data` of the answer. */
  async data(
    method: string,
    path: string,
    options: { query?: Parameters; body?: Parameters } = {},
  ): Promise<ApiObject> {
    const { data } = await this.call(method, path, options);
    if (!isObject(data)) throw notOurs(this.url, 200);
    return data;
  }

  /** Up to `limit` items of a list, as many pages as they take. */
  async list(path: string, limit: number, query: Parameters = {}): Promise<ApiObject[]> {
    const items: ApiObject[] = [];
    let after: unknown;
    while (items.length < limit) {
      const size = Math.min(pageSize, limit - items.length);
      const page = await this.call('GET', path, { query: { ...query, limit: size, after } });
      if (!Array.isArray(page.data)) throw notOurs(this.url, 200);
      items.push(...(page.data as ApiObject[]));
      after = isObject(page.page_info) ? page.page_info.end_cursor : undefined;
      if (page.data.length < size || after === undefined) break;
    }
    return items.slice(0, limit);
  }

  /** Opens an event stream; resolves when it stands, so that nothing that is emitted from then on is missed. */
  async stream(
    path: string,
    options: { query?: Parameters; lastEventId?: string | undefined; signal: AbortSignal },
  ): Promise<AsyncGenerator<StreamMessage>> {
    const signal = AbortSignal.any([this.#signal, options.signal]);
    const response = await this.#fetch('GET', path, {
      ...(options.query === undefined ? {} : { query: options.query }),
      ...(options.lastEventId === undefined ? {} : { headers: { 'last-event-id': options.lastEventId } }),
      signal,
    });
    if (!response.ok) throw refusal(response, parsed(await this.#text(response)), this.url);
    if (response.body === null) throw notOurs(this.url, response.status);
    return readMessages(response.body);
  }

  async #fetch(
    method: string,
    path: string,
    options: { query?: Parameters; body?: Parameters; headers?: Record<string, string>; signal: AbortSignal },
  ): Promise<Response> {
    const { query = {}, body, headers = {}, signal } = options;
    const search = new URLSearchParams(
      Object.entries(query)
        .filter(([, value]) => value !== undefined)
        .map(([name, value]): [string, string] => [name, String(value)]),
    ).toString();
    const url = `${this.url}${path}${search === '' ? '' : `?${search}`}`;
    try {
      return await fetch(url, {
        method,
        headers: {
          ...(this.#apiKey === '' ? {} : { authorization: `Bearer ${this.#apiKey}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        // A redirect would turn POST into GET, or take the key elsewhere.
        redirect: 'manual',
        signal,
      });
    } catch (error) {
      throw unreachable(this.url, error, this.#signal);
    }
  }

  async #text(response: Response): Promise<string> {
    try {
      const chunks: Uint8Array[] = [];
      let bytes = 0;
      for await (const chunk of response.body ?? []) {
        bytes += chunk.byteLength;
        if (bytes > answerBytesMax)
          throw new CliError(
            'failed',
            `the answer of ${this.url} is larger than ${bytesText(answerBytesMax)}`,
          );
        chunks.push(chunk);
      }
      return Buffer.concat(chunks).toString();
    } catch (error) {
      if (error instanceof CliError) throw error;
      throw unreachable(this.url, error, this.#signal);
    }
  }
}

/** For ids and keys in paths. */
export function pathOf(parts: TemplateStringsArray, ...values: string[]): string {
  return parts
    .map((part, at) => `${part}${at < values.length ? encodeURIComponent(values[at] ?? '') : ''}`)
    .join('');
}

export function isObject(value: unknown): value is ApiObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** No answer came, or it broke off. */
export function unreachable(url: string, error: unknown, interrupted: AbortSignal): CliError {
  if (interrupted.aborted) return new CliError('interrupted', 'interrupted', { cause: error });
  if (error instanceof Error && error.name === 'TimeoutError')
    return new CliError('unreachable', `${url} gave no answer within ${durationText(answerPatienceMs)}`, {
      cause: error,
    });
  const { cause } = error as { cause?: { code?: string; message?: string } };
  const why = cause?.code ?? cause?.message ?? (error instanceof Error ? error.message : String(error));
  return new CliError('unreachable', `${url} cannot be reached: ${why}`, {
    hint: 'Is the service running (npm start), and is this its address? `millrace login` or MILLRACE_URL set another.',
    cause: error,
  });
}

function parsed(text: string): ApiObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function notOurs(url: string, status: number): CliError {
  return new CliError('failed', `${url} answered ${status}, but not as a Millrace does`, {
    hint: 'Check the address: it is that of the service, without /v1.',
  });
}

function refusal(response: Response, body: ApiObject | undefined, url: string): CliError {
  const { status } = response;
  if (status >= 300 && status < 400) {
    return new CliError(
      'failed',
      `${url} redirects to ${response.headers.get('location') ?? 'somewhere else'}`,
      {
        hint: 'Log in with the address that it redirects to.',
      },
    );
  }
  if (body === undefined || typeof body.error !== 'string') return notOurs(url, status);
  const code = typeof body.code === 'string' ? body.code : `http_${status}`;
  return new CliError(reasonOf(status), body.error, {
    code,
    details: body.details,
    hint: hintFor(status, code, response),
  });
}

function reasonOf(status: number): ExitReason {
  if (status === 401 || status === 403) return 'notAllowed';
  if (status === 404) return 'notFound';
  if (status === 429 || status === 503) return 'busy';
  return 'failed';
}

function hintFor(status: number, code: string, response: Response): string | undefined {
  if (code === 'account_in_use') return '--force deletes it all the same.';
  if (code === 'hook_failed') return 'When removing: --ignore-hook-errors removes it all the same.';
  if (code === 'user_key_required') return 'Log in with the API key of a user.';
  if (status === 401) return 'Log in with a key that is valid: `millrace login`.';
  if (status === 403)
    return '`millrace whoami` says who you are; an admin of the workspace can change your role.';
  if (status === 404) return 'The `list` commands show the ids of what you can see.';
  const seconds = response.headers.get('retry-after');
  if (seconds !== null) return `Try again in ${durationText(Number(seconds) * 1000)}.`;
  return undefined;
}
