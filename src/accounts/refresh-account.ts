import { setTimeout as delay } from 'node:timers/promises';
import type { LeaseClock } from '#jobs/lease-clock.ts';
import type { Clock } from '#lib/clock.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store, Tx } from '#storage/store.ts';
import { openObject, sealObject } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import {
  type Account,
  changeAccountAt,
  findAccount,
  findSealedAccount,
  giveBackLease,
  raiseRevisionsOf,
  type SealedAccount,
  takeRefreshLease,
} from './account-store.ts';
import type { AppDefinition } from './apps/app-definition.ts';
import { type Grant, GrantError, type OAuthClient, type TokenEndpoint } from './oauth/grant.ts';
import { refreshBackoffMs, refreshTimes } from './refresh-times.ts';

/**
 * How long one process has an account for itself. Longer than a refresh may take (20 s, and 5 s to learn whose it is), so that
 * two never spend the same refresh token; a node that died holds up the next refresh for no longer than this.
 */
const leaseMs = 30_000;
/** How often to look whether the other process has done it. */
const pollMs = 100;
/** Between tries to store what a provider gave: often, since it is to be there before the lease ends. */
const storeAgainMs = 500;
/** Another process may have had the lease and not given it back. It gets this long to store the tokens that it was given. */
const staleLeaseGraceMs = 60_000;

/**
 * What a provider gave, until it is stored. Some providers accept a refresh token only once. Then the new one is the only valid one, so it is
 * kept in memory while the store is away. Their number is bounded: a refresh begins only after its lease was stored.
 */
interface UnstoredGrant {
  account: SealedAccount;
  credentials: Record<string, unknown>;
  grant: Grant;
  atMs: number;
}

/** The health of an account after a refresh. */
export interface Health {
  healthy: boolean;
  dead: boolean;
  /** Shown to users, without secrets; null: nothing is wrong. */
  error: string | null;
}

export interface RefreshOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  /** The clock that leases end by: the database's, where there are other processes. */
  leaseClock: Pick<LeaseClock, 'nowMs'>;
  logger: Logger;
  node: string;
  tokens: TokenEndpoint;
  findApp(slug: string, ownerIds: readonly string[]): Promise<AppDefinition | undefined>;
  findClient(id: string): Promise<OAuthClient | undefined>;
  /**
   * Writes the health, and what follows from a change of it, unless the credentials changed since `account` was read
   * (undefined). Resolves with what is to be done after the commit.
   */
  changeHealth(tx: Tx, account: Account, health: Health): Promise<(() => void) | undefined>;
  /** The credentials changed: what this process holds of them is out of date. */
  onChange(accountId: string): void;
}

/**
 * Gets new access tokens. Three callers ask for one: `account-keeper.ts` when a refresh is due (`refresh-times.ts`), `account-credentials.ts` when
 * a caller needs a token whose refresh is due, and `check-account.ts` after a test that failed. One refresh of an account at a time, in this process
 * (callers share the promise) and in all (a lease in its row). The result is stored only if the account still has the version that the refresh
 * began with. So a user who connects it meanwhile wins, and a process that slept through its lease overwrites nothing. A refresh that fails deletes
 * nothing, ever: rotating refresh tokens have been lost elsewhere by losers who cleaned up.
 *
 * The request to the provider is in `oauth/token-endpoint.ts`. The tokens are sealed into the row of the account in table `accounts`
 * (`account-store.ts`).
 */
export class AccountRefresher {
  readonly #options: RefreshOptions;
  readonly #underWay = new Map<string, Promise<Account | undefined>>();
  readonly #unstored = new Map<string, { given: UnstoredGrant; timer: NodeJS.Timeout }>();
  #stopping = false;

  constructor(options: RefreshOptions) {
    this.#options = options;
  }

  /** Waits for what providers are being asked, and for what they gave to be stored, `graceMs` at most. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    const late = AbortSignal.timeout(graceMs);
    while ((this.#underWay.size > 0 || this.#unstored.size > 0) && !late.aborted) await delay(pollMs);
    for (const [account, { timer }] of this.#unstored) {
      clearTimeout(timer);
      this.#options.logger.error({ account }, 'account.refresh-not-stored');
    }
    this.#unstored.clear();
  }

  /**
   * Refreshes now, whether it is due or not, unless the credentials have changed since `seen` (the version that the
   * caller found wanting). Resolves with the account as it is then, also when the refresh failed: its health says why.
   * Undefined: there is no such account. Throws UnavailableError while the store is away; what the provider gave is
   * then kept in memory, and stored as soon as that can be done.
   */
  refresh(id: string, seen?: number): Promise<Account | undefined> {
    const underWay = this.#underWay.get(id);
    if (underWay !== undefined) return underWay;
    const refreshed = this.#refresh(id, seen).finally(() => this.#underWay.delete(id));
    this.#underWay.set(id, refreshed);
    return refreshed;
  }

  async #refresh(id: string, seen: number | undefined): Promise<Account | undefined> {
    const { store, node, leaseClock } = this.#options;
    const unstored = this.#unstored.get(id);
    if (unstored !== undefined) return this.#keep(unstored.given);
    let before: Account | undefined;
    for (;;) {
      const account = await findSealedAccount(store.read, id);
      if (account === undefined) return undefined;
      before ??= account;
      if (account.version !== (seen ?? before.version) || isOtherOutcome(account, before)) return account;
      if (account.grant_type === 'keys' || account.grant_type === 'oauth1') return account;
      // Leases of several processes are compared by one clock: by their own, one that is ahead would take them too soon.
      const nowMs = await leaseClock.nowMs();
      const isOurs = await store.transaction((tx) =>
        takeRefreshLease(tx, account, { node, nowMs, untilMs: nowMs + leaseMs }),
      );
      if (isOurs) return this.#exchange(account);
      if (this.#stopping) throw new UnavailableError('overloaded', 'the service is stopping');
      await delay(pollMs);
    }
  }

  async #exchange(account: SealedAccount): Promise<Account | undefined> {
    const { store, vault, clock, node } = this.#options;
    let credentials: Record<string, unknown>;
    let grant: Grant;
    try {
      credentials = await openObject(store.read, vault, { ...account, ownerId: account.owner_id });
      grant = await this.#ask(account, credentials);
    } catch (error) {
      if (!(error instanceof GrantError)) {
        // The refresh failed, so other nodes need not wait for the lease to end; a failure of the store was reported already.
        await store.transaction((tx) => giveBackLease(tx, account.id, node)).catch(() => {});
        throw error;
      }
      await this.#fail(account, error);
      return findAccount(store.read, account.id);
    }
    return this.#keep({ account, credentials, grant, atMs: clock.now() });
  }

  /** Stores what a provider gave. While that cannot be done it is kept here, and tried again until it can. */
  async #keep(given: UnstoredGrant): Promise<Account | undefined> {
    const { store, logger } = this.#options;
    const { id } = given.account;
    const before = this.#unstored.get(id);
    clearTimeout(before?.timer);
    try {
      await this.#succeed(given);
    } catch (error) {
      const again = () => void this.refresh(id).catch(() => {});
      this.#unstored.set(id, { given, timer: setTimeout(again, storeAgainMs).unref() });
      if (before === undefined)
        logger.error({ account: id, error: toError(error).message }, 'account.refresh-store-failed');
      throw error;
    }
    this.#unstored.delete(id);
    return findAccount(store.read, id);
  }

  async #ask(account: Account, credentials: Record<string, unknown>): Promise<Grant> {
    const app = await this.#options.findApp(account.app_slug, [account.owner_id]);
    if (app?.oauth === undefined || app.oauth.version !== 2) {
      throw new GrantError(
        'client',
        `the app ${account.app_slug} is no longer in the catalogue as an OAuth 2 app`,
      );
    }
    const client =
      account.oauth_client_id === null ? undefined : await this.#options.findClient(account.oauth_client_id);
    if (client === undefined) {
      throw new GrantError(
        'client',
        `the OAuth client that this account was connected with was deleted: PUT /v1/apps/${app.slug}/oauth_client, then connect the account again`,
      );
    }
    const context = { app, fields: credentials, client };
    if (account.grant_type === 'client_credentials') return this.#options.tokens.clientCredentials(context);
    const refreshToken = credentials.oauth_refresh_token;
    if (typeof refreshToken !== 'string' || refreshToken === '') {
      throw new GrantError('grant', `the access token has ended, and ${app.name} gave no refresh token`);
    }
    // Accounts that were moved in while the provider did not say whose they are.
    const asksUid = typeof credentials.oauth_uid !== 'string' || credentials.oauth_uid === '';
    return this.#options.tokens.refresh(context, { refreshToken, asksUid });
  }

  async #succeed({ account, credentials, grant, atMs: nowMs }: UnstoredGrant): Promise<void> {
    const { store, vault, clock, logger, onChange } = this.#options;
    const fresh = {
      ...credentials,
      ...grant.fields,
      oauth_access_token: grant.accessToken,
      ...(grant.refreshToken !== undefined && { oauth_refresh_token: grant.refreshToken }),
      ...(grant.uid !== undefined && { oauth_uid: grant.uid }),
    };
    const canRefresh =
      account.grant_type === 'client_credentials' || typeof fresh.oauth_refresh_token === 'string';
    const times = refreshTimes({ expiresInSeconds: grant.expiresInSeconds, canRefresh }, nowMs);
    const afterCommit = await store.transaction(async (tx) => {
      const sealed = await sealObject(
        tx,
        { vault, clock },
        { ownerId: account.owner_id, id: account.id, value: fresh },
      );
      const isStored = await changeAccountAt(tx, account, {
        sealed,
        version: account.version + 1,
        expires_at_ms: times.expiresAtMs,
        next_refresh_at_ms: times.nextRefreshAtMs,
        last_refreshed_at_ms: nowMs,
        refresh_failures: 0,
        lease_node: null,
        lease_until_ms: null,
        ...(grant.scopes !== undefined && { authorized_scopes: JSON.stringify(grant.scopes) }),
        // An unhealthy account becomes healthy by a test.
        ...(account.healthy === 0 && { next_check_at_ms: nowMs }),
      });
      if (!isStored) return undefined;
      await raiseRevisionsOf(tx, account.id);
      const now = await findAccount(tx, account.id);
      // It may have been called dead meanwhile by a process that was refused.
      return now === undefined
        ? undefined
        : this.#options.changeHealth(tx, now, { healthy: true, dead: false, error: null });
    });
    if (afterCommit === undefined) {
      logger.info({ account: account.id }, 'account.refresh-overtaken');
      return;
    }
    afterCommit();
    onChange(account.id);
    logger.info({ account: account.id, owner: account.owner_id, app: account.app_slug }, 'account.refreshed');
  }

  async #fail(account: SealedAccount, error: GrantError): Promise<void> {
    const { store, clock, logger, node, onChange } = this.#options;
    const nowMs = clock.now();
    const failures = account.refresh_failures + 1;
    // The refresh token may be spent by a process that only sleeps: its tokens are accepted when it wakes, so the account is not dead yet.
    const maySleep = error.reach === 'grant' && account.lease_node !== null && account.lease_node !== node;
    const isDead = error.reach === 'grant' && !maySleep;
    const hasEnded = account.expires_at_ms !== null && account.expires_at_ms <= nowMs;
    const { retryAfterSeconds, reach } = error;
    const waitMs = maySleep
      ? staleLeaseGraceMs
      : refreshBackoffMs(failures, { retryAfterSeconds, passes: reach === 'moment' });
    const afterCommit = await store.transaction(async (tx) => {
      const isStored = await changeAccountAt(tx, account, {
        refresh_failures: failures,
        next_refresh_at_ms: isDead ? null : nowMs + waitMs,
        lease_node: null,
        lease_until_ms: null,
      });
      const now = isStored ? await findAccount(tx, account.id) : undefined;
      if (now === undefined) return undefined;
      // Runs that hold its credentials ask again and get the error; otherwise they would use the token until it ends.
      if (isDead) await raiseRevisionsOf(tx, account.id);
      return this.#options.changeHealth(tx, now, {
        // A provider that is briefly away says nothing about the account, while its token is valid.
        healthy: now.healthy === 1 && (error.reach === 'moment' || maySleep) && !hasEnded,
        dead: isDead,
        error: error.message,
      });
    });
    afterCommit?.();
    if (isDead) onChange(account.id);
    logger.warn(
      {
        account: account.id,
        owner: account.owner_id,
        app: account.app_slug,
        reach: error.reach,
        failures,
        error: toError(error).message,
      },
      'account.refresh-failed',
    );
  }
}

/** Another process tried meanwhile, and did not get anything. */
function isOtherOutcome(account: Account, before: Account): boolean {
  return account.refresh_failures !== before.refresh_failures || account.dead !== before.dead;
}
