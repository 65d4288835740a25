import type { ErrorCode } from './generated/error-codes.ts';

export type { ErrorCode };

/** What is known of an answer that is an error. */
export interface ErrorFacts {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly method: string;
  readonly path: string;
}

/**
 * The service refused the request: `message` is a sentence for users, `code` is for programs (a table
 * of them is in docs/reference/errors.md of Millrace).
 */
export class MillraceError extends Error {
  override readonly name = 'MillraceError';
  /** HTTP status, 200 to 599; below 300 only with `not_an_api_error`. */
  readonly status: number;
  /** `not_an_api_error` where the answer was none of the service: that of a proxy, say. */
  readonly code: ErrorCode | 'not_an_api_error' | (string & {});
  /**
   * `parameter` names the offending parameter of a validation error; other fields depend on the code. Of an answer that is none of
   * the service: how its `body` begins, and the `location` that it redirects to.
   */
  readonly details: Readonly<Record<string, unknown>>;
  /** Finds the request in the log of the service. */
  readonly requestId: string | undefined;
  /** The delay before a retry, in milliseconds after the answer, if the service named one. */
  readonly retryAfterMs: number | undefined;
  readonly method: string;
  readonly path: string;

  constructor(facts: ErrorFacts) {
    super(facts.message);
    this.status = facts.status;
    this.code = facts.code;
    this.details = facts.details;
    this.requestId = facts.requestId;
    this.retryAfterMs = facts.retryAfterMs;
    this.method = facts.method;
    this.path = facts.path;
  }
}

/** No answer came, or not all of it: it is unknown whether the service carried out the request. `cause` is the error of fetch. */
export class MillraceConnectionError extends Error {
  override readonly name: string = 'MillraceConnectionError';
  readonly method: string;
  readonly path: string;

  constructor(message: string, about: { method: string; path: string; cause?: unknown }) {
    super(message, { cause: about.cause });
    this.method = about.method;
    this.path = about.path;
  }
}

/** The answer was not there within `timeoutMs`. */
export class MillraceTimeoutError extends MillraceConnectionError {
  override readonly name = 'MillraceTimeoutError';
}

/** The longest part of an answer that is not ours to be quoted in `details.body`. Characters. */
const quotedMax = 500;
/** No answer of the API is as large; what claims to be is not read to the end. */
const answerBytesMax = 64 * 1024 * 1024;

interface Asked {
  readonly method: string;
  readonly path: string;
}

/** The body of an answer, as a text. Throws MillraceError for one that is larger than any of the API. */
export async function textOf(response: Response, asked: Asked): Promise<string> {
  if (response.body === null) return '';
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (let bytes = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.byteLength;
    if (bytes > answerBytesMax) {
      reader.cancel().catch(() => undefined);
      throw notOurs(response, asked, `the answer is larger than ${answerBytesMax} bytes`, text);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** The JSON of an answer whose text was read. Throws MillraceError for anything else. */
export function jsonOf(response: Response, asked: Asked, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw notOurs(response, asked, 'the answer is not JSON', text);
  }
}

/** The error of an answer with a status above 299; reads its body. */
export async function errorOf(response: Response, asked: Asked): Promise<Error> {
  const { method, path } = asked;
  // Browsers hide where it leads, and its status too.
  if (response.type === 'opaqueredirect')
    return new MillraceConnectionError(`${method} ${path}: the answer leads elsewhere`, asked);
  const text = await textOf(response, asked);
  const body = objectOf(text);
  const { error, code = error, details, error_description: description } = body ?? {};
  // The token endpoint speaks as RFC 6749 has it: its sentence is the description.
  const message = typeof description === 'string' ? description : error;
  if (typeof message === 'string' && typeof code === 'string')
    return new MillraceError({
      ...factsOf(response, asked),
      code,
      message,
      details: asObject(details) ?? {},
    });
  return notOurs(
    response,
    asked,
    `the answer has status ${response.status}, and is none of the API of Millrace`,
    text,
  );
}

function notOurs(response: Response, asked: Asked, what: string, text: string): MillraceError {
  const location = response.headers.get('location');
  return new MillraceError({
    ...factsOf(response, asked),
    code: 'not_an_api_error',
    message: `${asked.method} ${asked.path}: ${what}`,
    details: { body: text.slice(0, quotedMax), ...(location === null ? {} : { location }) },
  });
}

function factsOf({ status, headers }: Response, { method, path }: Asked) {
  return {
    status,
    requestId: headers.get('x-request-id') ?? undefined,
    retryAfterMs: retryAfterMs(headers.get('retry-after'), Date.now()),
    method,
    path,
  };
}

/** Seconds or a date (RFC 9110, 10.2.3) as milliseconds from `nowMs` on; undefined when it is neither. */
export function retryAfterMs(header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined;
  if (/^\d+$/.test(header.trim())) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

function objectOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function asObject(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}
