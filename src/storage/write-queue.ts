import { ActiveOwners } from '#lib/active-owners.ts';

/** A write that waits for its batch. */
export interface QueuedWrite {
  /** Undefined: the instance, which has a share as an owner has. */
  readonly ownerId: string | undefined;
  readonly bytes: number;
  /** A caller waits for it. */
  readonly isUrgent: boolean;
  /** True: it records how admitted work ended, and is refused only when the whole queue is full. */
  readonly endsWork: boolean;
  state: 'waiting' | 'taken' | 'cancelled';
  /** The order in which writes were added; set by the queue. */
  number: number;
}

/** Why a write is not added: the queue is full, or the owner's share of it is. */
export type QueueRefusal = 'full' | 'share';

/** Waiting writes of one owner. */
interface Lane<Write> {
  writes: Write[];
  /** Index of the first write that was not taken. */
  first: number;
  bytes: number;
  /** Those that were taken for the batch, and their bytes. */
  takenCount: number;
  takenBytes: number;
}

/** What one owner may have in a batch. */
interface Portion {
  count: number;
  bytes: number;
}

/** Writes of a batch that is being taken, and the lanes that they are taken from. */
interface Batch<Write> {
  writes: Write[];
  /** Cancelled writes count as items, not as bytes. */
  bytes: number;
  lanes: Set<Lane<Write>>;
}

/** Writes waiting at most; beyond that the store is too slow for what comes in, and callers get an error immediately. */
const waitingMax = 20_000;
const waitingBytesMax = 256 * 1024 * 1024;
/** What is left, beyond that, for owners with little waiting: what others fill the queue with refuses nothing of theirs. */
const reserve: Portion = { count: 2_000, bytes: 16 * 1024 * 1024 };
/**
 * Maximum ratio of what an owner has waiting to the room that is left for all. A single owner may use three quarters of the queue, four
 * owners less than a quarter each, and there is always room for an owner that has nothing waiting.
 */
const sharePerRoom = 3;
/** Items in one transaction: enough to hide an fsync, few enough that no write waits long behind it. */
export const batchMax = 256;
/** A batch ends with the item that reaches this: one message to the store must not grow to gigabytes. */
const batchBytesMax = 16 * 1024 * 1024;
/**
 * What one owner may have in a batch while others write, which wait for the whole batch: with 256 runs of one owner in it, or 16 MB, it took
 * 40 ms and more. Small batches cost an owner who writes much a commit for each of them.
 */
const sharedPortion: Portion = { count: 32, bytes: 1024 * 1024 };
const wholeBatch: Portion = { count: batchMax, bytes: Number.POSITIVE_INFINITY };
/**
 * Owners with no more than this waiting have a batch of their own before each one of owners with more, while several write. Else each of their writes
 * took as long as those of the owner with most (bench `floods`, case `fan-out`).
 */
const little: Portion = { count: 8, bytes: 64 * 1024 };

/**
 * Writes that wait for the store, by owner. Owners take turns when a batch is taken, so that an owner with few writes has them in the next
 * batch, however many another owner has waiting. Writes of one owner are taken in the order in which they were added,
 * and a batch is in that order.
 */
export class WriteQueue<Write extends QueuedWrite> {
  /** Lanes with writes in them, in the order of their turns. */
  readonly #lanes = new Map<string | undefined, Lane<Write>>();
  #length = 0;
  #bytes = 0;
  #urgent = 0;
  #added = 0;
  /** The batch before was one of owners with little. */
  #isLittlesTurn = false;
  readonly #owners: ActiveOwners;

  constructor(clock: { nowMs?: () => number } = {}) {
    this.#owners = new ActiveOwners(clock);
  }

  get length(): number {
    return this.#length;
  }

  /** Writes that callers wait for. */
  get urgent(): number {
    return this.#urgent;
  }

  /** Adds a write, or returns why it was not added. */
  add(write: Write): QueueRefusal | undefined {
    let lane = this.#lanes.get(write.ownerId);
    const refusal = this.#refusalOf(write, lane);
    if (refusal !== undefined) return refusal;
    if (lane === undefined) {
      lane = { writes: [], first: 0, bytes: 0, takenCount: 0, takenBytes: 0 };
      this.#lanes.set(write.ownerId, lane);
    }
    if (write.ownerId !== undefined) this.#owners.note(write.ownerId);
    write.number = this.#added;
    this.#added += 1;
    lane.writes.push(write);
    lane.bytes += write.bytes;
    this.#length += 1;
    this.#bytes += write.bytes;
    if (write.isUrgent) this.#urgent += 1;
    return undefined;
  }

  /** The writes of the next batch, without those that were cancelled. */
  takeBatch(): Write[] {
    const isShared = this.#owners.areSeveral;
    const fits = this.#length <= batchMax && this.#bytes < batchBytesMax;
    if (this.#lanes.size === 1 && fits && !isShared) return this.takeAll();
    const batch: Batch<Write> = { writes: [], bytes: 0, lanes: new Set() };
    this.#isLittlesTurn = isShared && !this.#isLittlesTurn && this.#haveSomeLittle();
    const portion = isShared ? sharedPortion : wholeBatch;
    this.#takeTurns(batch, portion, this.#isLittlesTurn ? isLittle : () => true);
    for (const lane of batch.lanes) {
      lane.writes.splice(0, lane.first);
      lane.first = 0;
      lane.takenCount = 0;
      lane.takenBytes = 0;
    }
    return inOrder(batch.writes);
  }

  /** All writes, without those that were cancelled. */
  takeAll(): Write[] {
    const lanes = [...this.#lanes.values()];
    this.#lanes.clear();
    this.#length = 0;
    this.#bytes = 0;
    this.#urgent = 0;
    return inOrder(lanes.length === 1 ? (lanes[0]?.writes ?? []) : lanes.flatMap(({ writes }) => writes));
  }

  #refusalOf({ bytes, endsWork }: Write, lane: Lane<Write> | undefined): QueueRefusal | undefined {
    const room = waitingMax - this.#length - 1;
    const bytesRoom = waitingBytesMax - this.#bytes - bytes;
    if (lane === undefined || lane.writes.length < little.count) {
      // A single item is taken whatever its size.
      const isFull = room + reserve.count < 0 || (this.#bytes > 0 && bytesRoom + reserve.bytes < 0);
      if (isFull || bytes <= little.bytes) return isFull ? 'full' : undefined;
    }
    if (room < 0 || (this.#bytes > 0 && bytesRoom < 0)) return 'full';
    if (endsWork || lane === undefined) return undefined;
    const isTooMany = lane.writes.length + 1 > sharePerRoom * room;
    const isTooMuch = bytes > 0 && lane.bytes > 0 && lane.bytes + bytes > sharePerRoom * bytesRoom;
    return isTooMany || isTooMuch ? 'share' : undefined;
  }

  /** True when some owners have little waiting, and others more. */
  #haveSomeLittle(): boolean {
    let little = 0;
    for (const lane of this.#lanes.values()) if (isLittle(lane)) little += 1;
    return little > 0 && little < this.#lanes.size;
  }

  /** One write of each lane in turn, until the batch is full or no lane has one that may be added. The instance has no portion. */
  #takeTurns(batch: Batch<Write>, portion: Portion, mayTake: (lane: Lane<Write>) => boolean): void {
    const passed: [string | undefined, Lane<Write>][] = [];
    // A lane that is set again is visited again, after the others.
    for (const [ownerId, lane] of this.#lanes) {
      if (batch.writes.length >= batchMax || batch.bytes >= batchBytesMax) break;
      this.#lanes.delete(ownerId);
      const isFull = lane.takenCount >= portion.count || lane.takenBytes >= portion.bytes;
      if ((isFull && ownerId !== undefined) || !mayTake(lane)) {
        passed.push([ownerId, lane]);
        continue;
      }
      this.#takeFirst(lane, batch);
      if (lane.first < lane.writes.length) this.#lanes.set(ownerId, lane);
    }
    for (const [ownerId, lane] of passed) this.#lanes.set(ownerId, lane);
  }

  #takeFirst(lane: Lane<Write>, batch: Batch<Write>): void {
    const write = lane.writes[lane.first] as Write;
    lane.first += 1;
    lane.bytes -= write.bytes;
    this.#length -= 1;
    this.#bytes -= write.bytes;
    if (write.isUrgent) this.#urgent -= 1;
    lane.takenCount += 1;
    batch.writes.push(write);
    batch.lanes.add(lane);
    if (write.state !== 'waiting') return;
    lane.takenBytes += write.bytes;
    batch.bytes += write.bytes;
  }
}

function isLittle({ writes, bytes }: Lane<unknown>): boolean {
  return writes.length <= little.count && bytes <= little.bytes;
}

/** Those that were not cancelled, in the order in which they were added. */
function inOrder<Write extends QueuedWrite>(writes: Write[]): Write[] {
  return writes.sort((a, b) => a.number - b.number).filter(({ state }) => state === 'waiting');
}
