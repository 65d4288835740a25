/**
 * Routes the events of one channel from emitters to a listener. `emitter_id` is one emitter (dc_…, p_…), all emitters of
 * a kind of one owner (`dc_*`, `p_*`), or an owner (o_…, u_…): everything it emits.
 */
export interface SubscriptionTable {
  id: string;
  /** The owner of the emitters. */
  emitter_owner_id: string;
  emitter_id: string;
  /** The channel; '' is the default one. */
  event_name: string;
  /** wh_…, dc_… or p_…. */
  listener_id: string;
  listener_owner_id: string;
  user_id: string;
  created_at_ms: number;
}

/** Every source and workflow that this owner creates from now on is subscribed to on this channel. */
export interface AutoSubscriptionTable {
  id: string;
  owner_id: string;
  /** $errors | $logs */
  event_name: string;
  listener_id: string;
  listener_owner_id: string;
  user_id: string;
  created_at_ms: number;
}

/** `paused`: by its owner, deliveries are held. `disabled`: by the service, deliveries are blocked. */
export const webhookStates = ['active', 'paused', 'disabled'] as const;
export type WebhookState = (typeof webhookStates)[number];

/** `receiver_gone`: it answered 410. `only_failures`: nothing but failures for 5 days. */
export const webhookDisabledReasons = ['receiver_gone', 'only_failures'] as const;
export type WebhookDisabledReason = (typeof webhookDisabledReasons)[number];

/** An HTTP endpoint that receives events (wh_…). */
export interface WebhookTable {
  id: string;
  owner_id: string;
  user_id: string;
  name: string | null;
  description: string | null;
  url: string;
  /** The signing secret (`whsec_…`), sealed (vault/vault.ts) for this webhook. */
  secret: string;
  /** The one before it, which signs too until `old_secret_until_ms`. */
  old_secret: string | null;
  old_secret_until_ms: number | null;
  state: WebhookState;
  /** Why it is disabled; null when it is not. */
  disabled_reason: WebhookDisabledReason | null;
  disabled_at_ms: number | null;
  /** The first failure since it last took a delivery; null while it does. */
  failing_since_ms: number | null;
  /** Failed deliveries whose records were removed because they were too old or too many. */
  removed_records: number;
  created_at_ms: number;
  updated_at_ms: number;
}

/** The comment of `DeliveryTable` has the ways between them. */
export const deliveryStates = [
  'queued',
  'held',
  'delivered',
  'failed',
  'blocked',
  'dropped',
  'skipped',
  'cancelled',
  'expired',
] as const;
export type DeliveryState = (typeof deliveryStates)[number];

/** Why a delivery is in its state; `docs/how-it-works/deliveries.md` says what each means to its reader. */
export const deliveryReasons = [
  'attempts_exhausted',
  'receiver_gone',
  'webhook_paused',
  'webhook_disabled',
  'backlog_full',
  'too_many_hops',
  'failure_loop',
  'queue_full',
  'listener_inactive',
  'listener_removed',
  'subscription_removed',
  'replay_cancelled',
  'held_too_long',
  'event_gone',
  'quota_exceeded',
] as const;
export type DeliveryReason = (typeof deliveryReasons)[number];

/**
 * One event on its way to one listener, and afterwards the record of its outcome. Written in the transaction that
 * stores the event. States and their ways:
 *
 *   (new) -> queued      someone works on it, or will at `run_at_ms`; `lease_node` says which node has it in memory
 *   (new) -> held        the webhook is paused; -> queued when it is resumed, -> expired when that takes too long
 *   (new) -> blocked     the webhook is disabled, or too much waits for it
 *   (new) -> dropped     it would have been the eleventh hop of a loop
 *   queued -> delivered  the listener took it
 *   queued -> queued     it did not, or its owner may have no more deliveries on this day; the next attempt is at `run_at_ms`
 *   queued -> failed     the last attempt failed, or the receiver said that it is gone: a dead letter
 *   queued -> held, blocked   the webhook was paused or disabled meanwhile
 *   queued -> dropped    the queue of the listening workflow is full
 *   queued -> skipped    the listening source or workflow is not active
 *   queued, held -> cancelled   its listener, subscription or replay was removed
 *   any but queued and held -> queued   redelivered by a user
 *
 * Only the node that holds a row may settle it: compare-and-swap by `lease_node`.
 */
export interface DeliveryTable {
  id: string;
  /** The listener's. */
  owner_id: string;
  listener_id: string;
  subscription_id: string | null;
  replay_id: string | null;
  emitter_id: string;
  channel: string;
  /** The event's id. */
  ms: number;
  seq: number;
  emit_id: string;
  hops: number;
  /** The `traceparent` of the span that emitted the event; null: it was not traced. */
  trace: string | null;
  state: DeliveryState;
  /** Null where the state says it all. */
  reason: DeliveryReason | null;
  run_at_ms: number;
  lease_node: string | null;
  /** Attempts made since it was (last) put into the queue. */
  attempts: number;
  /** JSON: what each of the last attempts came to (delivery/delivery.ts). */
  attempt_log: string;
  /** HTTP status and duration of the last attempt that got an answer. */
  status: number | null;
  latency_ms: number | null;
  /** 1 while the event's text is kept for it in `delivery_payloads`. */
  has_payload: number;
  payload_bytes: number;
  created_at_ms: number;
  ended_at_ms: number | null;
}

/** The text of an event, once for all of its deliveries, for as long as one of them needs it. */
export interface DeliveryPayloadTable {
  emit_id: string;
  /** The emitter's. */
  owner_id: string;
  event: string;
  /** 1 while a job is still making deliveries of it. */
  fanning: number;
  created_at_ms: number;
}

/** The comment of `ReplayTable` has the ways between them. */
export const replayStates = ['queueing', 'sending', 'finished', 'cancelled'] as const;
export type ReplayState = (typeof replayStates)[number];

/** Why a replay was cancelled; `docs/how-it-works/replay.md` says what each means to its reader. */
export const replayReasons = [
  'replay_cancelled',
  'listener_removed',
  'subscription_removed',
  'membership_ended',
  'queueing_failed',
] as const;
export type ReplayReason = (typeof replayReasons)[number];

/**
 * A stored range of an emitter's events that is sent to one listener again (rpl_…). States and their ways:
 *
 *   (new) -> queueing      a job makes its deliveries
 *   (new) -> sending       all of them were made with it, or there are none
 *   queueing -> sending    the last of them was made
 *   sending -> finished    none of them is queued or held; written when the replay is read, so `sending` may mean this
 *   queueing, sending -> cancelled   by a user, or because its emitter or listener is gone: `reason` says which
 */
export interface ReplayTable {
  id: string;
  /** The listener's. */
  owner_id: string;
  emitter_owner_id: string;
  user_id: string;
  emitter_id: string;
  channel: string;
  listener_id: string;
  /** The subscription that began with it. */
  subscription_id: string | null;
  /** The first and the last event of the range, as it was when it began; null when it had none. */
  start_ms: number | null;
  start_seq: number | null;
  end_ms: number | null;
  end_seq: number | null;
  /** Up to here, deliveries were made. */
  after_ms: number;
  after_seq: number;
  state: ReplayState;
  /** Null unless it is cancelled. */
  reason: ReplayReason | null;
  /** Events in the range when it began, and for how many of them a delivery was made. */
  total: number;
  queued: number;
  /** Deliveries of it that ended, and whose records were removed since. */
  removed_sent: number;
  removed_failed: number;
  /** Deliveries per second at most. */
  rate: number;
  /** When the next delivery that is made may be sent. */
  run_at_ms: number;
  created_at_ms: number;
  updated_at_ms: number;
}
