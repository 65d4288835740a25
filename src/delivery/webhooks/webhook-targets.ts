import { type PostTarget, postTarget } from '#egress/guarded-post.ts';
import type { Store } from '#storage/store.ts';
import type { WebhookState, WebhookTable } from '#storage/tables/delivery-tables.ts';
import { openValue } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { type SigningKey, signingKey } from './sign-request.ts';
import { findWebhook } from './webhook-store.ts';

/** What must be known of a webhook to send to it. */
export interface WebhookTarget {
  id: string;
  ownerId: string;
  state: WebhookState;
  url: string;
  target: PostTarget;
  key: SigningKey;
  oldKey: { key: SigningKey; untilMs: number } | undefined;
  failingSinceMs: number | null;
}

/** Another process may pause a webhook or change its URL; here that shows within this time. */
const freshMs = 5_000;
/** Webhooks in memory; beyond that, those that were loaded first are evicted. */
const cachedMax = 10_000;

/** Webhooks as the dispatcher needs them, with their secrets opened: read once, not for each delivery. */
export class WebhookTargets {
  readonly #store: Store;
  readonly #vault: Vault;
  readonly #cached = new Map<string, { loadedAtMs: number; target: Promise<WebhookTarget | undefined> }>();

  constructor(options: { store: Store; vault: Vault }) {
    this.#store = options.store;
    this.#vault = options.vault;
  }

  /** Undefined for one that does not exist. */
  get(id: string): Promise<WebhookTarget | undefined> {
    const known = this.#cached.get(id);
    if (known !== undefined && (!this.#store.isShared || performance.now() - known.loadedAtMs < freshMs))
      return known.target;
    const target = this.#load(id);
    this.#cached.delete(id);
    this.#cached.set(id, { loadedAtMs: performance.now(), target });
    target.then(
      (found) => found === undefined && this.forget(id),
      () => this.forget(id),
    );
    if (this.#cached.size > cachedMax) {
      const [oldest] = this.#cached.keys();
      if (oldest !== undefined) this.#cached.delete(oldest);
    }
    return target;
  }

  /** It changed. */
  forget(id: string): void {
    this.#cached.delete(id);
  }

  async #load(id: string): Promise<WebhookTarget | undefined> {
    const webhook = await findWebhook(this.#store.read, id);
    if (webhook === undefined) return undefined;
    const { old_secret, old_secret_until_ms } = webhook;
    return {
      id,
      ownerId: webhook.owner_id,
      state: webhook.state,
      url: webhook.url,
      target: postTarget(webhook.url),
      key: await this.#open(webhook, webhook.secret),
      oldKey:
        old_secret === null || old_secret_until_ms === null
          ? undefined
          : { key: await this.#open(webhook, old_secret), untilMs: old_secret_until_ms },
      failingSinceMs: webhook.failing_since_ms,
    };
  }

  async #open({ id, owner_id }: WebhookTable, sealed: string): Promise<SigningKey> {
    const secret = await openValue(this.#store.read, this.#vault, { ownerId: owner_id, id, sealed });
    return signingKey(String(secret));
  }
}
