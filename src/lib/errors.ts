/**
 * The three kinds of error, kept apart:
 *
 * - a *caller's* mistake is a `CallerError`: typed by `code`, turned into a status only in `http/error-response.ts`;
 * - the *world's* faults (a receiver down, a disk full) are expected, and are values or `UnavailableError`;
 * - *ours* are assertions (`assert.ts`): the process stops trusting what it was doing.
 */

/** What a caller got wrong. `code` is snake_case and listed in the reference; `details` names the parameter. */
export class CallerError extends Error {
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: string, message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CallerError';
    this.code = code;
    this.details = details;
  }
}

/** Something this service needs (disk, database) cannot be used right now; nothing was stored, unless `code` is `outcome_unknown`. Answered with 503. */
export class UnavailableError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UnavailableError';
    this.code = code;
  }
}

/** Any thrown value as an Error, so that boundaries can log and wrap what user code or a library threw. */
export function toError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  return new Error(typeof thrown === 'string' ? thrown : `thrown: ${describeValue(thrown)}`);
}

function describeValue(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}
