import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import { openObject } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import type { Actor } from './account-audit-store.ts';
import { changeHealth, type HealthOptions, tellRecovery } from './account-health.ts';
import type { HealthColumns } from './account-health-store.ts';
import { type Account, changeAccountAt, findAccount, findSealedAccount } from './account-store.ts';
import type { AppDefinition } from './apps/app-definition.ts';
import type { OAuth1Signer } from './oauth1-signer.ts';
import { type Sign, type TestOutcome, UnfitCredentials } from './probes/account-probe.ts';
import type { AccountRefresher } from './refresh-account.ts';

const minute = 60_000;
const hour = 60 * minute;
/** After the 1st, 2nd, … test in a row that did not succeed; then daily. */
const waitsMs = [minute, 5 * minute, 30 * minute, 2 * hour, 6 * hour, 24 * hour];
/** A provider that could not be asked says nothing about an account, unless that repeats. */
const unreachableMax = 3;
/** Credentials that are changed while they are tested are tested again, so often at most. */
const attemptsMax = 3;
/** Maximum of simultaneous tests on request: in this process, and of accounts of one owner. */
const askedAtOnceMax = 32;
const askedAtOncePerOwnerMax = 4;
/** One test takes no longer, most far less. */
const busySeconds = 15;

export interface AccountCheckOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  findApp(slug: string, ownerIds: readonly string[]): Promise<AppDefinition | undefined>;
  refresher: Pick<AccountRefresher, 'refresh'>;
  /** `testAccount`. */
  test(
    account: { app: AppDefinition; credentials: Readonly<Record<string, unknown>>; sign?: Sign },
    signal: AbortSignal,
  ): Promise<TestOutcome | undefined>;
  /** For OAuth 1 accounts. */
  signer: Pick<OAuth1Signer, 'header'>;
  health: HealthOptions;
  /** Between tests of an account that works; 0: it is tested only on request. */
  checkEveryMs: number;
  /** From 0 to 1. */
  random(): number;
}

/**
 * Tests accounts and writes the results. A test that began with credentials that were changed meanwhile says
 * nothing about the present ones, and is repeated.
 */
export class AccountChecker {
  readonly #options: AccountCheckOptions;
  readonly #underWay = new Map<string, Promise<Account | undefined>>();
  readonly #asked = new Map<string, number>();
  readonly #stop = new AbortController();

  constructor(options: AccountCheckOptions) {
    this.#options = options;
  }

  /** Tests now. Resolves with the account as it is then; undefined: there is none. One that is dead is not tested. */
  check(id: string, actor: Actor): Promise<Account | undefined> {
    const underWay = this.#underWay.get(id);
    if (underWay !== undefined) return underWay;
    const checked = this.#check(id, actor).finally(() => this.#underWay.delete(id));
    this.#underWay.set(id, checked);
    return checked;
  }

  /** As `check`, on the request of a user. Throws CallerError `account_tests_busy` when too many tests are under way. */
  async checkNow(account: Account, actor: Actor): Promise<Account | undefined> {
    const { owner_id: ownerId } = account;
    const ofOwner = this.#asked.get(ownerId) ?? 0;
    const all = [...this.#asked.values()].reduce((sum, count) => sum + count, 0);
    if (ofOwner >= askedAtOncePerOwnerMax || all >= askedAtOnceMax) {
      throw new CallerError(
        'account_tests_busy',
        'too many accounts are being tested; try again in a moment',
        {
          limit: askedAtOncePerOwnerMax,
          retry_after: busySeconds,
          reset_at: epochSeconds(this.#options.clock.now()) + busySeconds,
        },
      );
    }
    this.#asked.set(ownerId, ofOwner + 1);
    try {
      return await this.check(account.id, actor);
    } finally {
      const left = (this.#asked.get(ownerId) ?? 1) - 1;
      if (left === 0) this.#asked.delete(ownerId);
      else this.#asked.set(ownerId, left);
    }
  }

  /** Ends the tests under way; they leave nothing behind. Refreshes continue: a rotated token may be on its way. */
  stop(): void {
    this.#stop.abort(new Error('the service stops'));
  }

  async #check(id: string, actor: Actor): Promise<Account | undefined> {
    const { store, vault, findApp, refresher, test } = this.#options;
    let wasRefreshed = false;
    for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
      const account = await findSealedAccount(store.read, id);
      if (account === undefined || account.dead === 1) return account;
      const credentials = await openObject(store.read, vault, { ...account, ownerId: account.owner_id });
      const app = await findApp(account.app_slug, [account.owner_id]);
      const outcome =
        app && (await test({ app, credentials, ...this.#signed(account, credentials) }, this.#stop.signal));
      if (outcome?.outcome === 'refused' && !wasRefreshed && canRefresh(account, credentials)) {
        wasRefreshed = true;
        const refreshed = await refresher.refresh(id, account.version);
        if (refreshed === undefined || refreshed.dead === 1) return refreshed;
        if (refreshed.version !== account.version) continue;
      }
      if (await this.#write(account, outcome, actor)) break;
    }
    return findAccount(store.read, id);
  }

  #signed(account: Account, credentials: Record<string, unknown>): { sign?: Sign } {
    if (account.grant_type !== 'oauth1') return {};
    const sign: Sign = async (request) => {
      try {
        return await this.#options.signer.header(account, credentials, request);
      } catch (error) {
        // Its client is gone: then nothing that could be signed is worth anything.
        if (error instanceof CallerError) throw new UnfitCredentials(error.message, { cause: error });
        throw error;
      }
    };
    return { sign };
  }

  /** False: the credentials were changed since they were read. */
  async #write(
    tested: Pick<Account, 'id' | 'version'>,
    outcome: TestOutcome | undefined,
    actor: Actor,
  ): Promise<boolean> {
    const { store, health } = this.#options;
    const afterCommit = await store.transaction(async (tx) => {
      const account = await findAccount(tx, tested.id);
      if (account?.version !== tested.version) return undefined;
      if (outcome === undefined) {
        const written = await changeAccountAt(tx, account, { next_check_at_ms: null });
        return written ? tellRecovery(health, tx, account, actor) : undefined;
      }
      const { columns, ...found } = this.#judge(account, outcome);
      return changeHealth(health, tx, account, { ...found, columns, actor, witness: 'test' });
    });
    afterCommit?.();
    return afterCommit !== undefined;
  }

  #judge(account: Account, { outcome, message }: TestOutcome) {
    const nowMs = this.#options.clock.now();
    const failures = outcome === 'works' ? 0 : account.check_failures + 1;
    const columns: Partial<HealthColumns> = {
      checked_at_ms: nowMs,
      check_failures: failures,
      next_check_at_ms: this.#nextCheckMs(failures, nowMs),
    };
    if (outcome === 'works') {
      // Why the last refresh failed stays worth knowing until one succeeds.
      const error = account.refresh_failures > 0 ? account.error : null;
      return { healthy: true, dead: false, error, columns };
    }
    const isStillHealthy = outcome === 'unreachable' && account.healthy === 1 && failures < unreachableMax;
    return { healthy: isStillHealthy, dead: false, error: message, columns };
  }

  /** Spread, so that those that were tested together are not tested together for ever. */
  #nextCheckMs(failures: number, nowMs: number): number | null {
    const { checkEveryMs, random } = this.#options;
    if (checkEveryMs === 0) return null;
    if (failures === 0) return Math.round(nowMs + checkEveryMs * (0.9 + 0.2 * random()));
    const waitMs = waitsMs[Math.min(failures, waitsMs.length) - 1] ?? minute;
    return Math.round(nowMs + waitMs * (1 + 0.1 * random()));
  }
}

function canRefresh(
  { grant_type }: Account,
  { oauth_refresh_token: token }: Record<string, unknown>,
): boolean {
  if (grant_type === 'client_credentials') return true;
  return grant_type === 'authorization_code' && typeof token === 'string' && token !== '';
}
