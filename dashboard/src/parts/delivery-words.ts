/** Words of the API about webhooks and deliveries, for people. */

const webhookReasons: Readonly<Record<string, string>> = {
  only_failures: 'it took nothing for five days',
  receiver_gone: 'its receiver answered that it is gone',
};

/** Why a webhook is disabled; undefined: the API said it in words of its own. */
export function webhookReason(reason: string): string | undefined {
  return webhookReasons[reason];
}

const deliveryReasons: Readonly<Record<string, string>> = {
  attempts_exhausted: 'all eight attempts failed',
  receiver_gone: 'the receiver answered that it is gone',
  event_gone: 'the text of the event was lost',
  webhook_paused: 'the webhook is paused',
  webhook_disabled: 'the webhook is disabled',
  backlog_full: 'too much waited for this receiver',
  too_many_hops: 'it came through ten sources and workflows: most likely a loop',
  queue_full: 'the queue of the workflow was full',
  listener_inactive: 'the receiver was not active',
  listener_removed: 'the receiver was removed',
  subscription_removed: 'the subscription ended',
  replay_cancelled: 'the replay was cancelled',
  held_too_long: 'it was held for 30 days',
};

export function deliveryReason(reason: string): string | undefined {
  return deliveryReasons[reason];
}

/** States that end undelivered. */
export const deadStates = ['failed', 'blocked', 'dropped', 'skipped', 'cancelled', 'expired'] as const;

export const isDead = (state: string): boolean => deadStates.some((dead) => dead === state);
export const isOpen = (state: string): boolean => state === 'queued' || state === 'held';

/** Class of a state as it is shown. */
export function toneOf(state: string): string {
  if (state === 'delivered' || state === 'active') return 'state good';
  return isDead(state) || state === 'disabled' ? 'state bad' : 'state off';
}
