import { setTimeout as delay } from 'node:timers/promises';

/** Between two looks at what this process knows; short enough not to add to a test, long enough not to starve what it waits for. */
const pollMs = 5;

/** Looks that ask the service cost both sides a request, and so hold up what is waited for: they become rarer. */
const askingGrowth = 1.3;
const askingPollMsMax = 50;

/** A machine that has twenty things to do at once still gets there; only a test that fails takes so long. */
export const patienceMs = 90_000;

/**
 * Waits until `condition` gives something truthy and returns it. The last resort: where a signal exists (an event, a
 * promise, `HttpReceiver.waitForRequest`), wait for the signal. Throws after `timeoutMs` with what was waited for.
 * A condition that throws is asked again; its last error becomes the cause.
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  options: { timeoutMs?: number; what?: string } = {},
): Promise<Exclude<T, undefined | null | false | 0 | ''>> {
  const timeoutMs = options.timeoutMs ?? patienceMs;
  const deadline = performance.now() + timeoutMs;
  let cause: unknown;
  let pauseMs = pollMs;
  for (;;) {
    try {
      const found = condition();
      if (found instanceof Promise) pauseMs = Math.min(pauseMs * askingGrowth, askingPollMsMax);
      const value = await found;
      if (value) return value as Exclude<T, undefined | null | false | 0 | ''>;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    if (performance.now() > deadline) {
      const what = options.what ?? condition.toString();
      throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`, cause === undefined ? {} : { cause });
    }
    await delay(pauseMs);
  }
}

/** Rejects with what was waited for when `promise` takes longer than `timeoutMs`. */
export async function within<T>(promise: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  const timeout = new AbortController();
  // A wait that lost a race does not keep the test file from ending.
  const late = delay(timeoutMs, undefined, { signal: timeout.signal, ref: false }).then(() => {
    throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`);
  });
  late.catch(() => undefined);
  try {
    return await Promise.race([promise, late]);
  } finally {
    timeout.abort();
  }
}
