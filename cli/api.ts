import { open, rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import {
  type ApiRequest,
  type EventStream,
  Millrace,
  MillraceConnectionError,
  MillraceError,
  type MillraceOptions,
  MillraceTimeoutError,
  type StreamOptions,
  pathOf as sdkPathOf,
} from '#sdk';
import { durationText } from './amounts.ts';
import { CliError, type ExitReason, usageError } from './exit-codes.ts';
import { whereToLook } from './where-to-look.ts';

/** Any object of the API: the reference describes its fields, which are shown as they are. */
export type ApiObject = { readonly [field: string]: unknown };

/** As a query or a body; what is undefined is left out. */
export type Parameters = Readonly<Record<string, unknown>>;

/** Builds of components with many packages take minutes, and actions run for as long as they may. */
const answerPatienceMs = 290_000;
/** A large body over a slow connection. */
const downloadPatienceMs = 12 * 3_600_000;
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
  /** Bytes are sent as they are, all else as JSON. */
  body?: Parameters | Uint8Array;
  onHeaders?: (headers: Headers) => void;
}

/** The client as commands use it: every problem is a `CliError` with what to do about it. */
export class Api {
  readonly url: string;
  readonly #client: Millrace;
  readonly #options: MillraceOptions;
  readonly #signal: AbortSignal;

  constructor({ url, apiKey, signal }: Connection) {
    this.url = url;
    this.#signal = signal;
    this.#options = {
      url,
      ...(apiKey === '' ? {} : { apiKey }),
      timeoutMs: answerPatienceMs,
      // A user who waits at a terminal is told immediately what is wrong, and when to try again.
      retriesMax: 0,
    };
    this.#client = new Millrace(this.#options);
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

  /**
   * Writes the body of an answer to a file that only its owner reads, and returns the size in bytes. The body is not held in memory. The
   * file is replaced only by a body that is complete.
   */
  async download(path: string, query: Parameters, file: string): Promise<number> {
    const part = `${file}.part`;
    const handle = await open(part, 'w', 0o600);
    try {
      const output = handle.createWriteStream();
      const client = new Millrace({
        ...this.#options,
        timeoutMs: downloadPatienceMs,
        fetch: async (url, init) => {
          const response = await fetch(url, init);
          if (!response.ok || response.body === null) return response;
          await pipeline(response.body, output);
          return new Response(null, { headers: response.headers });
        },
      });
      await this.#told(() => client.request({ method: 'GET', path, query }, { signal: this.#signal }));
      await rename(part, file);
      return output.bytesWritten;
    } catch (error) {
      await rm(part, { force: true });
      throw error;
    } finally {
      await handle.close();
    }
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

/** Codes of connections that ended while they were in use. */
const brokenOff: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/** No answer came, or it broke off. */
export function unreachable(url: string, error: unknown, interrupted: AbortSignal): CliError {
  if (interrupted.aborted) return new CliError('interrupted', 'interrupted', { cause: error });
  if (error instanceof MillraceTimeoutError || (error instanceof Error && error.name === 'TimeoutError'))
    return new CliError('unreachable', `${url} gave no answer within ${durationText(answerPatienceMs)}`, {
      cause: error,
    });
  const reason = reasonIn(error);
  if (brokenOff.has(reason))
    return new CliError('unreachable', `the connection to ${url} broke off before the answer was complete`, {
      hint: 'The service may have done what was sent: look at it before you send that again. A push can be repeated.',
      cause: error,
    });
  return new CliError('unreachable', `${url} cannot be reached: ${reason}`, {
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
  // What the service says is for programs, which set the header themselves.
  const text = code === 'unauthorized' ? `${url} does not accept this API key` : message;
  return new CliError(reasonOf(status), text, { code, details, hint: hintFor(error) });
}

function reasonOf(status: number): ExitReason {
  if (status === 401 || status === 403) return 'notAllowed';
  if (status === 404) return 'notFound';
  if (status === 429 || status === 503) return 'busy';
  return 'failed';
}

const packageHint = 'Search for its name: `npm search WORDS`, or on the website of your npm registry.';

function hintFor({ status, code, message, retryAfterMs }: MillraceError): string | undefined {
  if (code === 'account_in_use') return '--force deletes it all the same.';
  if (code === 'hook_failed') return 'A command that deletes does so all the same with --ignore-hook-errors.';
  if (code === 'user_key_required') return 'Log in with the API key of a user.';
  if (status === 401)
    return 'Log in with a valid one: `millrace login`. The first key is in the file api-key in the data folder.';
  if (status === 403)
    return '`millrace whoami` says who you are; an admin of the workspace can change your role.';
  if (code === 'unknown_path')
    return 'Check the URL of the login (`millrace whoami`) or MILLRACE_URL: it has no path, and the service is of the version of this program.';
  if (code === 'package_not_found') return packageHint;
  if (status === 404) return whereToLook(message);
  return retryAfterMs === undefined ? undefined : `Try again in ${durationText(retryAfterMs)}.`;
}
