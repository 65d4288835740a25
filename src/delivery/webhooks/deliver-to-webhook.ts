import type { AttemptRecord, HeldDelivery } from '#delivery/delivery.ts';
import { type AttemptOutcome, retryAfterMs } from '#delivery/dispatch/delivery-retries.ts';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { guardedPost, type PostAnswer } from '#egress/guarded-post.ts';
import type { Clock } from '#lib/clock.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { currentSpan } from '#telemetry/span.ts';
import { traceparentOf } from '#telemetry/trace-context.ts';
import { signatureHeaders } from './sign-request.ts';
import { disableWebhook, noteFailingSince } from './webhook-store.ts';
import type { WebhookTarget, WebhookTargets } from './webhook-targets.ts';

/** An answer that takes longer is none. */
export const answerTimeoutMs = 15_000;
/** Maximum of a response body that is kept with the attempt. */
const responseBytesMax = 1024;
/** Codes of errors that a retry does not fix. */
const sealedCodes: readonly string[] = ['sealed_value_damaged', 'wrong_encryption_key'];
/** A webhook is disabled when all deliveries to it have failed for this long. */
const onlyFailuresMs = 5 * 86_400_000;

export interface WebhookDeliveryOptions {
  store: Store;
  dispatcher: GuardedDispatcher;
  targets: WebhookTargets;
  clock: Clock;
  logger: Logger;
  version: string;
  answerTimeoutMs: number;
}

/**
 * Sends an event to a webhook: POST, the emitted event itself as body, signed (`sign-request.ts`). 2xx within 15 seconds
 * is delivered, 410 disables the webhook, anything else (a 500, a redirect, a timeout) is a failed attempt. (`$.send.http` of a workflow is
 * tried once: `workflows/sends/send-http.ts`.)
 *
 * After a failed attempt the delivery is queued again: after 5 s, 5 min, 30 min, 2, 5, 10 and 14 hours (`dispatch/delivery-retries.ts`), or
 * later, by 24 hours at most, if the receiver sends `Retry-After`; its other deliveries then rest too, for an hour at most. The eighth failed attempt
 * makes it a dead letter (state `failed`). A webhook whose deliveries have all failed for 5 days is disabled.
 *
 * `DeliveryDispatcher` (`dispatch/delivery-dispatcher.ts`) has the result written (`dispatch/delivery-outcomes.ts`) to the row in table `deliveries`: state, number of attempts, when the
 * next one is due (`run_at_ms`), and what this one came to (`attempt_log`).
 */
export async function deliverToWebhook(
  options: WebhookDeliveryOptions,
  delivery: HeldDelivery,
  signal: AbortSignal,
): Promise<AttemptOutcome> {
  let webhook: WebhookTarget | undefined;
  try {
    webhook = await options.targets.get(delivery.listenerId);
  } catch (error) {
    if (!(error instanceof UnavailableError) || !sealedCodes.includes(error.code)) throw error;
    options.logger.error({ webhook: delivery.listenerId, error: error.message }, 'webhook.secret-not-opened');
    // Not the receiver's failure, but one that stays until an operator fixes it: it is recorded, and the delivery ends.
    const record = { at: options.clock.now(), latency_ms: 0, error: 'its signing secret cannot be opened' };
    return { kind: 'failed', attempt: record };
  }
  if (webhook === undefined) return { kind: 'not-sent', state: 'cancelled', reason: 'listener_removed' };
  if (webhook.state === 'paused') return { kind: 'not-sent', state: 'held', reason: 'webhook_paused' };
  if (webhook.state === 'disabled') return { kind: 'not-sent', state: 'blocked', reason: 'webhook_disabled' };
  const outcome = await attempt(options, webhook, delivery, signal);
  try {
    await noteHealth(options, webhook, outcome);
  } catch (error) {
    // The receiver's answer counts all the same; its health is recorded with the next attempt.
    options.targets.forget(webhook.id);
    options.logger.warn(
      { webhook: webhook.id, error: toError(error).message },
      'webhook.health-not-recorded',
    );
  }
  return outcome;
}

async function attempt(
  options: WebhookDeliveryOptions,
  webhook: WebhookTarget,
  delivery: HeldDelivery,
  signal: AbortSignal,
): Promise<AttemptOutcome> {
  const { dispatcher, clock, version } = options;
  const nowMs = clock.now();
  const startedMs = performance.now();
  const { oldKey } = webhook;
  const keys = oldKey === undefined || oldKey.untilMs <= nowMs ? [webhook.key] : [webhook.key, oldKey.key];
  const recordOf = (more: Omit<AttemptRecord, 'at' | 'latency_ms'>): AttemptRecord => ({
    at: nowMs,
    latency_ms: Math.round(performance.now() - startedMs),
    ...more,
  });
  let answer: PostAnswer;
  try {
    answer = await guardedPost(dispatcher, webhook.target, {
      headers: {
        'content-type': 'application/json',
        'user-agent': `Millrace/${version}`,
        'x-pd-emitter-id': delivery.emitterId,
        'x-pd-event-id': `${delivery.ms}-${delivery.seq}`,
        ...traceHeaders(),
        ...signatureHeaders(keys, { id: delivery.id, nowMs, body: delivery.body }),
      },
      body: delivery.body,
      timeoutMs: options.answerTimeoutMs,
      bodyBytesMax: responseBytesMax,
      signal,
    });
  } catch (error) {
    signal.throwIfAborted();
    return { kind: 'failed', attempt: recordOf({ error: describe(error) }) };
  }
  const { status, body } = answer;
  const record = recordOf({ status, ...(body === '' ? {} : { response: body.replaceAll('\0', '') }) });
  if (status >= 200 && status < 300) return { kind: 'delivered', attempt: record };
  if (status === 410) return { kind: 'gone', attempt: record };
  const askedMs = retryAfterMs(answer.retryAfter, nowMs);
  return { kind: 'failed', attempt: record, ...(askedMs === undefined ? {} : { retryAfterMs: askedMs }) };
}

/** The receiver's spans are below the one of the attempt (W3C Trace Context). */
function traceHeaders(): { traceparent?: string } {
  const span = currentSpan();
  return span === undefined ? {} : { traceparent: traceparentOf(span.context) };
}

function describe(thrown: unknown): string {
  const error = toError(thrown);
  const { code } = error as { code?: unknown };
  const text =
    typeof code === 'string' && !error.message.includes(code) ? `${code}: ${error.message}` : error.message;
  return text.slice(0, 500).replaceAll('\0', '');
}

/** Notes when a webhook begins and ceases to fail, and disables one that is gone or only fails. */
async function noteHealth(
  options: WebhookDeliveryOptions,
  webhook: WebhookTarget,
  outcome: AttemptOutcome,
): Promise<void> {
  const { store, clock, targets } = options;
  const { id, ownerId, failingSinceMs } = webhook;
  if (outcome.kind === 'delivered') {
    if (failingSinceMs === null) return;
    webhook.failingSinceMs = null;
    await store.writes.submit(noteFailingSince, { id, ownerId, sinceMs: null });
    return;
  }
  const nowMs = clock.now();
  const isGone = outcome.kind === 'gone';
  if (!isGone && failingSinceMs === null) {
    webhook.failingSinceMs = nowMs;
    await store.writes.submit(noteFailingSince, { id, ownerId, sinceMs: nowMs });
    return;
  }
  if (!isGone && (failingSinceMs === null || nowMs - failingSinceMs < onlyFailuresMs)) return;
  const reason = isGone ? 'receiver_gone' : 'only_failures';
  const evidence = isGone || failingSinceMs === null ? {} : { failingSinceMs };
  // Queued deliveries are not changed here; each is blocked when its turn comes. One that is being sent may still be accepted, and a user may
  // resume the webhook.
  const disabled = await store.transaction((tx) =>
    disableWebhook(tx, id, { url: webhook.url, reason, atMs: nowMs, ...evidence }),
  );
  targets.forget(id);
  if (disabled) options.logger.warn({ webhook: id, owner: webhook.ownerId, reason }, 'webhook.disabled');
}
