import {
  type ApiRequest,
  type EventStream,
  Millrace,
  MillraceConnectionError,
  MillraceError,
  MillraceTimeoutError,
  type StreamOptions,
  pathOf as sdkPathOf,
} from '#sdk';
import { durationText } from './amounts.ts';
import { CliError, type ExitReason, usageError } from './exit-codes.ts';

/** Any object of the API: the reference describes its fields, which are shown as they are. */
export type ApiObject = { readonly [field: string]: unknown };

/** As a query or a body; what is undefined is left out. */
export type Parameters = Readonly<Record<string, unknown>>;

/** Builds of components with many packages take minutes, and actions run for as long as they may. */
const answerPatienceMs = 290_000;
const pageSize = 100;

export interface Connection {
  /** Without a slash at the end. */
  url: string;
  apiKey: string;
  /** Ends everything under way. */
  signal: AbortSignal;
}

interface Sent {
  query?: Parameters;
  body?: Parameters;
  onHeaders?: (headers: Headers) => void;
}

/** The client as commands use it: every problem is a `CliError` with what to do about it. */
export class Api {
  readonly url: string;
  readonly #client: Millrace;
  readonly #signal: AbortSignal;

  constructor({ url, apiKey, signal }: Connection) {
    this.url = url;
    this.#signal = signal;
    this.#client = new Millrace({
      url,
      ...(apiKey === '' ? {} : { apiKey }),
      timeoutMs: answerPatienceMs,
      // A user who waits at a terminal is told immediately what is wrong, and when to try again.
      retriesMax: 0,
    });
  }

  /** The whole body of the answer; `{}` where there is none. */
  async call<Answer extends object = ApiObject>(
    method: string,
    path: string,
    { query, body, onHeaders }: Sent = {},
  ): Promise<Answer> {
    const answer = await this.#told(() =>
      this.#client.request<unknown>(
        {
          method,
          path,
          ...(query === undefined ? {} : { query }),
          ...(body === undefined ? {} : { body }),
        },
        { signal: this.#signal, ...(onHeaders === undefined ? {} : { onHeaders }) },
      ),
    );
    if (answer !== undefined && !isObject(answer)) throw notOurs(this.url, 200);
    return (answer ?? {}) as Answer;
  }

  /** `data` of the answer. */
  async data<Data extends object = ApiObject>(method: string, path: string, sent: Sent = {}): Promise<Data> {
    const { data } = await this.call(method, path, sent);
    if (!isObject(data)) throw notOurs(this.url, 200);
    return data as Data;
  }

  /** All items of a list that has no pages. */
  async whole<Item extends object = ApiObject>(path: string): Promise<Item[]> {
    const { data } = await this.call('GET', path);
    if (!Array.isArray(data)) throw notOurs(this.url, 200);
    return data as Item[];
  }

  /** Up to `limit` items of a list, as many pages as they take. */
  async list<Item extends object = ApiObject>(
    path: string,
    limit: number,
    query: Parameters = {},
  ): Promise<Item[]> {
    const request = { method: 'GET', path, query: { ...query, limit: Math.min(pageSize, limit) } };
    return this.#told(() => this.#client.list<Item>(request, { signal: this.#signal }).take(limit));
  }

  /** A live stream, which is opened when it is iterated; its failures become errors of `asCliError`. */
  stream<Data>(
    request: Pick<ApiRequest, 'path' | 'query'>,
    options: StreamOptions & { signal: AbortSignal },
  ): EventStream<Data> {
    const signal = AbortSignal.any([this.#signal, options.signal]);
    return this.#client.stream<Data>({ method: 'GET', ...request }, { ...options, signal });
  }

  /** Turns errors of the client into those of commands; our own faults stay as they are. */
  asCliError(error: unknown): unknown {
    if (error instanceof MillraceError) return refusal(error, this.url);
    if (error instanceof MillraceConnectionError || this.#signal.aborted)
      return unreachable(this.url, error, this.#signal);
    return error;
  }

  async #told<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    try {
      return await ask();
    } catch (error) {
      throw this.asCliError(error);
    }
  }
}

/** For ids and keys in paths. */
export function pathOf(parts: TemplateStringsArray, ...values: string[]): string {
  try {
    return sdkPathOf(parts, ...values);
  } catch (error) {
    throw usageError((error as Error).message);
  }
}

export function isObject(value: unknown): value is ApiObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** No answer came, or it broke off. */
export function unreachable(url: string, error: unknown, interrupted: AbortSignal): CliError {
  if (interrupted.aborted) return new CliError('interrupted', 'interrupted', { cause: error });
  if (error instanceof MillraceTimeoutError || (error instanceof Error && error.name === 'TimeoutError'))
    return new CliError('unreachable', `${url} gave no answer within ${durationText(answerPatienceMs)}`, {
      cause: error,
    });
  return new CliError('unreachable', `${url} cannot be reached: ${reasonIn(error)}`, {
    hint: 'Is the service running (npm start), and is this its URL? `millrace login` or MILLRACE_URL set another.',
    cause: error,
  });
}

/** The innermost reason, such as ECONNREFUSED: fetch and the client each put a sentence of their own around it. */
function reasonIn(error: unknown): string {
  const { code, cause, message } = error as { code?: unknown; cause?: unknown; message?: unknown };
  if (typeof code === 'string') return code;
  return cause instanceof Error ? reasonIn(cause) : String(message ?? error);
}

function notOurs(url: string, status: number): CliError {
  return new CliError('failed', `${url} answered ${status}, but not as a Millrace does`, {
    hint: 'Check the address: it is that of the service, without /v1.',
  });
}

function refusal(error: MillraceError, url: string): CliError {
  const { status, code, message, details } = error;
  if (status >= 300 && status < 400) {
    return new CliError('failed', `${url} redirects to ${String(details.location ?? 'somewhere else')}`, {
      hint: 'Log in with the address that it redirects to.',
    });
  }
  if (code === 'not_an_api_error') return notOurs(url, status);
  return new CliError(reasonOf(status), message, { code, details, hint: hintFor(error) });
}

function reasonOf(status: number): ExitReason {
  if (status === 401 || status === 403) return 'notAllowed';
  if (status === 404) return 'notFound';
  if (status === 429 || status === 503) return 'busy';
  return 'failed';
}

function hintFor({ status, code, retryAfterMs }: MillraceError): string | undefined {
  if (code === 'account_in_use') return '--force deletes it all the same.';
  if (code === 'hook_failed') return 'When removing: --ignore-hook-errors removes it all the same.';
  if (code === 'user_key_required') return 'Log in with the API key of a user.';
  if (status === 401) return 'Log in with a key that is valid: `millrace login`.';
  if (status === 403)
    return '`millrace whoami` says who you are; an admin of the workspace can change your role.';
  if (status === 404) return 'The `list` commands show the ids and names of what you can see.';
  return retryAfterMs === undefined ? undefined : `Try again in ${durationText(retryAfterMs)}.`;
}
