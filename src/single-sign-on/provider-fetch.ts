import type { CustomFetch } from 'openid-client';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { guardedFetch } from '#egress/guarded-fetch.ts';
import { EgressError } from '#egress/resolve-address.ts';

const answerBytesMax = 1024 * 1024;
const timeoutMs = 10_000;
/** A Response cannot be made with a body for these. */
const bodiless = new Set([204, 205, 304]);

/** The request was not answered: the address is not allowed, nothing listens there, its certificate is not trusted, … */
export class UnansweredRequest extends Error {
  override name = 'UnansweredRequest';
}

/** The request was answered with something that is not read, as the next answer will be. */
export class UnusableAnswer extends Error {
  override name = 'UnusableAnswer';
}

/** How the library reaches the provider: over the platform's guarded way out, bounded, without redirects. */
export function providerFetch(dispatcher: GuardedDispatcher): CustomFetch {
  return async (url, { method, headers, body, signal }) => {
    const answer = await guardedFetch(url, {
      dispatcher,
      method,
      headers: { ...headers, 'user-agent': 'Millrace' },
      ...(body === undefined || body === null ? {} : { body: String(body) }),
      ...(signal === undefined ? {} : { signal }),
      ...{ maxRedirects: 0, maxBytes: answerBytesMax, timeoutMs },
    }).catch((error: Error) => {
      const { host } = new URL(url);
      if (error instanceof EgressError && error.code === 'ERR_BODY_TOO_LARGE')
        throw new UnusableAnswer(error.message);
      throw new UnansweredRequest(`${host}: ${error.message}`, { cause: error });
    });
    if (answer.status < 200) throw new UnansweredRequest(`${url} was answered with ${answer.status}`);
    const text = bodiless.has(answer.status) ? null : new Uint8Array(answer.body);
    return new Response(text, { status: answer.status, headers: answer.headers });
  };
}
