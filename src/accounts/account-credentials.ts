import { setTimeout as delay } from 'node:timers/promises';
import { notFound } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Db, Store } from '#storage/store.ts';
import { openObject } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { type Account, findSealedAccount, type SealedAccount } from './account-store.ts';
import type { SignerUris } from './oauth/oauth1-signer-uris.ts';
import type { AccountRefresher } from './refresh-account.ts';

/** An account with the credentials that a component sees as `$auth`. */
export interface OpenedAccount {
  account: Account;
  credentials: Record<string, unknown>;
  /** Time from which cached credentials must be read again, epoch ms. Null: they are valid until they are changed. */
  freshUntilMs: number | null;
}

/** Maximum wait for a refresh while the token is still valid. */
const patienceMs = 2_000;
/** A token that is being replaced is read again after this, unless a notification comes first. */
const askAgainMs = 15_000;

/** Gives out credentials, refreshed if that is due. The only way from a sealed account to its secrets. */
export class AccountCredentials {
  readonly #store: Pick<Store, 'read'>;
  readonly #vault: Vault;
  readonly #clock: Clock;
  readonly #refresher: Pick<AccountRefresher, 'refresh'>;
  readonly #signers: Pick<SignerUris, 'withSignerUri'>;
  readonly #recordUse: (account: Account, usedBy: string) => Promise<void>;

  constructor(options: {
    store: Pick<Store, 'read'>;
    vault: Vault;
    clock: Clock;
    refresher: Pick<AccountRefresher, 'refresh'>;
    signers: Pick<SignerUris, 'withSignerUri'>;
    /** Resolves when it is stored that `usedBy` (dc_…, p_… or sc_…) got the credentials. */
    recordUse(account: Account, usedBy: string): Promise<void>;
  }) {
    this.#store = options.store;
    this.#vault = options.vault;
    this.#clock = options.clock;
    this.#refresher = options.refresher;
    this.#signers = options.signers;
    this.#recordUse = options.recordUse;
  }

  /**
   * For a run of `usedBy` (dc_… or p_…; sc_…: a component that is configured or run by itself; null: for setting something
   * up): credentials without a known problem, of an account of one of `ownerIds`. Throws CallerError
   * `not_found`, or `account_dead` when it has to be connected again; UnavailableError `account_not_refreshed` while
   * the provider gives no new token for one that has ended, `wrong_encryption_key` or `sealed_value_damaged`.
   */
  async use(id: string, ownerIds: readonly string[], usedBy: string | null): Promise<OpenedAccount> {
    const account = await this.#current(id, ownerIds);
    const name = `account ${id} (${account.app_name})`;
    if (account.dead === 1) {
      throw new CallerError('account_dead', `${name} has to be connected again: ${account.error}`, {
        account: id,
      });
    }
    if (hasEnded(account, this.#clock.now())) {
      throw new UnavailableError(
        'account_not_refreshed',
        `the access token of ${name} has ended: ${account.error ?? 'no new one came'}`,
      );
    }
    if (usedBy !== null) await this.#recordUse(account, usedBy);
    return this.#open(account);
  }

  /** For a reader: the credentials as they are, whatever is wrong with them; refreshed when that is due. */
  async read(id: string, ownerIds: readonly string[]): Promise<OpenedAccount> {
    return this.#open(await this.#current(id, ownerIds));
  }

  async #current(id: string, ownerIds: readonly string[]): Promise<SealedAccount> {
    const account = await this.#find(id, ownerIds);
    if (!isDue(account, this.#clock.now())) return account;
    const refreshing = this.#refresher.refresh(id, account.version);
    // A slow provider does not hold up callers whose token is still valid.
    if (hasEnded(account, this.#clock.now())) await refreshing;
    else await withinMs(patienceMs, refreshing);
    return this.#find(id, ownerIds);
  }

  async #find(id: string, ownerIds: readonly string[]): Promise<SealedAccount> {
    const found = await findSealedAccount(this.#store.read, id);
    if (found === undefined || !ownerIds.includes(found.owner_id)) throw notFound('account', id);
    return found;
  }

  async #open(account: SealedAccount): Promise<OpenedAccount> {
    const { sealed, lease_node: _refreshes, ...rest } = account;
    const { id, owner_id: ownerId } = account;
    const stored = await openObject(this.#store.read, this.#vault, { ownerId, id, sealed });
    const credentials = this.#signers.withSignerUri(account, stored);
    const { next_refresh_at_ms: refreshMs, expires_at_ms: endMs } = account;
    const nowMs = this.#clock.now();
    const isBeingRefreshed = isDue(account, nowMs) && !hasEnded(account, nowMs);
    const ends = [isBeingRefreshed ? nowMs + askAgainMs : refreshMs, endMs].filter((ms) => ms !== null);
    return { account: rest, credentials, freshUntilMs: ends.length === 0 ? null : Math.min(...ends) };
  }
}

function hasEnded({ expires_at_ms }: Account, nowMs: number): boolean {
  return expires_at_ms !== null && expires_at_ms <= nowMs;
}

/** Resolves when the promise does, or so much later; rejects when the promise does before. */
async function withinMs(ms: number, promise: Promise<unknown>): Promise<void> {
  const inTime = new AbortController();
  const late = delay(ms, undefined, { signal: inTime.signal }).catch(() => {});
  // The result of a later refresh is seen by the next caller.
  promise.catch(() => {});
  await Promise.race([promise, late]).finally(() => inTime.abort());
}

/** After a refresh that failed the next one is due only when its time has come, however many ask. */
function isDue(account: Account, nowMs: number): boolean {
  return account.next_refresh_at_ms !== null && account.next_refresh_at_ms <= nowMs;
}

/**
 * The credentials as they are stored, not refreshed.
 * Throws CallerError `not_found`; UnavailableError `wrong_encryption_key` or `sealed_value_damaged`.
 */
export async function openCredentials(
  db: Db,
  vault: Vault,
  id: string,
  ownerIds: readonly string[],
): Promise<Record<string, unknown>> {
  const found = await findSealedAccount(db, id);
  if (found === undefined || !ownerIds.includes(found.owner_id)) throw notFound('account', id);
  return openObject(db, vault, { ownerId: found.owner_id, id, sealed: found.sealed });
}
