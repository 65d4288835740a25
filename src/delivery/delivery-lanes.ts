import type { HeldDelivery } from './delivery.ts';

/** What one node has in memory and under way at most; the rest waits in the store. */
export interface LaneBounds {
  /** Deliveries, sent or waiting for their turn. */
  heldMax: number;
  /** Bytes of their events. */
  heldBytesMax: number;
  /** Requests under way. */
  sendingMax: number;
}

export const laneBounds: Readonly<LaneBounds> = {
  heldMax: 8_192,
  heldBytesMax: 64 * 1024 * 1024,
  sendingMax: 1_024,
};

/** Of one listener: enough to keep its connections busy while the next ones are read from the store. */
const heldPerListenerMax = 256;
/** A listener gets at most this part of the room that is left, so that a few with a backlog cannot take it all. */
const listenerShare = 1 / 16;
/** To one webhook. One that takes 100 ms for an answer then takes 320 a second. */
const sendingPerWebhookMax = 32;
/** To a source, which runs one event after another: in the order in which they were emitted. */
const sendingPerSourceMax = 1;
/** To one whose last attempt failed: a receiver that hangs holds no more than this. */
const sendingPerTroubledMax = 2;
/**
 * An owner's listeners together get at most this part of the memory and of the requests that are left: a thousand that
 * hang have a third of each.
 */
const ownerShare = 1 / 2;
/** A lane with nothing in it is forgotten after this long. */
const idleMs = 60_000;

/** What is in memory of one listener's deliveries. */
export interface DeliveryLane {
  readonly listenerId: string;
  readonly ownerId: string;
  queue: HeldDelivery[];
  /** In `queue` and being sent. */
  held: number;
  sending: number;
  /** Older deliveries wait in the store: new ones go there too, and come in their turn. */
  isBehind: boolean;
  /** How often something was left in the store for it. */
  left: number;
  /** Older ones are being read from the store. */
  isRefilling: boolean;
  /** The last attempt failed. */
  isTroubled: boolean;
  /** By its own word (`Retry-After`) nothing is sent before this, epoch ms. */
  pausedUntilMs: number;
  usedAtMs: number;
}

/**
 * The bounds of what one node has in memory and under way: shares for listeners and owners, so that slow or hanging
 * receivers never hold up the others.
 */
export class DeliveryLanes {
  readonly #lanes = new Map<string, DeliveryLane>();
  readonly #sendingByOwner = new Map<string, number>();
  readonly #bytesByOwner = new Map<string, number>();
  readonly #bounds: Readonly<LaneBounds>;
  /** What a delivery counts for besides the bytes of its event: so that one measure has both bounds. */
  readonly besidesBytes: number;
  #held = 0;
  #bytes = 0;
  #sending = 0;

  constructor(bounds: Readonly<LaneBounds> = laneBounds) {
    this.#bounds = bounds;
    this.besidesBytes = bounds.heldBytesMax / bounds.heldMax;
  }

  get held(): number {
    return this.#held;
  }

  get sending(): number {
    return this.#sending;
  }

  get count(): number {
    return this.#lanes.size;
  }

  find(listenerId: string): DeliveryLane | undefined {
    return this.#lanes.get(listenerId);
  }

  of(listenerId: string, ownerId: string, nowMs: number): DeliveryLane {
    const known = this.#lanes.get(listenerId);
    if (known !== undefined) return known;
    const lane: DeliveryLane = {
      listenerId,
      ownerId,
      queue: [],
      held: 0,
      sending: 0,
      isBehind: false,
      left: 0,
      isRefilling: false,
      isTroubled: false,
      pausedUntilMs: 0,
      usedAtMs: nowMs,
    };
    this.#lanes.set(listenerId, lane);
    return lane;
  }

  /** All of them, for those who look for what can go on. */
  [Symbol.iterator](): IterableIterator<DeliveryLane> {
    return this.#lanes.values();
  }

  /** How many more deliveries of a listener may come into memory, as far as its owner has room. */
  room(listenerId: string): number {
    return this.#share() - (this.#lanes.get(listenerId)?.held ?? 0);
  }

  /** Whether one more delivery of an owner may come into memory, besides those that were `given` a place already. */
  hasRoomFor(ownerId: string, given = { ofOwner: 0, all: 0 }): boolean {
    const free = this.#bounds.heldBytesMax - this.#bytes - given.all;
    const ofOwner = (this.#bytesByOwner.get(ownerId) ?? 0) + given.ofOwner;
    return free > 0 && (ofOwner === 0 || ofOwner < free * ownerShare);
  }

  /** For giving places to several deliveries before they come. */
  places(): DeliveryPlaces {
    return new DeliveryPlaces(this);
  }

  /** What one listener may have in memory. */
  #share(): number {
    const free = this.#bounds.heldMax - this.#held;
    if (free <= 0) return 0;
    return Math.min(heldPerListenerMax, Math.max(1, Math.floor(free * listenerShare)));
  }

  /** Whether there is room for any listener's. */
  hasRoom(): boolean {
    return this.#bytes < this.#bounds.heldBytesMax;
  }

  take(lane: DeliveryLane, delivery: HeldDelivery): void {
    lane.queue.push(delivery);
    lane.held += 1;
    this.#held += 1;
    this.#count(lane, delivery.body.length + this.besidesBytes);
  }

  /** The next delivery that may be sent now; it counts as being sent until `sent`. */
  next(lane: DeliveryLane, nowMs: number): HeldDelivery | undefined {
    if (lane.queue.length === 0) return undefined;
    if (lane.sending >= sendingMaxOf(lane)) return undefined;
    if (this.#sending >= this.#bounds.sendingMax) return undefined;
    const ofOwner = this.#sendingByOwner.get(lane.ownerId) ?? 0;
    if (ofOwner > 0 && ofOwner >= (this.#bounds.sendingMax - this.#sending) * ownerShare) return undefined;
    const delivery = lane.queue.shift();
    if (delivery === undefined) return undefined;
    lane.sending += 1;
    lane.usedAtMs = nowMs;
    this.#sending += 1;
    this.#sendingByOwner.set(lane.ownerId, ofOwner + 1);
    return delivery;
  }

  sent(lane: DeliveryLane, delivery: HeldDelivery): void {
    lane.sending -= 1;
    this.#sending -= 1;
    const left = (this.#sendingByOwner.get(lane.ownerId) ?? 1) - 1;
    if (left === 0) this.#sendingByOwner.delete(lane.ownerId);
    else this.#sendingByOwner.set(lane.ownerId, left);
    this.#leave(lane, delivery);
  }

  /** Takes what waits in a lane out of memory again. */
  empty(lane: DeliveryLane): HeldDelivery[] {
    const waiting = lane.queue.splice(0);
    for (const delivery of waiting) this.#leave(lane, delivery);
    return waiting;
  }

  /** Whether something of it will end, which is when it looks for more. */
  isBusy(lane: DeliveryLane): boolean {
    return lane.held > 0 || lane.isRefilling;
  }

  /** Something waits in the store for it: also when a look into the store that has begun may not have seen it. */
  fallBehind(lane: DeliveryLane): void {
    lane.isBehind = true;
    lane.left += 1;
  }

  /** Half of what it may have is gone, and there is room: time to read on. */
  hasDrained(lane: DeliveryLane): boolean {
    if (!lane.isBehind || lane.isRefilling || lane.held > this.#share() / 2) return false;
    return this.room(lane.listenerId) > 0 && this.hasRoomFor(lane.ownerId);
  }

  forgetIdle(nowMs: number): void {
    for (const [id, lane] of this.#lanes) {
      const isIdle = lane.held === 0 && !lane.isBehind && !lane.isRefilling && lane.pausedUntilMs <= nowMs;
      if (isIdle && lane.usedAtMs < nowMs - idleMs) this.#lanes.delete(id);
    }
  }

  #leave(lane: DeliveryLane, delivery: HeldDelivery): void {
    lane.held -= 1;
    this.#held -= 1;
    this.#count(lane, -(delivery.body.length + this.besidesBytes));
  }

  #count({ ownerId }: DeliveryLane, bytes: number): void {
    this.#bytes += bytes;
    const ofOwner = (this.#bytesByOwner.get(ownerId) ?? 0) + bytes;
    if (ofOwner === 0) this.#bytesByOwner.delete(ownerId);
    else this.#bytesByOwner.set(ownerId, ofOwner);
  }
}

/** Places in memory that are given to deliveries which are still on their way there. */
export class DeliveryPlaces {
  readonly #lanes: DeliveryLanes;
  /** Deliveries by listener, bytes by owner. */
  readonly #given = new Map<string, number>();
  #all = 0;

  constructor(lanes: DeliveryLanes) {
    this.#lanes = lanes;
  }

  /** True when there was one for this delivery, which has it then. */
  take(listenerId: string, ownerId: string, eventBytes: number): boolean {
    const ofListener = this.#given.get(listenerId) ?? 0;
    const ofOwner = this.#given.get(ownerId) ?? 0;
    if (this.#lanes.room(listenerId) <= ofListener) return false;
    if (!this.#lanes.hasRoomFor(ownerId, { ofOwner, all: this.#all })) return false;
    const bytes = eventBytes + this.#lanes.besidesBytes;
    this.#given.set(listenerId, ofListener + 1);
    this.#given.set(ownerId, ofOwner + bytes);
    this.#all += bytes;
    return true;
  }
}

function sendingMaxOf({ listenerId, isTroubled }: DeliveryLane): number {
  if (!listenerId.startsWith('wh_')) return sendingPerSourceMax;
  return isTroubled ? sendingPerTroubledMax : sendingPerWebhookMax;
}
