import type { AddressPolicy } from '#egress/address-policy.ts';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import type { EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import { LeaseClock } from '#jobs/lease-clock.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { OldRowPruner } from '#storage/old-row-pruner.ts';
import type { Store } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { accountAuditPruner } from './account-audit-pruner.ts';
import { AccountCredentials } from './account-credentials.ts';
import { changeHealth, type HealthOptions } from './account-health.ts';
import { type Account, endRefreshLeases } from './account-store.ts';
import { recordUse } from './account-uses-store.ts';
import type { AppCatalogue } from './apps/app-catalogue.ts';
import type { AccountChecker } from './check-account.ts';
import { KeptAccounts } from './kept-accounts.ts';
import { openClient } from './oauth/manage-oauth-clients.ts';
import { SignerUris } from './oauth/oauth1-signer-uris.ts';
import { createTokenEndpoint } from './oauth/token-endpoint.ts';
import { OAuth1Signer } from './oauth1-signer.ts';
import { AccountRefresher } from './refresh-account.ts';
import { type RemovalOptions, removeAccountsOf } from './remove-accounts.ts';
import { revokeGrant } from './revoke-grant.ts';

/** The services of connected accounts, assembled: reading credentials, health, and signing. */
export class AccountService {
  readonly credentials: AccountCredentials;
  readonly checker: AccountChecker;
  readonly signer: OAuth1Signer;
  readonly #store: Store;
  readonly #refresher: AccountRefresher;
  readonly #kept: KeptAccounts;
  readonly #auditPruner: OldRowPruner;
  readonly #removal: Omit<RemovalOptions, 'revoke'>;
  readonly #revoke: (account: Account, credentials: Record<string, unknown>) => Promise<void>;

  constructor(options: {
    store: Store;
    vault: Vault;
    clock: Clock;
    logger: Logger;
    node: string;
    dispatcher: GuardedDispatcher;
    policy: AddressPolicy;
    router: EventRouter;
    bus: EventBus;
    apps: Pick<AppCatalogue, 'find'>;
    publicUrl: () => string;
    /** Hours between two tests of an account; 0: only when asked. */
    checkHours: number;
    auditDays: number;
    /** The credentials of an account changed: what is held of them is out of date. */
    onChange: (accountId: string) => void;
  }) {
    const { store, vault, clock, logger, node, dispatcher, policy, apps, publicUrl, onChange } = options;
    const health: HealthOptions = { store, router: options.router, bus: options.bus, clock };
    const findApp = (slug: string, ownerIds: readonly string[]) => apps.find(slug, ownerIds);
    const findClient = (id: string) => openClient(store.read, vault, id);
    const tokens = createTokenEndpoint({ dispatcher, clock });
    const uris = new SignerUris({ key: vault.keyFor('oauth1 signer'), publicUrl });
    const refresher = new AccountRefresher({
      ...{ store, vault, clock, logger, node, tokens, findApp, findClient, onChange },
      leaseClock: new LeaseClock({ store, clock }),
      changeHealth: (tx, account, change) => changeHealth(health, tx, account, change),
    });
    this.#store = store;
    this.#refresher = refresher;
    this.signer = new OAuth1Signer({ store, vault, clock, uris, findApp, findClient });
    this.credentials = new AccountCredentials({
      ...{ store, vault, clock, refresher, signers: uris },
      recordUse: (account, usedBy) =>
        store.transaction((tx) => recordUse(tx, { account, usedBy, nowMs: clock.now() })),
    });
    this.#kept = new KeptAccounts({
      ...{ store, vault, clock, logger, dispatcher, policy, refresher, health, findApp, signer: this.signer },
      checkHours: options.checkHours,
    });
    this.checker = this.#kept.checker;
    this.#auditPruner = accountAuditPruner({ store, clock, logger, daysKept: options.auditDays });
    this.#removal = { store, vault, clock, logger, onChange };
    this.#revoke = (account, credentials) =>
      revokeGrant({ db: store.read, vault, logger, tokens, findApp }, account, credentials);
  }

  /** `keeps`: this process refreshes and tests what is due. */
  async start({ keeps }: { keeps: boolean }): Promise<void> {
    // The embedded store has one process at a time. With others about, leases of those that died end by themselves.
    if (!this.#store.isShared) await this.#store.transaction(endRefreshLeases);
    this.#auditPruner.start();
    if (keeps) this.#kept.start();
  }

  async stop(graceMs: number): Promise<void> {
    await Promise.all([this.#kept.stop(graceMs), this.#refresher.stop(graceMs), this.#auditPruner.stop()]);
  }

  /**
   * Removes the accounts of an owner who is deleted, and tells the providers, until `untilMs`. Accounts of later are left: they go with the
   * rows of the owner.
   */
  removeAllOf(ownerId: string, limits: { untilMs: number; signal: AbortSignal }): Promise<void> {
    return removeAccountsOf({ ...this.#removal, revoke: this.#revoke }, ownerId, limits);
  }

  /** Tells the provider that an account was deleted here. What it answers changes nothing. */
  revoke(account: Account, credentials: Record<string, unknown>): Promise<void> {
    return this.#revoke(account, credentials);
  }
}
