import type { Account } from '#accounts/account-store.ts';
import type { AppCatalogue } from '#accounts/apps/app-catalogue.ts';
import { OAuth1Flow } from '#accounts/oauth/oauth1-flow.ts';
import { createTokenEndpoint } from '#accounts/oauth/token-endpoint.ts';
import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import type { Clock } from '#lib/clock.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { AccountConnector } from './connect-account.ts';
import { connectByClient } from './connect-by-client.ts';
import { ConnectProvider } from './connect-provider.ts';

/** Providers that are asked at the same time, each for another user. */
const askedMax = 32;
/**
 * A user who has an account connected without a browser waits for so many times as long as that took, up to a second, before the next one: a provider
 * that answers 256 KB as often as it is asked kept the service from all else.
 */
const restTimes = 2;
const restAfterMs = 5;

/** The ways to a connected account other than bringing its credentials along, put together. */
export class ConnectService {
  /** In a browser. */
  readonly connector: AccountConnector;
  /** With the owner's own OAuth client, as `connectByClient`. */
  readonly connectByClient: (request: Parameters<typeof connectByClient>[1]) => Promise<Account>;
  readonly #turns = new FairQueue(askedMax, { rest: () => restTimes, restAfterMs });

  constructor(options: {
    store: Store;
    vault: Vault;
    clock: Clock;
    logger: Logger;
    dispatcher: GuardedDispatcher;
    apps: Pick<AppCatalogue, 'find' | 'requireEntry'>;
    publicUrl: () => string;
    /** An account was connected again: what is held of its credentials is out of date. */
    onChange: (accountId: string) => void;
  }) {
    const { store, vault, clock, logger, dispatcher, apps, publicUrl, onChange } = options;
    const tokens = createTokenEndpoint({ dispatcher, clock });
    this.connector = new AccountConnector({
      ...{ store, vault, clock, logger, publicUrl, onChange },
      findApp: (slug, ownerIds) => apps.find(slug, ownerIds),
      requireApp: async (slugOrId, ownerIds) => (await apps.requireEntry(slugOrId, ownerIds, 'app')).app,
      provider: new ConnectProvider({
        tokens,
        oauth1: new OAuth1Flow({ dispatcher, clock }),
        redirectUri: () => this.connector.redirectUri(),
      }),
    });
    this.connectByClient = (request) =>
      this.#turns.run(request.caller.userId, () => connectByClient({ store, vault, clock, tokens }, request));
  }
}
