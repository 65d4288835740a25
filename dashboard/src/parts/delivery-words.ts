import type { Delivery, Webhook } from '#sdk';

/** States and reasons of webhooks and deliveries in words. */

type WebhookReason = NonNullable<Webhook['disabled_reason']>;
type DeliveryState = Delivery['state'];
type DeliveryReason = NonNullable<Delivery['reason']>;

const webhookReasons: Readonly<Record<WebhookReason, string>> = {
  only_failures: 'all deliveries to it have failed for five days',
  receiver_gone: 'its receiver answered that it is gone',
};

/** Why a webhook is disabled. Undefined: this version of the dashboard does not know the reason. */
export function webhookReason(reason: WebhookReason): string | undefined {
  return webhookReasons[reason];
}

const deliveryReasons: Readonly<Record<DeliveryReason, string>> = {
  attempts_exhausted: 'all eight attempts failed',
  receiver_gone: 'the receiver answered that it is gone',
  event_gone: 'the text of the event was lost',
  webhook_paused: 'the webhook is paused',
  webhook_disabled: 'the webhook is disabled',
  backlog_full: 'too much waited for this receiver',
  too_many_hops: 'it came through ten sources and workflows: most likely a loop',
  failure_loop: 'the workflow handled a failure that led to this one',
  queue_full: 'the queue of the workflow was full',
  listener_inactive: 'the receiver was not active',
  listener_removed: 'the receiver was removed',
  subscription_removed: 'the subscription ended',
  replay_cancelled: 'the replay was cancelled',
  quota_exceeded: 'the deliveries of this day are used up: it is sent when the day turns, at 00:00 UTC',
  held_too_long: 'it was held for 30 days',
};

export function deliveryReason(reason: DeliveryReason): string | undefined {
  return deliveryReasons[reason];
}

/** States of deliveries that have failed. */
export const deadStates = [
  'failed',
  'blocked',
  'dropped',
  'skipped',
  'cancelled',
  'expired',
] as const satisfies DeliveryState[];

const isDead = (state: DeliveryState): boolean => deadStates.some((dead) => dead === state);
export const isOpen = (state: DeliveryState): boolean => state === 'queued' || state === 'held';

/** The CSS class of a state. */
export function toneOf(state: DeliveryState): string {
  if (state === 'delivered') return 'state good';
  return isDead(state) ? 'state bad' : 'state off';
}
