import type { AddressPolicy } from '#egress/address-policy.ts';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import type { HealthOptions } from './account-health.ts';
import { AccountKeeper } from './account-keeper.ts';
import type { AppDefinition } from './apps/app-definition.ts';
import { AccountChecker } from './check-account.ts';
import type { OAuth1Signer } from './oauth1-signer.ts';
import { testAccount } from './probes/test-request.ts';
import type { AccountRefresher } from './refresh-account.ts';

const hourMs = 3_600_000;

/** Everything that keeps accounts healthy: tests on request, and refreshes and tests when they are due. */
export class KeptAccounts {
  readonly checker: AccountChecker;
  readonly #keeper: AccountKeeper;

  constructor(options: {
    store: Store;
    vault: Vault;
    clock: Clock;
    logger: Logger;
    health: HealthOptions;
    refresher: Pick<AccountRefresher, 'refresh'>;
    signer: Pick<OAuth1Signer, 'header'>;
    findApp(slug: string, ownerIds: readonly string[]): Promise<AppDefinition | undefined>;
    dispatcher: GuardedDispatcher;
    policy: AddressPolicy;
    checkHours: number;
    random?: () => number;
  }) {
    const { store, vault, clock, logger, health, refresher, signer, findApp, dispatcher, policy } = options;
    const checkEveryMs = options.checkHours * hourMs;
    this.checker = new AccountChecker({
      ...{ store, vault, clock, health, refresher, signer, findApp, checkEveryMs },
      test: (account, signal) => testAccount({ dispatcher, policy }, account, signal),
      random: options.random ?? Math.random,
    });
    this.#keeper = new AccountKeeper({
      ...{ store, clock, logger, refresher, checkEveryMs, checker: this.checker },
    });
  }

  /** Begins with what is due. */
  start(): void {
    this.#keeper.start();
  }

  async stop(graceMs: number): Promise<void> {
    this.checker.stop();
    await this.#keeper.stop(graceMs);
  }
}
