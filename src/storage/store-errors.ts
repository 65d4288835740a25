import { UnavailableError } from '#lib/errors.ts';
import { SqliteError } from './sqlite-connection.ts';

// https://www.sqlite.org/rescode.html
const sqliteFull = 13;
const sqliteIoError = 10;
const sqliteReadOnly = 8;
const sqliteBusy = 5;
const sqliteCannotOpen = 14;
const sqliteConstraint = 19;
const sqliteMoved = 1032;
const sqliteCommittedElsewhere = -1;

/** The advice in every message about a database that cannot be trusted. */
export const restoreAdvice =
  'stop the service, restore a backup (millrace restore <file> --replace), and start it again';

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const postgresUnavailable = new Set([
  '53100',
  '53200',
  '53300',
  '53400',
  // Time-outs that an operator, a pooler or this service has set.
  '25P03',
  '55P03',
  '57014',
  '57P05',
  '57P01',
  '57P02',
  '57P03',
  '25006',
  '58030',
]);
const postgresRetryable = new Set(['40001', '40P01']);

/** The store was lost in the middle of a commit, and whether it was committed is unknown. */
export function outcomeUnknown(cause: unknown): UnavailableError {
  return new UnavailableError(
    'outcome_unknown',
    'the store was lost while this was being stored: it may have been accepted, or not; see which before you send it again',
    { cause },
  );
}

/** Turns an error of the store into `UnavailableError` (503, nothing was stored) where it is one; any other error is returned as it is. */
export function asStoreError(error: unknown): unknown {
  if (error instanceof SqliteError) {
    const primary = error.resultCode & 0xff;
    if (error.isDamage) {
      return new UnavailableError(
        'store_damaged',
        `the database is damaged (${error.message}): ${restoreAdvice}`,
        {
          cause: error,
        },
      );
    }
    if (error.resultCode === sqliteCommittedElsewhere) return outcomeUnknown(error);
    if (error.resultCode === sqliteMoved) {
      return new UnavailableError(
        'store_unavailable',
        'the files of the store were removed or replaced while the service runs: put them back, or ' +
          restoreAdvice,
        { cause: error },
      );
    }
    if (primary === sqliteFull) {
      return new UnavailableError(
        'storage_full',
        'the disk is full: nothing was stored; free space and try again',
        {
          cause: error,
        },
      );
    }
    if (
      primary === sqliteIoError ||
      primary === sqliteReadOnly ||
      primary === sqliteBusy ||
      primary === sqliteCannotOpen
    ) {
      return new UnavailableError('store_unavailable', `the store cannot be written: ${error.message}`, {
        cause: error,
      });
    }
    return error;
  }
  const code = codeOf(error);
  if (code === '53100') {
    return new UnavailableError('storage_full', 'the disk of the database is full: nothing was stored', {
      cause: error,
    });
  }
  if (
    isConnectionError(error) ||
    (typeof code === 'string' && (postgresUnavailable.has(code) || code.startsWith('08')))
  ) {
    return new UnavailableError('store_unavailable', 'the database cannot be reached: nothing was stored', {
      cause: error,
    });
  }
  return error;
}

const connectionCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ENOENT',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

function isConnectionError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return (
    (typeof code === 'string' && connectionCodes.has(code)) ||
    /^Connection terminated|timeout exceeded when trying to connect|^timeout expired$|not queryable|connection has been discarded/.test(
      error.message,
    )
  );
}

/** Any value can be thrown, even `undefined`. */
function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code;
}

/** True when the same transaction may succeed if it is run again (deadlock, serialization failure). */
export function isRetryable(error: unknown): boolean {
  const code = codeOf(error);
  return typeof code === 'string' && postgresRetryable.has(code);
}

/** True when a unique constraint refused the write. */
export function isUniqueViolation(error: unknown): boolean {
  if (error instanceof SqliteError)
    return (error.resultCode & 0xff) === sqliteConstraint && /UNIQUE|PRIMARY/.test(error.message);
  return codeOf(error) === '23505';
}
