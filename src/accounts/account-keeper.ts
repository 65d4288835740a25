import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { Wakeable } from '#lib/wakeable.ts';
import type { Store } from '#storage/store.ts';
import { theService } from './account-audit-store.ts';
import { type DueAccount, type DueColumn, dueAccounts, putOff, restartDue } from './account-health-store.ts';
import { findAccount } from './account-store.ts';
import type { AccountChecker } from './check-account.ts';
import type { AccountRefresher } from './refresh-account.ts';

/** Interval between looks for due work. */
const lookEveryMs = 1_000;
/** Maximum of accounts under way, for each kind of work. */
const atOnceMax = 32;
/** Maximum of them for one app, so that a few slow providers cannot hold up the others, and for one owner. */
const perAppMax = { next_refresh_at_ms: 4, next_check_at_ms: 2 } as const;
const perOwnerMax = 4;
/** The node that postpones a test first runs it, in less time than this. A node that dies during the test delays it by this much. */
const claimMs = 120_000;
/** Delay after a failure that only an operator can fix: a lost key, a broken definition. */
const brokenWaitMs = 5 * 60_000;
/** A step back of the clock by more than this reschedules accounts; clocks of several nodes differ by less. */
const stepBackMs = 60_000;
const dayMs = 86_400_000;

export interface KeeperOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  refresher: Pick<AccountRefresher, 'refresh'>;
  checker: Pick<AccountChecker, 'check'>;
  /** The interval of the checker; 0: accounts are tested on request only. */
  checkEveryMs: number;
}

/**
 * Refreshes and tests accounts when they are due. The store is the only truth; several nodes keep the same accounts, and
 * each piece of work is done by one of them: a test by the node that postpones its row first, a refresh by the node that gets
 * its lease. A node that dies leaves nothing undone.
 */
export class AccountKeeper {
  readonly #options: KeeperOptions;
  readonly #lanes: Lane[];
  readonly #wakeable: Wakeable;
  #stopped = false;
  /** Unknown at first: the clock may have stepped back while no node ran. */
  #lastSeenMs = Number.POSITIVE_INFINITY;

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#wakeable = new Wakeable({
      look: () => this.#look(),
      pollMs: lookEveryMs,
      logger: options.logger,
      failure: 'account.sweep-failed',
      restsAfterFailure: true,
    });
    this.#lanes = [new Lane('next_refresh_at_ms', (due) => this.#refresh(due))];
    if (options.checkEveryMs > 0) this.#lanes.push(new Lane('next_check_at_ms', (due) => this.#check(due)));
  }

  start(): void {
    this.poke();
  }

  /** Called when something may be due. */
  poke(): void {
    this.#wakeable.poke();
  }

  /** Begins no further work, and waits for work under way, `graceMs` at most. */
  async stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    await this.#wakeable.stop();
    const grace = new AbortController();
    const late = delay(graceMs, undefined, { signal: grace.signal }).catch(() => {});
    await Promise.race([Promise.all(this.#lanes.map((lane) => lane.ended())), late]);
    grace.abort();
  }

  async #look(): Promise<number> {
    const { store, clock, logger } = this.#options;
    await this.#watchClock();
    for (const lane of this.#lanes) {
      for (let more = true; more && !this.#stopped; )
        more = await lane.begin(store, clock.now(), {
          end: () => setImmediate(() => this.poke()),
          failed: (due, error) =>
            this.#stopped ||
            logger.warn({ account: due.id, error: toError(error).message }, 'account.keep-failed'),
        });
    }
    return lookEveryMs;
  }

  async #refresh(due: DueAccount): Promise<void> {
    const { store, refresher } = this.#options;
    const account = await findAccount(store.read, due.id);
    // Another node did it after the list was read.
    if (account?.next_refresh_at_ms !== due.due_at_ms || account.version !== due.version) return;
    try {
      await refresher.refresh(due.id, due.version);
    } finally {
      // Every refresh plans the next one. A refresh that could not be tried must not be due again immediately.
      await this.#putOff('next_refresh_at_ms', due, brokenWaitMs);
    }
  }

  async #check(due: DueAccount): Promise<void> {
    if (!(await this.#putOff('next_check_at_ms', due, claimMs))) return;
    await this.#options.checker.check(due.id, theService);
  }

  async #putOff(column: DueColumn, due: DueAccount, byMs: number): Promise<boolean> {
    const { store, clock } = this.#options;
    return store.transaction((tx) => putOff(tx, column, due, clock.now() + byMs));
  }

  async #watchClock(): Promise<void> {
    const { store, clock, logger, checkEveryMs } = this.#options;
    const nowMs = clock.now();
    if (nowMs < this.#lastSeenMs - stepBackMs) {
      const accounts = await store.transaction((tx) =>
        restartDue(tx, {
          nowMs,
          latestCheckMs: nowMs + Math.max(checkEveryMs, dayMs) * 1.1 + stepBackMs,
          latestGrantMs: nowMs + stepBackMs,
        }),
      );
      if (accounts > 0) logger.warn({ accounts }, 'account.clock-stepped-back');
    }
    this.#lastSeenMs = nowMs;
  }
}

/** The accounts whose refresh, or whose test, is under way. */
class Lane {
  readonly #column: DueColumn;
  readonly #work: (due: DueAccount) => Promise<void>;
  readonly #running = new Map<string, { due: DueAccount; ended: Promise<unknown> }>();

  constructor(column: DueColumn, work: (due: DueAccount) => Promise<void>) {
    this.#column = column;
    this.#work = work;
  }

  /** Begins due work as far as there is room; false: nothing more to begin. `on.end`: there may be room again. */
  async begin(
    store: Store,
    nowMs: number,
    on: { end: () => void; failed: (due: DueAccount, error: unknown) => unknown },
  ): Promise<boolean> {
    if (this.#running.size >= atOnceMax) return false;
    const found = await dueAccounts(store.read, {
      column: this.#column,
      nowMs,
      but: {
        ids: [...this.#running.keys()],
        apps: this.#full(({ app_slug }) => app_slug, perAppMax[this.#column]),
        owners: this.#full(({ owner_id }) => owner_id, perOwnerMax),
      },
      limit: atOnceMax,
    });
    let begun = 0;
    for (const due of found) {
      const isFull =
        this.#running.size >= atOnceMax ||
        this.#full(({ app_slug }) => app_slug, perAppMax[this.#column]).includes(due.app_slug) ||
        this.#full(({ owner_id }) => owner_id, perOwnerMax).includes(due.owner_id);
      if (isFull) continue;
      begun += 1;
      const ended = this.#work(due)
        // Failed work is found by the next look, not immediately: the store may be the cause.
        .then(on.end, (error: unknown) => on.failed(due, error))
        .finally(() => this.#running.delete(due.id));
      this.#running.set(due.id, { due, ended });
    }
    return begun > 0;
  }

  async ended(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  #full(keyOf: (due: DueAccount) => string, max: number): string[] {
    const counts = new Map<string, number>();
    for (const { due } of this.#running.values()) counts.set(keyOf(due), (counts.get(keyOf(due)) ?? 0) + 1);
    return [...counts].filter(([, count]) => count >= max).map(([key]) => key);
  }
}
