import { creatorsOf } from '#identity/workspace-store.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { countText, durationText } from '#lib/units.ts';
import type { Db, Store } from '#storage/store.ts';
import { limitNameOf, limitReached, limitText } from './owner-limits.ts';
import { type CountedName, countOwned, mbBytes, storedBytesOf } from './owner-size-store.ts';
import { findOwnerQuota, ownerQuotasOf } from './quota-store.ts';
import {
  effectiveQuotas,
  type OwnerLimits,
  ownerLimits,
  type QuotaDefaults,
  type Quotas,
  quotaUsedUp,
} from './quotas.ts';
import { type Usage, usageTodayOf } from './usage-store.ts';

/** Cache TTL of the usage of an owner with a quota. */
const freshMs = 1_000;
/** Cache TTL of an owner without an enforced quota: only an admin changes that, and this process is notified immediately. */
const unlimitedFreshMs = 10_000;
/** Maximum cached owners. Beyond it the oldest entry is dropped, and that owner may run until it is read again. */
const ownersMax = 50_000;
/** Maximum of owners read in one statement. */
const readMax = 500;
const dayMs = 86_400_000;
/** Time between two measurements of the bytes that an owner stores, where they have a limit. It is long: a measurement reads all that is counted. */
const measuredMs = 5 * 60_000;

/** What a refusal is counted by: a quota or a limit, as the API names them. */
const refusalNames = [
  ...['credits', 'compute_ms', 'invocations'],
  ...['sources', 'workflows', 'events', 'deliveries', 'stored_mb', 'streams', 'builds', 'workspaces'],
] as const;

interface Known {
  /** UTC days since 1970. */
  day: number;
  /** By the clock, as is everything here. */
  readAtMs: number;
  quotas: QuotaDefaults;
  limits: OwnerLimits;
  used: Usage;
  /** Let through since then: what they use is stored when they have ended. */
  started: number;
  emitted: number;
  delivered: number;
  stored?: Measured;
}

interface Measured {
  bytes: number;
  atMs: number;
}

/**
 * Decides from a cache whether an owner may start another run today, and whether it may emit, deliver, store or stream more. Usage is read from the store in the background, at most once a
 * second per owner, and for many owners at once. In between, each request that `check` admits counts as one invocation and one credit.
 * So an owner can exceed a quota by the runs under way and by those of about a second. One that is not cached yet may run. While the store cannot be
 * read nothing is refused. The three quotas of a day refuse nothing until they are enforced; other limits of an owner hold as soon as they are set.
 *
 * Events and deliveries are counted the same way: this process counts its own until they are stored, so an owner exceeds those limits by
 * what other nodes stored within about a second.
 *
 * It is asked where something begins: by `ingress/http-endpoints.ts` and `ingress/push-app-event.ts`, `events/emit-event.ts`, `sources/deploy-source.ts`,
 * `workflows/definitions/deploy-workflow.ts`, `schedule/fire-due-timers.ts`, `workflows/runs/advance-run.ts`, `workflows/runs/run-action.ts`,
 * `delivery/dispatch/wait-for-quota.ts`, `user-data/files/stored-files.ts`, `streams/stream-slots.ts` and `components/builder-pool.ts`. The room for files is another limit:
 * `user-data/files/file-room.ts`.
 */
export class QuotaGuard {
  readonly #store: Pick<Store, 'read'>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #defaults: QuotaDefaults;
  /** In the order in which they were read. */
  readonly #known = new Map<string, Known>();
  readonly #wanted = new Set<string>();
  readonly #refusals = new Map<string, number>(refusalNames.map((name) => [name, 0]));
  #reading: Promise<void> | undefined;
  readonly #measuring = new Map<string, Promise<void>>();

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

  /** Refusals since the start, by what was used up. A delivery that waits counts each time that it is looked at and refused. */
  get refusals(): Record<string, number> {
    return Object.fromEntries(this.#refusals);
  }

  /** True when a run may start now, by the stored use. For runs that were accepted already, and for rare callers. */
  mayRun(ownerId: string): boolean {
    const known = this.#look(ownerId);
    // Without events left a run may still do all but emit.
    const spent = known && usedUp(known, this.#clock.now(), 0);
    return spent === undefined || spent === 'events';
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
    const spent = (known && usedUp(known, nowMs, known.started)) ?? 'invocations';
    if (spent === 'storedMb') {
      this.#count('stored_mb');
      // Deleting helps from the next measurement on.
      const retrySeconds = measuredMs / 1000;
      return limitReached(spent, (known?.quotas ?? this.#defaults).limits.storedMb, {
        retry_after: retrySeconds,
        reset_at: Math.ceil(nowMs / 1000) + retrySeconds,
      });
    }
    const quotas = known?.quotas ?? this.#defaults;
    const name = spent === 'computeMs' ? 'compute_ms' : spent;
    const limit = spent === 'events' ? quotas.limits.events : quotas[spent];
    this.#count(name);
    const resetMs = (Math.floor(nowMs / dayMs) + 1) * dayMs;
    return new CallerError(
      'quota_exceeded',
      `quota used up: ${amountOf(spent, limit)}; it starts over at 00:00 UTC`,
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
    const isWatched = known !== undefined && hasBound(known.quotas);
    if (age > (isWatched ? freshMs : unlimitedFreshMs)) this.#want(ownerId);
    return isWatched ? known : undefined;
  }

  #count(name: string): void {
    this.#refusals.set(name, (this.#refusals.get(name) ?? 0) + 1);
  }

  /** How many events the owner may still emit on this day; Infinity without a limit. 0 while it stores as much as it may. */
  eventsLeft(ownerId: string): number {
    const known = this.#look(ownerId);
    if (known === undefined) return Number.POSITIVE_INFINITY;
    if (isFull(known)) return 0;
    const { events } = known.quotas.limits;
    return events === 0 || !isOfToday(known, this.#clock.now())
      ? Number.POSITIVE_INFINITY
      : Math.max(0, events - known.used.events - known.emitted);
  }

  /** These events of the owner are about to be stored. */
  emitted(ownerId: string, events: number): void {
    const known = this.#look(ownerId);
    if (known !== undefined) known.emitted += events;
  }

  /** Counts a refusal of events; why they were refused, in words. */
  refuseEvents(ownerId: string): string {
    const known = this.#known.get(ownerId);
    const { limits } = known?.quotas ?? this.#defaults;
    if (known !== undefined && isFull(known)) {
      this.#count('stored_mb');
      return limitReached('storedMb', limits.storedMb).message;
    }
    this.#count('events');
    return `quota used up: ${limitText('events', limits.events)}; it starts over at 00:00 UTC`;
  }

  /** Counts an attempt to deliver that is made now. False: the owner may have no more deliveries on this day. */
  takeDelivery(ownerId: string): boolean {
    const known = this.#look(ownerId);
    if (known === undefined) return true;
    const { deliveries } = known.quotas.limits;
    if (
      deliveries > 0 &&
      isOfToday(known, this.#clock.now()) &&
      known.used.deliveries + known.delivered >= deliveries
    ) {
      this.#count('deliveries');
      return false;
    }
    known.delivered += 1;
    return true;
  }

  /** Maximum of open streams of what the owner has, on this node; 0: no limit. */
  streamsMaxOf(ownerId: string): number {
    this.#look(ownerId);
    return (this.#known.get(ownerId)?.quotas ?? this.#defaults).limits.streams;
  }

  /** A stream was refused for `streamsMaxOf`. */
  streamRefused(): void {
    this.#count('streams');
  }

  /**
   * Asked before a component of this owner is built, with the number of its builds that are under way or wait on this node. Throws CallerError
   * `quota_exceeded` when it may have no more.
   */
  requireBuild(ownerId: string, builds: number): void {
    this.#look(ownerId);
    const limit = (this.#known.get(ownerId)?.quotas ?? this.#defaults).limits.builds;
    if (limit === 0 || builds < limit) return;
    this.#count('builds');
    throw limitReached('builds', limit);
  }

  /**
   * In the transaction that adds a source or workspace, or activates a workflow. Reads the store; transactions at the same moment do not see each
   * other's. Throws CallerError `quota_exceeded` when the owner has as many as it may.
   */
  async requireRoom(db: Db, name: CountedName, ownerId: string): Promise<void> {
    const limit = effectiveQuotas(this.#defaults, await findOwnerQuota(db, ownerId)).limits[name];
    if (limit === 0 || (await countOwned(db, name, ownerId)) < limit) return;
    this.#count(limitNameOf(name));
    throw limitReached(name, limit);
  }

  /** As `check`, for callers that would store a file: only the limit of what is stored counts. */
  requireStorage(ownerId: string): void {
    const known = this.#look(ownerId);
    if (known !== undefined && isFull(known)) {
      this.#count('stored_mb');
      throw limitReached('storedMb', known.quotas.limits.storedMb);
    }
  }

  /** What was set for the processes of an owner, and the user who created it; nothing while it is not known. */
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
    await Promise.all(this.#measuring.values());
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

  /** What an owner stores, read apart from everything else: it takes long where much is stored. */
  #measure(ownerId: string): void {
    if (this.#measuring.has(ownerId)) return;
    const measuring = storedBytesOf(this.#store.read, ownerId).then(
      (bytes) => {
        const known = this.#known.get(ownerId);
        if (known !== undefined) known.stored = { bytes, atMs: this.#clock.now() };
      },
      // It is measured again with the next read.
      (error: unknown) =>
        this.#logger.warn({ owner: ownerId, error: toError(error).message }, 'quota.read-failed'),
    );
    this.#measuring.set(
      ownerId,
      measuring.finally(() => this.#measuring.delete(ownerId)),
    );
  }

  async #readOwners(ownerIds: readonly string[]): Promise<void> {
    const nowMs = this.#clock.now();
    const [own, creators, usage] = await Promise.all([
      ownerQuotasOf(this.#store.read, ownerIds),
      creatorsOf(this.#store.read, ownerIds),
      usageTodayOf(this.#store.read, ownerIds, nowMs),
    ]);
    for (const ownerId of ownerIds) {
      const stored = this.#known.get(ownerId)?.stored;
      this.#known.delete(ownerId);
      const quotas = effectiveQuotas(this.#defaults, own.get(ownerId));
      const createdBy = creators.get(ownerId);
      this.#known.set(ownerId, {
        day: Math.floor(nowMs / dayMs),
        readAtMs: nowMs,
        quotas,
        limits: { ...ownerLimits(own.get(ownerId)), ...(createdBy === undefined ? {} : { createdBy }) },
        used: usage.get(ownerId) ?? { invocations: 0, computeMs: 0, credits: 0, events: 0, deliveries: 0 },
        started: 0,
        emitted: 0,
        delivered: 0,
        ...(stored === undefined ? {} : { stored }),
      });
      if (quotas.limits.storedMb > 0 && (stored === undefined || nowMs - stored.atMs > measuredMs))
        this.#measure(ownerId);
    }
    for (const ownerId of this.#known.keys()) {
      if (this.#known.size <= ownersMax) break;
      this.#known.delete(ownerId);
    }
  }
}

function amountOf(quota: keyof Quotas | 'events', limit: number): string {
  if (quota === 'events') return limitText(quota, limit);
  return quota === 'computeMs'
    ? `${durationText(limit)} of run time a day`
    : `${countText(limit)} ${quota} a day`;
}

/** True when something may have to be refused to an owner with these quotas. */
function hasBound({ enforced, limits }: QuotaDefaults): boolean {
  return enforced || limits.events > 0 || limits.deliveries > 0 || limits.storedMb > 0;
}

/** Usage of another day says nothing about this one. */
function isOfToday({ day }: Known, nowMs: number): boolean {
  return day === Math.floor(nowMs / dayMs);
}

function isFull({ quotas: { limits }, stored }: Known): boolean {
  return limits.storedMb > 0 && stored !== undefined && stored.bytes >= limits.storedMb * mbBytes;
}

/** What an owner has used up that refuses its runs. `started`: runs that are not in its usage yet. */
function usedUp(
  known: Known,
  nowMs: number,
  started: number,
): keyof Quotas | 'events' | 'storedMb' | undefined {
  const { quotas, used, emitted } = known;
  if (isFull(known)) return 'storedMb';
  if (!isOfToday(known, nowMs)) return undefined;
  const spent = quotas.enforced
    ? quotaUsedUp(quotas, {
        computeMs: used.computeMs,
        invocations: used.invocations + started,
        credits: used.credits + started,
      })
    : undefined;
  if (spent !== undefined) return spent;
  const { events } = quotas.limits;
  return events > 0 && used.events + emitted >= events ? 'events' : undefined;
}
