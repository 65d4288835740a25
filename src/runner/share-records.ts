import type { Logger } from '#lib/logger.ts';

/** What owners have shares of in the runner. */
export const shareResources = ['processes', 'memory', 'connections'] as const;
export type ShareResource = (typeof shareResources)[number];

/** Calls of an owner that waited for its share, and calls and connections that were refused because of it. */
export interface ShareCounts {
  delayed: number;
  refused: number;
}

/** Owners whose counts are kept; beyond it those of the owner who was counted first are dropped. */
const ownersMax = 1_000;
/** One line of the log for each owner and resource in this time: code that is refused is often tried again at once. */
const logEveryMs = 60_000;

interface OwnerRecord extends ShareCounts {
  logged: Map<ShareResource, { atMs: number; refused: number }>;
}

/** What was delayed and refused because an owner has its share, since the start: by resource for metrics, by owner for people. */
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
