import type { Tx } from '#storage/store.ts';
import { channels } from './event.ts';
import { channelsInUse, countChannels, countScheduled, scheduledMax } from './event-store.ts';

/** Channels of one emitter that may hold events at once, apart from ours: each keeps its last hundred. */
export const channelsMax = 1_000;

/** What decides over the room that an event needs. */
interface Placed {
  channel: string;
  deliverAtMs?: number;
  waited?: boolean;
}

const ours: ReadonlySet<string> = new Set(Object.values(channels));

/** What the owner of an emitter may still emit on this day. */
export interface DayRoom {
  left(): number;
  took(events: number): void;
}

/** What room an emitter has for events on channels it has not used yet, and for events that wait in `$in`. */
export class EmitRoom {
  readonly #nowMs: number;
  readonly #used: Set<string>;
  readonly #day: DayRoom;
  #channelsLeft: number;
  #waitingLeft: number;

  constructor(options: {
    nowMs: number;
    used: Iterable<string>;
    channelsLeft: number;
    waitingLeft: number;
    day: DayRoom;
  }) {
    this.#nowMs = options.nowMs;
    this.#used = new Set(options.used);
    this.#channelsLeft = options.channelsLeft;
    this.#waitingLeft = options.waitingLeft;
    this.#day = options.day;
  }

  /** The events, of these in their order, that there is no room for. */
  beyond<E extends Placed>(events: readonly E[]): { waiting: E[]; onNewChannels: E[]; overDay: E[] } {
    const opened = new Set<string>();
    let waits = 0;
    const waiting: E[] = [];
    const onNewChannels: E[] = [];
    const overDay: E[] = [];
    let dayLeft = this.#day.left();
    for (const event of events) {
      if (event.waited !== true) {
        if (dayLeft <= 0) {
          overDay.push(event);
          continue;
        }
        dayLeft -= 1;
      }
      if (isAhead(event, this.#nowMs)) {
        if (waits < this.#waitingLeft) waits += 1;
        else waiting.push(event);
      } else if (this.#isNew(event) && event.waited !== true && !opened.has(event.channel)) {
        if (opened.size < this.#channelsLeft) opened.add(event.channel);
        else onNewChannels.push(event);
      }
    }
    return { waiting, onNewChannels, overDay };
  }

  #isNew({ channel }: Placed): boolean {
    return !ours.has(channel) && !this.#used.has(channel);
  }

  /** These events are stored. */
  take(events: readonly Placed[]): void {
    const counted = events.filter(({ waited }) => waited !== true).length;
    if (counted > 0) this.#day.took(counted);
    for (const event of events) {
      if (isAhead(event, this.#nowMs)) this.#waitingLeft -= 1;
      else if (this.#isNew(event)) {
        this.#used.add(event.channel);
        this.#channelsLeft -= 1;
      }
    }
  }
}

/** True while the event waits in `$in` before it comes to its channel. */
export function isAhead(event: Placed, nowMs: number): boolean {
  return event.deliverAtMs !== undefined && event.deliverAtMs > nowMs;
}

/**
 * The room of emitters for what they are about to emit. Asks the store only for those that emit on channels of their
 * own or for later, and counts channels only where one is new: most emissions cost nothing.
 */
export async function roomOfEmitters(
  tx: Tx,
  emissions: readonly { emitterId: string; events: readonly Placed[] }[],
  dayRoomOf: (emitterId: string) => DayRoom,
  nowMs: number,
): Promise<ReadonlyMap<string, EmitRoom>> {
  const wanted = new Map<string, Set<string>>();
  const waiting = new Set<string>();
  for (const { emitterId, events } of emissions) {
    const names = wanted.get(emitterId) ?? new Set();
    wanted.set(emitterId, names);
    for (const event of events) {
      if (isAhead(event, nowMs)) waiting.add(emitterId);
      else if (!ours.has(event.channel)) names.add(event.channel);
    }
  }
  const pairs = [...wanted].flatMap(([emitterId, names]) =>
    [...names].map((channel) => ({ emitterId, channel })),
  );
  const used = Map.groupBy(await channelsInUse(tx, pairs), ({ emitterId }) => emitterId);
  const rooms = new Map<string, EmitRoom>();
  for (const [emitterId, names] of wanted) {
    const known = (used.get(emitterId) ?? []).map(({ channel }) => channel);
    const hasNew = known.length < names.size;
    const room = new EmitRoom({
      nowMs,
      used: known,
      day: dayRoomOf(emitterId),
      channelsLeft: hasNew ? channelsMax - (await countChannels(tx, emitterId, [...ours])) : 0,
      waitingLeft: waiting.has(emitterId) ? scheduledMax - (await countScheduled(tx, emitterId)) : 0,
    });
    rooms.set(emitterId, room);
  }
  return rooms;
}
