import { changeEventually, insertChangeJob } from '#delivery/change-deliveries.ts';
import { deadStates, openStates } from '#delivery/delivery.ts';
import { countDeliveries } from '#delivery/delivery-store.ts';
import { deleteSubscriptionsOf } from '#delivery/subscriptions/subscription-store.ts';
import type { AddressPolicy } from '#egress/address-policy.ts';
import type { LookupAll } from '#egress/resolve-address.ts';
import type { Health } from '#health/health.ts';
import { forgetFailures, forgetOutcomes } from '#health/outcome-store.ts';
import { refuseDeleted } from '#identity/deletion-store.ts';
import { notFound } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DeliveryState, WebhookTable } from '#storage/tables/delivery-tables.ts';
import { sealValue } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { checkWebhookUrl } from './check-webhook-url.ts';
import { newSigningSecret } from './sign-request.ts';
import { changeWebhook, countWebhooks, deleteWebhook, insertWebhook, lockWebhook } from './webhook-store.ts';

/** Webhooks of one owner at most. */
const webhooksMax = 10_000;
/** The secret before the newest one signs too for this long, so that receivers can change over. */
const oldSecretMs = 86_400_000;
export interface WebhookOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  policy: AddressPolicy;
  /** What is kept in memory of a webhook (webhook-targets.ts) must be read again. */
  onChange: (webhookId: string) => void;
  /** A job was queued. */
  onJobs: () => void;
  lookup?: LookupAll;
}

export interface WebhookChanges {
  url?: string;
  name?: string | null;
  description?: string | null;
}

/**
 * Creates a webhook, active unless it is to be `paused`; its signing secret is returned here only. `alongside` is done in the transaction
 * that makes it. Throws CallerError naming url, or `conflict`.
 */
export async function createWebhook(
  options: WebhookOptions,
  webhook: WebhookChanges & { url: string; ownerId: string; userId: string; paused?: boolean },
  alongside?: (tx: Tx, webhook: WebhookTable) => Promise<void>,
): Promise<{ webhook: WebhookTable; signingSecret: string }> {
  const { store, clock } = options;
  const url = await checkWebhookUrl(webhook.url, options);
  const id = newId('wh');
  const { ownerId } = webhook;
  const signingSecret = newSigningSecret();
  const row = await store.transaction(async (tx) => {
    await refuseDeleted(tx, ownerId);
    if ((await countWebhooks(tx, ownerId, webhooksMax)) >= webhooksMax)
      throw new CallerError('conflict', `one owner can have ${webhooksMax} webhooks; delete some`, {
        limit: webhooksMax,
      });
    const nowMs = clock.now();
    const created: WebhookTable = {
      id,
      owner_id: ownerId,
      user_id: webhook.userId,
      name: webhook.name ?? null,
      description: webhook.description ?? null,
      url,
      secret: await sealValue(tx, options, { ownerId, id, value: signingSecret }),
      old_secret: null,
      old_secret_until_ms: null,
      state: webhook.paused === true ? 'paused' : 'active',
      disabled_reason: null,
      disabled_at_ms: null,
      failing_since_ms: null,
      removed_records: 0,
      created_at_ms: nowMs,
      updated_at_ms: nowMs,
    };
    await insertWebhook(tx, created);
    await alongside?.(tx, created);
    return created;
  });
  return { webhook: row, signingSecret };
}

/** Changes what is given. Deliveries that are queued go to the new URL. Throws as `createWebhook` does. */
export async function updateWebhook(
  options: WebhookOptions,
  id: string,
  changes: WebhookChanges,
): Promise<WebhookTable> {
  const url = changes.url === undefined ? undefined : await checkWebhookUrl(changes.url, options);
  return changeLocked(options, id, async (webhook, tx) => {
    const isMoved = url !== undefined && url !== webhook.url;
    // How the old URL did says nothing about the new one.
    if (isMoved) await forgetOutcomes(tx, id);
    return {
      ...(changes.name === undefined ? {} : { name: changes.name }),
      ...(changes.description === undefined ? {} : { description: changes.description }),
      ...(isMoved ? { url, failing_since_ms: null } : {}),
    };
  });
}

/** Gives a webhook a new signing secret, returned here only; the previous one signs too until `oldUntilMs`. */
export async function rotateSecret(
  options: WebhookOptions,
  id: string,
): Promise<{ webhook: WebhookTable; signingSecret: string; oldUntilMs: number }> {
  const signingSecret = newSigningSecret();
  const oldUntilMs = options.clock.now() + oldSecretMs;
  const webhook = await changeLocked(options, id, async ({ owner_id, secret }, tx) => ({
    secret: await sealValue(tx, options, { ownerId: owner_id, id, value: signingSecret }),
    old_secret: secret,
    old_secret_until_ms: oldUntilMs,
  }));
  return { webhook, signingSecret, oldUntilMs };
}

/** From now on its deliveries are held, those that are queued when their turn comes. Also of a disabled one. */
export async function pauseWebhook(options: WebhookOptions, id: string): Promise<WebhookTable> {
  return changeLocked(options, id, () => ({ state: 'paused', disabled_reason: null, disabled_at_ms: null }));
}

/** Makes a paused or disabled webhook active again and sends what is held. */
export async function resumeWebhook(options: WebhookOptions, id: string): Promise<WebhookTable> {
  const webhook = await changeLocked(options, id, async ({ owner_id }, tx) => {
    await changeEventually(options.store, tx, {
      ownerId: owner_id,
      nowMs: options.clock.now(),
      change: { listener_id: id, from: ['held'], to: 'queued', reason: null },
    });
    await forgetFailures(tx, id);
    return { state: 'active', disabled_reason: null, disabled_at_ms: null, failing_since_ms: null };
  });
  options.onJobs();
  return webhook;
}

/**
 * Removes a webhook and its subscriptions; what was still to be sent ends as cancelled. `alongside` is done in the same transaction; where
 * it throws, the webhook stays. Throws `not_found`.
 */
export async function removeWebhook(
  options: WebhookOptions,
  id: string,
  alongside?: (tx: Tx, webhook: WebhookTable) => Promise<void>,
): Promise<void> {
  await options.store.transaction(async (tx) => {
    const webhook = await lockWebhook(options.store, tx, id);
    if (webhook !== undefined) await alongside?.(tx, webhook);
    if (webhook === undefined || !(await deleteWebhook(tx, id))) throw notFound('webhook', id);
    await deleteSubscriptionsOf(tx, id);
    await forgetOutcomes(tx, id);
    await changeEventually(options.store, tx, {
      ownerId: webhook.owner_id,
      nowMs: options.clock.now(),
      change: { listener_id: id, from: [...openStates], to: 'cancelled', reason: 'listener_removed' },
    });
  });
  options.onChange(id);
  options.onJobs();
}

/**
 * Queues all dead letters since then (default: ever) whose text is kept. Returns the number of
 * these deliveries; they are queued in the background.
 */
export async function redeliverAll(
  options: WebhookOptions,
  webhook: Pick<WebhookTable, 'id' | 'owner_id'>,
  sinceMs: number | undefined,
): Promise<number> {
  const { store, clock } = options;
  const nowMs = clock.now();
  const since = sinceMs === undefined ? {} : { sinceMs };
  const states: DeliveryState[] = [...deadStates];
  const count = await store.transaction(async (tx) => {
    const found = await countDeliveries(tx, {
      listenerId: webhook.id,
      states,
      ...since,
      untilMs: nowMs,
      withText: true,
    });
    if (found > 0)
      await insertChangeJob(store, tx, {
        ownerId: webhook.owner_id,
        nowMs,
        change: {
          listener_id: webhook.id,
          from: states,
          to: 'queued',
          reason: null,
          ...(sinceMs === undefined ? {} : { since_ms: sinceMs }),
          // A delivery that fails again is not sent again by this.
          until_ms: nowMs,
        },
      });
    return found;
  });
  if (count > 0) options.onJobs();
  return count;
}

/** A webhook as the API answers it (specification, section 2), without its secret. */
export function viewWebhook(webhook: WebhookTable, health: Health) {
  const { disabled_at_ms, failing_since_ms } = webhook;
  return {
    id: webhook.id,
    user_id: webhook.user_id,
    owner_id: webhook.owner_id,
    name: webhook.name,
    description: webhook.description,
    url: webhook.url,
    active: webhook.state === 'active',
    state: webhook.state,
    health,
    disabled_reason: webhook.disabled_reason,
    disabled_at: disabled_at_ms === null ? null : epochSeconds(disabled_at_ms),
    failing_since: failing_since_ms === null ? null : epochSeconds(failing_since_ms),
    removed_records: webhook.removed_records,
    created_at: epochSeconds(webhook.created_at_ms),
    updated_at: epochSeconds(webhook.updated_at_ms),
  };
}

async function changeLocked(
  options: WebhookOptions,
  id: string,
  changesOf: (webhook: WebhookTable, tx: Tx) => Partial<WebhookTable> | Promise<Partial<WebhookTable>>,
): Promise<WebhookTable> {
  const { store, clock, onChange } = options;
  const changed = await store.transaction(async (tx) => {
    const webhook = await lockWebhook(store, tx, id);
    if (webhook === undefined) throw notFound('webhook', id);
    const changes = { ...(await changesOf(webhook, tx)), updated_at_ms: clock.now() };
    await changeWebhook(tx, id, changes);
    return { ...webhook, ...changes };
  });
  onChange(id);
  return changed;
}
