import type { Logger } from '#lib/logger.ts';

/** Resources of the runner in which each owner has a share. */
export const shareResources = ['processes', 'memory', 'connections'] as const;
export type ShareResource = (typeof shareResources)[number];

/** Calls of an owner that waited for its share, and calls and connections that were refused because of it. */
export interface ShareCounts {
  delayed: number;
  refused: number;
}

/** Maximum owners with counts. Beyond it, the counts of the owner that was counted first are dropped. */
const ownersMax = 1_000;
/** Minimum time between two log lines for an owner and a resource. Refused code often tries again immediately. */
const logEveryMs = 60_000;

interface OwnerRecord extends ShareCounts {
  logged: Map<ShareResource, { atMs: number; refused: number }>;
}

/** Counts what was delayed and refused because of an owner's share, since the start: by resource for metrics, by owner for operators. */
export class ShareRecords {
  readonly #logger: Logger;
  readonly #nowMs: () => number;
  readonly #byResource: Record<ShareResource, ShareCounts> = {
    processes: { delayed: 0, refused: 0 },
    memory: { delayed: 0, refused: 0 },
    connections: { delayed: 0, refused: 0 },
  };
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

  delayed(ownerId: string, resource: ShareResource): void {
    this.#byResource[resource].delayed += 1;
    this.#ownerRecord(ownerId).delayed += 1;
  }

  refused(ownerId: string, resource: ShareResource, reason: string): void {
    this.#byResource[resource].refused += 1;
    const record = this.#ownerRecord(ownerId);
    record.refused += 1;
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
    const record = { delayed: 0, refused: 0, logged: new Map() };
    this.#byOwner.set(ownerId, record);
    const [first] = this.#byOwner.keys();
    if (this.#byOwner.size > ownersMax && first !== undefined) this.#byOwner.delete(first);
    return record;
  }
}
