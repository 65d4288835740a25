import type { HeldDelivery } from '#delivery/delivery.ts';

/** What one node has in memory and under way at most; the rest waits in the store. */
export interface LaneBounds {
  /** Deliveries, sent or waiting for their turn. */
  heldMax: number;
  /** Bytes of their events. */
  heldBytesMax: number;
  /** Requests under way. */
  sendingMax: number;
  /** A receiver whose answers take longer is slow, milliseconds. */
  slowAfterMs: number;
}

export const laneBounds: Readonly<LaneBounds> = {
  heldMax: 8_192,
  heldBytesMax: 64 * 1024 * 1024,
  sendingMax: 1_024,
  slowAfterMs: 1_000,
};

/**
 * What the receivers of a lane have shown. `quick`: answers come within a second; also sources and workflows, which take what they get.
 * `unproven`: no answer yet. `slow`: answers take longer, or one does right now. `troubled`: the last attempt failed, or the first one
 * takes long.
 */
type LaneKind = 'quick' | 'unproven' | 'slow' | 'troubled';

/**
 * Of one listener. `held`: enough to keep its connections busy while the next ones are read from the store. `sending`: to a quick one
 * that takes 100 ms for an answer go 320 a second. A receiver that hangs gets few: what is more waits in the store.
 */
const boundsOfKind: Record<LaneKind, { held: number; sending: number }> = {
  quick: { held: 256, sending: 32 },
  unproven: { held: 8, sending: 4 },
  slow: { held: 16, sending: 8 },
  troubled: { held: 8, sending: 2 },
};
/** To a source, which runs one event after another: in the order in which they were emitted. */
const sendingPerSourceMax = 1;
/** A listener gets at most this part of the room that is left, so that a few with a backlog cannot take it all. */
const listenerShare = 1 / 16;
/** An owner's listeners together get at most this part of the memory and of the requests that are left. */
const ownerShare = 1 / 2;
/** All that are not quick together get at most this part of the memory and of the requests, and their owners shares of that. */
const slowShare = 1 / 2;
/** A quick listener always has room for so many, whatever the others of its owner have. */
const alwaysFor = { held: 4, sending: 2 };
/**
 * One that does not fail always has room for one, up to this part of all: a thousand that hang neither stop one that is slow, nor keep
 * anybody from showing that it is quick after a start.
 */
const oneForEachShare = 3 / 4;
/** A lane with nothing in it is forgotten after this long. */
const idleMs = 60_000;

/** What is in memory of one listener's deliveries. */
export interface DeliveryLane {
  readonly listenerId: string;
  readonly ownerId: string;
  queue: HeldDelivery[];
  /** In `queue` and being sent, and the bytes that they count for. */
  held: number;
  bytes: number;
  /** Being sent, and since when (performance.now), the longest first. */
  readonly underWay: Map<HeldDelivery, number>;
  kind: LaneKind;
  /** Older deliveries wait in the store: new ones go there too, and come in their turn. */
  isBehind: boolean;
  /** How often something was left in the store for it. */
  left: number;
  /** Older ones are being read from the store. */
  isRefilling: boolean;
  /** By its own word (`Retry-After`) nothing is sent before this, epoch ms. */
  pausedUntilMs: number;
  usedAtMs: number;
}

/** What is in memory, or under way, of several owners. */
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
 * The bounds of what one node has in memory and under way: shares for listeners and owners, so that slow or hanging
 * receivers never hold up the others, those of the same owner neither.
 */
export class DeliveryLanes {
  readonly #lanes = new Map<string, DeliveryLane>();
  readonly #bounds: Readonly<LaneBounds>;
  /** What a delivery counts for besides the bytes of its event: so that one measure has both bounds. */
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

  /** All of them, for those who look for what can go on. */
  [Symbol.iterator](): IterableIterator<DeliveryLane> {
    return this.#lanes.values();
  }

  /** How many more deliveries of a listener may come into memory, as far as its owner has room. */
  room(listenerId: string): number {
    const lane = this.#lanes.get(listenerId);
    return this.#share(lane?.kind ?? firstKind(listenerId)) - (lane?.held ?? 0);
  }

  /** Whether one more delivery may come into memory, besides those that were `given` a place already. */
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

  /** For giving places to several deliveries before they come. */
  places(): DeliveryPlaces {
    return new DeliveryPlaces(this);
  }

  /** What one listener may have in memory. */
  #share(kind: LaneKind): number {
    const free = this.#bounds.heldMax - this.#held;
    if (free <= 0) return 0;
    return Math.min(boundsOfKind[kind].held, Math.max(1, Math.floor(free * listenerShare)));
  }

  /** Whether there is room for any listener's. */
  hasRoom(): boolean {
    return this.#bytes.quick.total + this.#bytes.slow.total < this.#bounds.heldBytesMax;
  }

  take(lane: DeliveryLane, delivery: HeldDelivery): void {
    lane.queue.push(delivery);
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

  /** What an attempt has shown; nothing where none was made. */
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

  /** Whether an answer takes so long that its lane is not what it was thought to be. */
  noteOverdue(lane: DeliveryLane): boolean {
    if (lane.kind === 'slow' || lane.kind === 'troubled' || firstKind(lane.listenerId) === 'quick')
      return false;
    const [startedMs] = lane.underWay.values();
    if (startedMs === undefined || performance.now() - startedMs <= this.#bounds.slowAfterMs) return false;
    this.#become(lane, lane.kind === 'quick' ? 'slow' : 'troubled');
    return true;
  }

  /** Takes what a lane has beyond its share, the newest, out of memory again. */
  takeExcess(lane: DeliveryLane): HeldDelivery[] {
    const excess = Math.min(lane.held - boundsOfKind[lane.kind].held, lane.queue.length);
    return excess > 0 ? this.#remove(lane, lane.queue.splice(-excess)) : [];
  }

  /** Takes what waits in a lane out of memory again; `ids`: only these. */
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
    if (!this.#lanes.hasRoomFor({ listenerId, ownerId }, { ofListener, ofOwner, all: this.#all }))
      return false;
    const bytes = eventBytes + this.#lanes.besidesBytes;
    this.#given.set(listenerId, ofListener + 1);
    this.#given.set(ownerId, ofOwner + bytes);
    this.#all += bytes;
    return true;
  }
}
