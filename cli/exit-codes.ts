/** What the process ends with, and when. The reference page is made from this. */
export const exitCodes = {
  ok: { code: 0, meaning: 'Done.' },
  failed: { code: 1, meaning: 'It failed; standard error says why.' },
  usage: {
    code: 2,
    meaning: 'The command line is wrong, or a required value is missing and there is no terminal to ask at.',
  },
  notFound: { code: 3, meaning: 'There is no such thing, or it belongs to others.' },
  notAllowed: { code: 4, meaning: 'Not logged in, the API key is wrong, or your role does not allow it.' },
  unreachable: { code: 5, meaning: 'The service could not be reached.' },
  busy: { code: 6, meaning: 'The service has too much to do, or a quota is used up: try again later.' },
  interrupted: {
    code: 130,
    meaning: 'Ended by Ctrl-C; what follows (`-f`, `dev`) is ended that way, and then it is 0.',
  },
} as const;

export type ExitReason = keyof typeof exitCodes;

/** An error that is shown to the user without its stack. */
export class CliError extends Error {
  override name = 'CliError';
  readonly reason: ExitReason;
  /** What to do next; one sentence. */
  readonly hint: string | undefined;
  /** The error code of the API, for machines. */
  readonly code: string | undefined;
  readonly details: unknown;

  constructor(
    reason: ExitReason,
    message: string,
    options: { hint?: string | undefined; code?: string; details?: unknown; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.reason = reason;
    this.hint = options.hint;
    this.code = options.code;
    this.details = options.details;
  }
}

export function usageError(message: string, hint?: string): CliError {
  return new CliError('usage', message, { hint });
}
