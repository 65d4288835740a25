import type { HeldDelivery } from '#delivery/delivery.ts';

/** Limits of what one node has in memory and under way. All other deliveries wait in the store. */
export interface LaneBounds {
  /** Maximum deliveries in memory, queued or being sent. */
  heldMax: number;
  /** Maximum size of their events. */
  heldBytesMax: number;
  /** Requests under way. */
  sendingMax: number;
  /** A receiver with slower responses is `slow`, milliseconds. */
  slowAfterMs: number;
}

export const laneBounds: Readonly<LaneBounds> = {
  heldMax: 8_192,
  heldBytesMax: 64 * 1024 * 1024,
  sendingMax: 1_024,
  slowAfterMs: 1_000,
};

/**
 * How the receiver of a lane has responded. `quick`: within a second; sources and workflows are always quick. `unproven`: there is no
 * response yet. `slow`: responses take longer, or one does right now. `troubled`: the last attempt failed, or the first one takes long.
 */
type LaneKind = 'quick' | 'unproven' | 'slow' | 'troubled';

/**
 * Limits of one listener. `held`: enough to keep its connections busy while the next deliveries are read from the store. `sending`: a
 * quick listener that responds after 100 ms gets 320 a second. A receiver that hangs gets few, and the others wait in the store.
 */
const boundsOfKind: Record<LaneKind, { held: number; sending: number }> = {
  quick: { held: 256, sending: 32 },
  unproven: { held: 8, sending: 4 },
  slow: { held: 16, sending: 8 },
  troubled: { held: 8, sending: 2 },
};
/** A source runs one event after another, in the order in which they were emitted. */
const sendingPerSourceMax = 1;
/** Maximum part of the free room for one listener, so that a few with a backlog cannot use all of it. */
const listenerShare = 1 / 16;
/** Maximum part of the free memory and requests for all listeners of an owner. */
const ownerShare = 1 / 2;
/** Maximum part of memory and requests for all listeners that are not quick. Their owners share it. */
const slowShare = 1 / 2;
/** A quick listener always has room for this many, however much other listeners of its owner use. */
const alwaysFor = { held: 4, sending: 2 };
/**
 * A listener that does not fail always has room for one delivery, up to this part of all room. So a thousand receivers that hang neither
 * stop a slow one, nor keep an unproven one from becoming quick after a start.
 */
const oneForEachShare = 3 / 4;
/** An empty lane is dropped after this long. */
const idleMs = 60_000;

/** The deliveries of one listener that are in memory. */
export interface DeliveryLane {
  readonly listenerId: string;
  readonly ownerId: string;
  queue: HeldDelivery[];
  /** The deliveries in `queue` and being sent, and the bytes that they count for. */
  held: number;
  bytes: number;
  /** The deliveries being sent with their start (performance.now), oldest first. */
  readonly underWay: Map<HeldDelivery, number>;
  kind: LaneKind;
  /** Older deliveries wait in the store, so new ones are stored too, and are read in their order. */
  isBehind: boolean;
  /** How often a delivery was left in the store for it. */
  left: number;
  /** Older ones are being read from the store. */
  isRefilling: boolean;
  /** Nothing is sent before this time: a webhook's `Retry-After`, or a source that could not take the first of its deliveries; epoch ms. */
  pausedUntilMs: number;
  usedAtMs: number;
}

/** What several owners have in memory, or under way. */
class Load {
  readonly #byOwner = new Map<string, number>();
  total = 0;

  of(ownerId: string): number {
    return this.#byOwner.get(ownerId) ?? 0;
  }

  add(ownerId: string, amount: number): void {
    this.total += amount;
    const ofOwner = this.of(ownerId) + amount;
    if (ofOwner === 0) this.#byOwner.delete(ownerId);
    else this.#byOwner.set(ownerId, ofOwner);
  }
}

/**
 * The limits of what one node has in memory and under way. Listeners and owners have shares, so that slow or hanging receivers
 * never hold up others, not even those of the same owner.
 */
export class DeliveryLanes {
  readonly #lanes = new Map<string, DeliveryLane>();
  readonly #bounds: Readonly<LaneBounds>;
  /** A delivery counts for this in addition to the bytes of its event, so that one measure limits count and size. */
  readonly besidesBytes: number;
  readonly #bytes = { quick: new Load(), slow: new Load() };
  readonly #sending = { quick: new Load(), slow: new Load() };
  #held = 0;

  constructor(bounds: Readonly<LaneBounds> = laneBounds) {
    this.#bounds = bounds;
    this.besidesBytes = bounds.heldBytesMax / bounds.heldMax;
  }

  get held(): number {
    return this.#held;
  }

  get sending(): number {
    return this.#sending.quick.total + this.#sending.slow.total;
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
      bytes: 0,
      underWay: new Map(),
      kind: firstKind(listenerId),
      isBehind: false,
      left: 0,
      isRefilling: false,
      pausedUntilMs: 0,
      usedAtMs: nowMs,
    };
    this.#lanes.set(listenerId, lane);
    return lane;
  }

  /** All lanes, for callers that look for one that can send. */
  [Symbol.iterator](): IterableIterator<DeliveryLane> {
    return this.#lanes.values();
  }

  /** How many more deliveries of a listener may come into memory, as far as its owner has room. */
  room(listenerId: string): number {
    const lane = this.#lanes.get(listenerId);
    return this.#share(lane?.kind ?? firstKind(listenerId)) - (lane?.held ?? 0);
  }

  /** True when one more delivery may come into memory, in addition to those that were `given` a place already. */
  hasRoomFor(
    { listenerId, ownerId }: Pick<DeliveryLane, 'listenerId' | 'ownerId'>,
    given = { ofListener: 0, ofOwner: 0, all: 0 },
  ): boolean {
    const lane = this.#lanes.get(listenerId);
    const all = this.#bytes.quick.total + this.#bytes.slow.total + given.all;
    const free = this.#bounds.heldBytesMax - all;
    if (free <= 0) return false;
    const { quick, slow } = this.#bytes;
    const kind = lane?.kind ?? firstKind(listenerId);
    const isQuick = kind === 'quick';
    const ownHeld = (lane?.held ?? 0) + given.ofListener;
    if (isQuick && ownHeld < alwaysFor.held) return true;
    if (kind !== 'troubled' && ownHeld === 0)
      return slow.total + given.all < this.#bounds.heldBytesMax * oneForEachShare;
    const ofOwner = (isQuick ? quick : slow).of(ownerId) + given.ofOwner;
    const left = isQuick ? free : this.#bounds.heldBytesMax * slowShare - slow.total - given.all;
    return left > 0 && (ofOwner === 0 || ofOwner < left * ownerShare);
  }

  /** Gives places to several deliveries before they are in memory. */
  places(): DeliveryPlaces {
    return new DeliveryPlaces(this);
  }

  /** The limit of one listener in memory. */
  #share(kind: LaneKind): number {
    const free = this.#bounds.heldMax - this.#held;
    if (free <= 0) return 0;
    return Math.min(boundsOfKind[kind].held, Math.max(1, Math.floor(free * listenerShare)));
  }

  /** True when there is room for a delivery of any listener. */
  hasRoom(): boolean {
    return this.#bytes.quick.total + this.#bytes.slow.total < this.#bounds.heldBytesMax;
  }

  take(lane: DeliveryLane, delivery: HeldDelivery): void {
    lane.queue.push(delivery);
    this.#count(lane, 1, this.#bytesOf(delivery));
  }

  /** Puts a delivery that was taken out, and not sent, before the others of its lane. */
  putBack(lane: DeliveryLane, delivery: HeldDelivery): void {
    lane.queue.unshift(delivery);
    this.#count(lane, 1, this.#bytesOf(delivery));
  }

  /** The next delivery that may be sent now; it counts as being sent until `sent`. */
  next(lane: DeliveryLane, nowMs: number): HeldDelivery | undefined {
    if (lane.queue.length === 0 || !this.#maySend(lane)) return undefined;
    const delivery = lane.queue.shift();
    if (delivery === undefined) return undefined;
    lane.underWay.set(delivery, performance.now());
    lane.usedAtMs = nowMs;
    this.#sending[loadOf(lane.kind)].add(lane.ownerId, 1);
    return delivery;
  }

  #maySend({ listenerId, ownerId, kind, underWay }: DeliveryLane): boolean {
    const isWebhook = listenerId.startsWith('wh_');
    if (underWay.size >= (isWebhook ? boundsOfKind[kind].sending : sendingPerSourceMax)) return false;
    const free = this.#bounds.sendingMax - this.sending;
    if (free <= 0) return false;
    if (kind === 'quick' && underWay.size < alwaysFor.sending) return true;
    const load = this.#sending[loadOf(kind)];
    if (kind !== 'troubled' && underWay.size === 0)
      return load.total < this.#bounds.sendingMax * oneForEachShare;
    const ofOwner = load.of(ownerId);
    const left = kind === 'quick' ? free : this.#bounds.sendingMax * slowShare - load.total;
    return left > 0 && (ofOwner === 0 || ofOwner < left * ownerShare);
  }

  /** Records the result of an attempt. Undefined: there was none. */
  sent(lane: DeliveryLane, delivery: HeldDelivery, shown?: 'delivered' | 'failed'): void {
    const startedMs = lane.underWay.get(delivery);
    lane.underWay.delete(delivery);
    this.#sending[loadOf(lane.kind)].add(lane.ownerId, -1);
    this.#count(lane, -1, -this.#bytesOf(delivery));
    if (shown === undefined || firstKind(lane.listenerId) === 'quick') return;
    const tookMs = performance.now() - (startedMs ?? 0);
    if (shown === 'failed') this.#become(lane, 'troubled');
    else this.#become(lane, tookMs > this.#bounds.slowAfterMs ? 'slow' : 'quick');
  }

  /** Notes a response that takes too long. True when this changes the pace of its lane. */
  noteOverdue(lane: DeliveryLane): boolean {
    if (lane.kind === 'slow' || lane.kind === 'troubled' || firstKind(lane.listenerId) === 'quick')
      return false;
    const [startedMs] = lane.underWay.values();
    if (startedMs === undefined || performance.now() - startedMs <= this.#bounds.slowAfterMs) return false;
    this.#become(lane, lane.kind === 'quick' ? 'slow' : 'troubled');
    return true;
  }

  /** Removes from memory what a lane has beyond its share, newest first. */
  takeExcess(lane: DeliveryLane): HeldDelivery[] {
    const excess = Math.min(lane.held - boundsOfKind[lane.kind].held, lane.queue.length);
    return excess > 0 ? this.#remove(lane, lane.queue.splice(-excess)) : [];
  }

  /** Removes the queued deliveries of a lane from memory; with `ids`, only these. */
  empty(lane: DeliveryLane, ids?: ReadonlySet<string>): HeldDelivery[] {
    if (ids === undefined) return this.#remove(lane, lane.queue.splice(0));
    const gone = lane.queue.filter(({ id }) => ids.has(id));
    if (gone.length > 0) lane.queue = lane.queue.filter(({ id }) => !ids.has(id));
    return this.#remove(lane, gone);
  }

  #remove(lane: DeliveryLane, deliveries: HeldDelivery[]): HeldDelivery[] {
    for (const delivery of deliveries) this.#count(lane, -1, -this.#bytesOf(delivery));
    return deliveries;
  }

  /** True when a delivery of the lane will end. The lane is then refilled. */
  isBusy(lane: DeliveryLane): boolean {
    return lane.held > 0 || lane.isRefilling;
  }

  /** Notes that a delivery waits in the store, which a query that has begun may have missed. */
  fallBehind(lane: DeliveryLane): void {
    lane.isBehind = true;
    lane.left += 1;
  }

  /** True when the lane is to be refilled: less than half of its limit is left, and there is room. */
  hasDrained(lane: DeliveryLane): boolean {
    if (!lane.isBehind || lane.isRefilling || lane.held > this.#share(lane.kind) / 2) return false;
    return this.room(lane.listenerId) > 0 && this.hasRoomFor(lane);
  }

  forgetIdle(nowMs: number): void {
    for (const [id, lane] of this.#lanes) {
      const isIdle = lane.held === 0 && !lane.isBehind && !lane.isRefilling && lane.pausedUntilMs <= nowMs;
      if (isIdle && lane.usedAtMs < nowMs - idleMs) this.#lanes.delete(id);
    }
  }

  #become(lane: DeliveryLane, kind: LaneKind): void {
    const [from, to] = [loadOf(lane.kind), loadOf(kind)];
    lane.kind = kind;
    if (from === to) return;
    const sending = lane.underWay.size;
    this.#sending[from].add(lane.ownerId, -sending);
    this.#sending[to].add(lane.ownerId, sending);
    this.#bytes[from].add(lane.ownerId, -lane.bytes);
    this.#bytes[to].add(lane.ownerId, lane.bytes);
  }

  #bytesOf(delivery: HeldDelivery): number {
    return delivery.body.length + this.besidesBytes;
  }

  #count(lane: DeliveryLane, deliveries: number, bytes: number): void {
    lane.held += deliveries;
    lane.bytes += bytes;
    this.#held += deliveries;
    this.#bytes[loadOf(lane.kind)].add(lane.ownerId, bytes);
  }
}

function firstKind(listenerId: string): LaneKind {
  return listenerId.startsWith('wh_') ? 'unproven' : 'quick';
}

function loadOf(kind: LaneKind): 'quick' | 'slow' {
  return kind === 'quick' ? 'quick' : 'slow';
}

/** Places in memory of deliveries that are not in memory yet. */
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
    if (!this.#lanes.hasRoomFor({ listenerId, ownerId }, { ofListener, ofOwner, all: this.#all }))
      return false;
    const bytes = eventBytes + this.#lanes.besidesBytes;
    this.#given.set(listenerId, ofListener + 1);
    this.#given.set(ownerId, ofOwner + bytes);
    this.#all += bytes;
    return true;
  }
}
