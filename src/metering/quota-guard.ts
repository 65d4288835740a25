import type { Clock } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { countText, durationText } from '#lib/units.ts';
import type { Store } from '#storage/store.ts';
import { ownerQuotasOf } from './quota-store.ts';
import {
  effectiveQuotas,
  type OwnerLimits,
  ownerLimits,
  type QuotaDefaults,
  type Quotas,
  quotaUsedUp,
} from './quotas.ts';
import { usageTodayOf } from './usage-store.ts';

/** Cache TTL of the usage of an owner with a quota. */
const freshMs = 1_000;
/** Cache TTL of an owner without an enforced quota: only an admin changes that, and this process is notified immediately. */
const unlimitedFreshMs = 10_000;
/** Maximum cached owners. Beyond it the oldest entry is dropped, and that owner may run until it is read again. */
const ownersMax = 50_000;
/** Maximum of owners read in one statement. */
const readMax = 500;
const dayMs = 86_400_000;

interface Known {
  /** UTC days since 1970. */
  day: number;
  /** By the clock, as is everything here. */
  readAtMs: number;
  quotas: QuotaDefaults;
  limits: OwnerLimits;
  used: Quotas;
  /** Let through since then: what they use is stored when they have ended. */
  started: number;
}

/**
 * Decides whether an owner may start another run today, from a cache. Usage is read from the store in the background, at most once a
 * second per owner, and for many owners at once. In between, each request that `check` admits counts as one invocation and one credit.
 * So runs under way, and those of about a second, can exceed a quota, and an owner that is not cached yet may run. Nothing is refused
 * while no quota is enforced, or while the store cannot be read.
 */
export class QuotaGuard {
  readonly #store: Pick<Store, 'read'>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #defaults: QuotaDefaults;
  /** In the order in which they were read. */
  readonly #known = new Map<string, Known>();
  readonly #wanted = new Set<string>();
  #reading: Promise<void> | undefined;

  constructor(options: {
    store: Pick<Store, 'read'>;
    clock: Clock;
    logger: Logger;
    defaults: QuotaDefaults;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#defaults = options.defaults;
  }

  get defaults(): QuotaDefaults {
    return this.#defaults;
  }

  /** True when a run may start now, by the stored use. For runs that were accepted already, and for rare callers. */
  mayRun(ownerId: string): boolean {
    const known = this.#look(ownerId);
    return known === undefined || usedUp(known, this.#clock.now(), 0) === undefined;
  }

  /**
   * For callers who bring many runs, one after the other: counts those it lets through, until what they used is stored.
   * Throws CallerError `quota_exceeded` (429).
   */
  check(ownerId: string): void {
    const known = this.#look(ownerId);
    if (known === undefined) return;
    if (usedUp(known, this.#clock.now(), known.started) !== undefined) throw this.refuse(ownerId);
    known.started += 1;
  }

  /** So many more runs came of something that `check` let through as one. */
  started(ownerId: string, runs: number): void {
    const known = this.#look(ownerId);
    if (known !== undefined) known.started += runs;
  }

  /** The error for an owner who may not run: CallerError `quota_exceeded` with `retry_after` and `reset_at` for the headers. */
  refuse(ownerId: string): CallerError {
    const nowMs = this.#clock.now();
    const known = this.#known.get(ownerId);
    const quota = (known && usedUp(known, nowMs, known.started)) ?? 'invocations';
    const name = quota === 'computeMs' ? 'compute_ms' : quota;
    const limit = (known?.quotas ?? this.#defaults)[quota];
    const resetMs = (Math.floor(nowMs / dayMs) + 1) * dayMs;
    return new CallerError(
      'quota_exceeded',
      `quota used up: ${amountOf(quota, limit)} a day; it starts over at 00:00 UTC`,
      {
        quota: name,
        limit,
        retry_after: Math.ceil((resetMs - nowMs) / 1000),
        reset_at: resetMs / 1000,
      },
    );
  }

  /** The cached usage of an owner whose quotas are enforced; starts a read if it is missing or old. */
  #look(ownerId: string): Known | undefined {
    const known = this.#known.get(ownerId);
    const age = known === undefined ? Number.POSITIVE_INFINITY : Math.abs(this.#clock.now() - known.readAtMs);
    if (age > (known?.quotas.enforced === true ? freshMs : unlimitedFreshMs)) this.#want(ownerId);
    return known?.quotas.enforced === true ? known : undefined;
  }

  /** What was set for the processes of an owner; nothing while it is not known. */
  limitsOf(ownerId: string): OwnerLimits {
    this.#look(ownerId);
    return this.#known.get(ownerId)?.limits ?? {};
  }

  /** The quotas of this owner were changed: what is known of them is read again before it counts. */
  forget(ownerId: string): void {
    this.#known.delete(ownerId);
    this.#want(ownerId);
  }

  /** Resolves when what was wanted so far is known. */
  async settled(): Promise<void> {
    while (this.#reading !== undefined) await this.#reading;
  }

  #want(ownerId: string): void {
    if (this.#wanted.size >= ownersMax) return;
    this.#wanted.add(ownerId);
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
  }

  async #read(): Promise<void> {
    // Owners that are requested in the same turn of the loop are read together.
    await new Promise(setImmediate);
    while (this.#wanted.size > 0) {
      const ownerIds = [...this.#wanted].slice(0, readMax);
      for (const ownerId of ownerIds) this.#wanted.delete(ownerId);
      try {
        await this.#readOwners(ownerIds);
      } catch (error) {
        // Without the store nothing runs anyway. Each owner is read again at its next request.
        this.#logger.warn({ error: toError(error).message }, 'quota.read-failed');
      }
    }
  }

  async #readOwners(ownerIds: readonly string[]): Promise<void> {
    const nowMs = this.#clock.now();
    const [own, usage] = await Promise.all([
      ownerQuotasOf(this.#store.read, ownerIds),
      usageTodayOf(this.#store.read, ownerIds, nowMs),
    ]);
    for (const ownerId of ownerIds) {
      this.#known.delete(ownerId);
      this.#known.set(ownerId, {
        day: Math.floor(nowMs / dayMs),
        readAtMs: nowMs,
        quotas: effectiveQuotas(this.#defaults, own.get(ownerId)),
        limits: ownerLimits(own.get(ownerId)),
        used: usage.get(ownerId) ?? { invocations: 0, computeMs: 0, credits: 0 },
        started: 0,
      });
    }
    for (const ownerId of this.#known.keys()) {
      if (this.#known.size <= ownersMax) break;
      this.#known.delete(ownerId);
    }
  }
}

function amountOf(quota: keyof Quotas, limit: number): string {
  return quota === 'computeMs' ? `${durationText(limit)} of run time` : `${countText(limit)} ${quota}`;
}

/** Usage of another day says nothing about this one. `started`: runs that are not in it yet. */
function usedUp({ day, quotas, used }: Known, nowMs: number, started: number): keyof Quotas | undefined {
  if (day !== Math.floor(nowMs / dayMs)) return undefined;
  return quotaUsedUp(quotas, {
    computeMs: used.computeMs,
    invocations: used.invocations + started,
    credits: used.credits + started,
  });
}
