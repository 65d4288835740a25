import { requireScope } from '#identity/key-scopes.ts';
import { type Caller, notFound, ownersOf } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { actorOf } from './account-audit.ts';
import { recordReads } from './account-audit-store.ts';
import type { AccountCredentials, OpenedAccount } from './account-credentials.ts';
import { mayChange, requireAccount } from './account-rights.ts';
import type { Account } from './account-store.ts';

/** Accounts whose credentials are got at the same time: each may have to be refreshed first. */
const togetherMax = 10;

/** Returns the credentials of accounts to users who may change these. The audit entry is on disk before the credentials are returned. */
export class CredentialReader {
  readonly #store: Pick<Store, 'read' | 'writes'>;
  readonly #credentials: Pick<AccountCredentials, 'read'>;
  readonly #clock: Clock;
  readonly #logger: Logger;

  constructor(options: {
    store: Pick<Store, 'read' | 'writes'>;
    accountCredentials: Pick<AccountCredentials, 'read'>;
    clock: Clock;
    logger: Logger;
  }) {
    this.#store = options.store;
    this.#credentials = options.accountCredentials;
    this.#clock = options.clock;
    this.#logger = options.logger;
  }

  /** Throws CallerError `not_found`, `forbidden` or `insufficient_scope`, UnavailableError when they cannot be opened. */
  async readOne(caller: Caller, id: string): Promise<OpenedAccount> {
    requireScope(caller.scopes, 'credentials');
    const account = await requireAccount(this.#store.read, caller, id, 'change');
    const opened = await this.#credentials.read(id, [account.owner_id]);
    const told = await this.#record(caller, [opened]);
    if (told.length > 0) return opened;
    // The right ended while it was refreshed: that is the answer.
    await requireAccount(this.#store.read, caller, id, 'change');
    throw notFound('account', id);
  }

  /** Credentials of those accounts that the caller may change; accounts that cannot be opened are left out, and the log says why. */
  async readSome(caller: Caller, accounts: readonly Account[]): Promise<Map<string, OpenedAccount>> {
    requireScope(caller.scopes, 'credentials');
    const owners = await ownersOf(this.#store.read, caller);
    const readable = accounts.filter((account) => mayChange(owners, caller, account));
    const opened: OpenedAccount[] = [];
    for (let at = 0; at < readable.length; at += togetherMax) {
      const some = readable.slice(at, at + togetherMax);
      const results = await Promise.all(some.map((account) => this.#readIfPossible(account)));
      opened.push(...results.filter((result) => result !== undefined));
    }
    const told = await this.#record(caller, opened);
    return new Map(told.map((one) => [one.account.id, one]));
  }

  async #readIfPossible({ id, owner_id: ownerId }: Account): Promise<OpenedAccount | undefined> {
    try {
      return await this.#credentials.read(id, [ownerId]);
    } catch (error) {
      if (!(error instanceof CallerError) && !(error instanceof UnavailableError)) throw error;
      this.#logger.warn({ account: id, error: toError(error).message }, 'account.credentials-not-read');
      return undefined;
    }
  }

  /** Returns the accounts that the caller may still read: the right may have ended during the refresh. */
  async #record(caller: Caller, opened: readonly OpenedAccount[]): Promise<readonly OpenedAccount[]> {
    if (opened.length === 0) return [];
    const nowMs = this.#clock.now();
    const owners = await ownersOf(this.#store.read, caller);
    const told = opened.filter(({ account }) => mayChange(owners, caller, account));
    const actor = actorOf(caller);
    await this.#store.writes.submit(
      recordReads,
      told.map(({ account }) => ({ account, action: 'read_credentials' as const, actor, nowMs })),
    );
    for (const { account } of told) {
      this.#logger.info(
        { account: account.id, owner: account.owner_id, user: caller.userId },
        'account.credentials-read',
      );
    }
    return told;
  }
}
