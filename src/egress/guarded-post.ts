import type { GuardedDispatcher } from './guarded-dispatcher.ts';
import { parseTarget } from './guarded-fetch.ts';
import { EgressError } from './resolve-address.ts';

/** Where to post to: a URL that was parsed once. */
export interface PostTarget {
  origin: string;
  /** With the query, without a fragment. */
  path: string;
}

/** Throws `EgressError` with ERR_INVALID_URL. */
export function postTarget(url: string): PostTarget {
  const { origin, pathname, search } = parseTarget(url);
  return { origin, path: `${pathname}${search}` };
}

export interface PostAnswer {
  status: number;
  /** The `Retry-After` field. */
  retryAfter: string | undefined;
  /** The beginning of the body. */
  body: string;
}

/** A longer body is read and discarded up to here, so that the connection can be reused. */
const readBytesMax = 64 * 1024;

/**
 * One POST of the platform, for those that make thousands of them a second: `guardedFetch` costs twice as much. It
 * resolves with the status as soon as that is decided, whatever the body then does (ends early, hangs, is endless), and
 * with the first `bodyBytesMax` of it. Redirects are answers like any other. Rejects with an error whose `code` is that
 * of connecting (EACCES, ENOTFOUND, ECONNREFUSED, a TLS error), UND_ERR_SOCKET when the connection ended before the
 * answer, or ETIMEDOUT after `timeoutMs` for everything together; or with the reason of `signal`.
 */
export function guardedPost(
  dispatcher: GuardedDispatcher,
  target: PostTarget,
  request: {
    headers: Record<string, string>;
    body: Uint8Array;
    timeoutMs: number;
    bodyBytesMax: number;
    signal: AbortSignal;
  },
): Promise<PostAnswer> {
  const { signal, timeoutMs, bodyBytesMax } = request;
  return new Promise((resolve, reject) => {
    let abort: (reason: Error) => void = () => {};
    let ended = false;
    let answer: { status: number; retryAfter: string | undefined } | undefined;
    const chunks: Buffer[] = [];
    let bytes = 0;
    const end = (error?: Error): void => {
      if (ended) return;
      ended = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      if (answer === undefined) reject(error ?? new EgressError('UND_ERR_SOCKET', 'the connection ended'));
      else resolve({ ...answer, body: Buffer.concat(chunks).subarray(0, bodyBytesMax).toString('utf8') });
    };
    const stop = (error: Error): void => {
      end(error);
      abort(error);
    };
    const timer = setTimeout(
      () => stop(new EgressError('ETIMEDOUT', `${target.origin} did not answer within ${timeoutMs} ms`)),
      timeoutMs,
    );
    const onAbort = (): void => stop(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) {
      onAbort();
      return;
    }
    dispatcher.dispatch(
      {
        origin: target.origin,
        path: target.path,
        method: 'POST',
        headers: request.headers,
        body: request.body,
      },
      {
        onRequestStart(controller) {
          abort = (reason) => controller.abort(reason);
          if (ended) controller.abort(new EgressError('ECANCELED', 'the request is over'));
        },
        onResponseStart(_controller, status, headers) {
          // 1xx are not the answer yet.
          if (status < 200) return;
          const retryAfter = headers['retry-after'];
          answer = { status, retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter };
        },
        onResponseData(_controller, chunk) {
          if (bytes < bodyBytesMax) chunks.push(chunk);
          bytes += chunk.length;
          if (bytes > readBytesMax)
            stop(new EgressError('ERR_BODY_TOO_LARGE', 'the rest is not of interest'));
        },
        onResponseEnd: () => end(),
        onResponseError: (_controller, error) => end(error),
      },
    );
  });
}
