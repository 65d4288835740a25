import { readFileSync } from 'node:fs';

/** The part of the service's descriptors that connections of user code may take, and the part for live streams. The rest is for requests, deliveries and the store. */
const partOfDescriptors = 1 / 2;
/** The number of descriptors that is assumed where the system does not report it. */
const descriptorsAssumed = 1024;
/** The part of the connections that every owner is guaranteed, and the part that no owner can take from newcomers. */
const guaranteedPart = 1 / 4;
const partForNewcomers = 1 / 4;

/**
 * The number of connections of one kind (of user code, or live streams) that each owner may have open through the service. While only one owner is active, it may have three
 * quarters of all, so that code which opens connections without end leaves descriptors to others.
 */
export class ConnectionShares {
  readonly max: number;
  readonly #open = new Map<string, number>();
  #all = 0;

  constructor(max = Math.floor(descriptorsMax() * partOfDescriptors)) {
    this.max = max;
  }

  /** Counts a connection that is about to be opened. False: the owner has used up its share. */
  take(ownerId: string): boolean {
    const own = this.#open.get(ownerId) ?? 0;
    const isSure = own < this.max * guaranteedPart;
    const isRoom = this.#all < this.max * (1 - partForNewcomers);
    if (this.#all >= this.max || !(isSure || isRoom)) return false;
    this.#open.set(ownerId, own + 1);
    this.#all += 1;
    return true;
  }

  /** Counts a connection that was closed. */
  leave(ownerId: string): void {
    const own = (this.#open.get(ownerId) ?? 0) - 1;
    if (own > 0) this.#open.set(ownerId, own);
    else this.#open.delete(ownerId);
    this.#all -= 1;
  }

  /** The number of connections of all owners. */
  get count(): number {
    return this.#all;
  }

  /** The number of connections that an owner has open. */
  of(ownerId: string): number {
    return this.#open.get(ownerId) ?? 0;
  }
}

/** The number of descriptors that this process may have, as the system says. */
export function descriptorsMax(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? descriptorsAssumed : Number(soft);
  } catch {
    return descriptorsAssumed;
  }
}
