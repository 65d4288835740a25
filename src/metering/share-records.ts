import type { Logger } from '#lib/logger.ts';

/**
 * Resources of a node in which each owner has a share. `runs`: places for jobs that run or wait for the turn of their lane. `writes`: places in the
 * queue of the store. `transfers`: bytes of calls, streams and mails, and requests to webhooks.
 */
export const shareResources = [
  'processes',
  'memory',
  'connections',
  'lookups',
  'runs',
  'builds',
  'actions',
  'streams',
  'writes',
  'transfers',
] as const;
export type ShareResource = (typeof shareResources)[number];

/** How often something of an owner waited for its share, and was refused because of it. */
export interface ShareCounts {
  delayed: number;
  refused: number;
}

/** Maximum owners with counts. Beyond it, the counts of the owner that was counted first are dropped. */
const ownersMax = 1_000;
/** Minimum time between two log lines for an owner and a resource. Refused code often tries again immediately. */
const logEveryMs = 60_000;

/** The counts of an owner for one resource. */
interface ResourceCounts extends ShareCounts {
  /** The last time, epoch ms. */
  atMs: number;
  /** The last reason of a refusal. */
  reason: string | undefined;
}

interface OwnerRecord extends ShareCounts {
  byResource: Map<ShareResource, ResourceCounts>;
  logged: Map<ShareResource, { atMs: number; refused: number }>;
}

/** What a resource reports to. */
export type ShareObserver = Pick<ShareRecords, 'delayed' | 'refused'>;

/**
 * Counts what was delayed and refused because of an owner's share, since the start: by resource for metrics, by owner for operators and
 * for the owner.
 */
export class ShareRecords {
  readonly #logger: Logger;
  readonly #nowMs: () => number;
  readonly #byResource = Object.fromEntries(
    shareResources.map((resource) => [resource, { delayed: 0, refused: 0 }]),
  ) as Record<ShareResource, ShareCounts>;
  readonly #byOwner = new Map<string, OwnerRecord>();

  constructor({ logger, nowMs }: { logger: Logger; nowMs: () => number }) {
    this.#logger = logger;
    this.#nowMs = nowMs;
  }

  get byResource(): Readonly<Record<ShareResource, Readonly<ShareCounts>>> {
    return this.#byResource;
  }

  get byOwner(): ReadonlyMap<string, Readonly<ShareCounts>> {
    return this.#byOwner;
  }

  /** What was delayed and refused of an owner, by resource. */
  of(ownerId: string): ReadonlyMap<ShareResource, Readonly<ResourceCounts>> {
    return this.#byOwner.get(ownerId)?.byResource ?? new Map();
  }

  delayed(ownerId: string, resource: ShareResource): void {
    this.#byResource[resource].delayed += 1;
    const record = this.#ownerRecord(ownerId);
    record.delayed += 1;
    const counts = resourceCounts(record, resource);
    counts.delayed += 1;
    counts.atMs = this.#nowMs();
  }

  refused(ownerId: string, resource: ShareResource, reason: string): void {
    this.#byResource[resource].refused += 1;
    const record = this.#ownerRecord(ownerId);
    record.refused += 1;
    const counts = resourceCounts(record, resource);
    counts.refused += 1;
    counts.atMs = this.#nowMs();
    counts.reason = reason;
    const logged = record.logged.get(resource) ?? { atMs: Number.NEGATIVE_INFINITY, refused: 0 };
    logged.refused += 1;
    record.logged.set(resource, logged);
    const nowMs = this.#nowMs();
    if (nowMs - logged.atMs < logEveryMs) return;
    this.#logger.warn({ owner: ownerId, resource, refused: logged.refused, reason }, 'share.refused');
    record.logged.set(resource, { atMs: nowMs, refused: 0 });
  }

  #ownerRecord(ownerId: string): OwnerRecord {
    const known = this.#byOwner.get(ownerId);
    if (known !== undefined) return known;
    const record: OwnerRecord = { delayed: 0, refused: 0, byResource: new Map(), logged: new Map() };
    this.#byOwner.set(ownerId, record);
    const [first] = this.#byOwner.keys();
    if (this.#byOwner.size > ownersMax && first !== undefined) this.#byOwner.delete(first);
    return record;
  }
}

function resourceCounts({ byResource }: OwnerRecord, resource: ShareResource): ResourceCounts {
  const known = byResource.get(resource);
  if (known !== undefined) return known;
  const counts = { delayed: 0, refused: 0, atMs: 0, reason: undefined };
  byResource.set(resource, counts);
  return counts;
}
