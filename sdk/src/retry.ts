import { MillraceConnectionError, MillraceError } from './millrace-error.ts';

/** Before the second attempt; doubled for each one after it, and then somewhere between half of that and all of it. */
const waitFirstMs = 250;
const waitMaxMs = 8_000;
/** A service that asks for more patience than this is not waited for: its error has `retryAfterMs`. */
const retryAfterMaxMs = 30_000;

/** Statuses of a service, or of a proxy before it, that may be different a moment later. */
const passing: ReadonlySet<number> = new Set([408, 502, 503, 504]);

/**
 * Milliseconds to wait before trying again; undefined: it is not worth it, or not safe. What was refused with 429 was not done,
 * so everything may be tried again after it; else only what may be done twice.
 *
 * @param attempt how many there were, 1 or more
 * @param random 0 to 1
 */
export function waitBeforeRetry(
  error: unknown,
  { attempt, isRepeatable, random }: { attempt: number; isRepeatable: boolean; random: number },
): number | undefined {
  const backoff = backoffMs(attempt, { firstMs: waitFirstMs, maxMs: waitMaxMs, random });
  if (error instanceof MillraceError) {
    const isRefused = error.status === 429;
    // An earlier attempt with the same idempotency key is still under way.
    const isPassing = passing.has(error.status) || error.code === 'in_progress';
    if (!isRefused && !(isRepeatable && isPassing)) return undefined;
    if (error.retryAfterMs === undefined) return backoff;
    return error.retryAfterMs <= retryAfterMaxMs ? Math.max(error.retryAfterMs, backoff) : undefined;
  }
  return error instanceof MillraceConnectionError && isRepeatable ? backoff : undefined;
}

/** Half to all of what doubles with each attempt, up to a bound: many clients that failed together come back apart. */
export function backoffMs(
  attempt: number,
  { firstMs, maxMs, random }: { firstMs: number; maxMs: number; random: number },
): number {
  const fullMs = Math.min(maxMs, firstMs * 2 ** (attempt - 1));
  return Math.round(fullMs * (0.5 + random / 2));
}

/** Resolves after `ms`; rejects with the reason of the signal when that is aborted. */
export async function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', abort, { once: true });
  });
}
