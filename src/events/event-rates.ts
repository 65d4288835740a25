import type { Clock } from '#lib/clock.ts';
import { channels, type StoredEvent } from './event.ts';

/** Minutes that are remembered. */
const minutesKept = 60;
/** Owners that are counted: of those beyond, the one that was quiet for longest is forgotten. */
const ownersMax = 10_000;
/** Emitters with errors that are remembered for an owner; as above. */
const failingMax = 50;
const minuteMs = 60_000;

export interface MinuteOfEvents {
  /** Epoch ms, the beginning of the minute. */
  atMs: number;
  /** Emitted on channels for data: all but $errors, $logs and $in. */
  events: number;
  errors: number;
}

export interface FailingEmitter {
  emitterId: string;
  /** Since it was last forgotten or the process began. */
  errors: number;
  lastAtMs: number;
}

interface OwnerRates {
  minutes: Map<number, { events: number; errors: number }>;
  failing: Map<string, { errors: number; lastAtMs: number }>;
}

/**
 * How many events of each owner this process stored, by minute, and which emitters failed. In memory, for users who look
 * at it now. A restart starts over, and each of several nodes knows only what it stored itself.
 */
export class EventRates {
  readonly sinceMs: number;
  readonly #clock: Clock;
  readonly #owners = new Map<string, OwnerRates>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.sinceMs = clock.now();
  }

  /** For `EventBus.observe`. */
  count(events: readonly StoredEvent[]): void {
    const nowMs = this.#clock.now();
    const minute = Math.floor(nowMs / minuteMs);
    for (const { owner_id, emitter_id, channel } of events) {
      if (channel === channels.logs || channel === channels.scheduled) continue;
      const owner = this.#touched(owner_id);
      const counts = minuteOf(owner, minute);
      if (channel !== channels.errors) {
        counts.events += 1;
        continue;
      }
      counts.errors += 1;
      const errors = (owner.failing.get(emitter_id)?.errors ?? 0) + 1;
      owner.failing.delete(emitter_id);
      owner.failing.set(emitter_id, { errors, lastAtMs: nowMs });
      dropOldest(owner.failing, failingMax);
    }
  }

  /** The last hour, oldest first, the minute that runs included; a minute without events is there with zeros. */
  minutes(ownerId: string): MinuteOfEvents[] {
    const owner = this.#owners.get(ownerId);
    const last = Math.floor(this.#clock.now() / minuteMs);
    return Array.from({ length: minutesKept }, (_, index) => {
      const minute = last - minutesKept + 1 + index;
      const { events = 0, errors = 0 } = owner?.minutes.get(minute) ?? {};
      return { atMs: minute * minuteMs, events, errors };
    });
  }

  /** Emitters that failed within the last hour, the latest first. */
  failing(ownerId: string): FailingEmitter[] {
    const fromMs = this.#clock.now() - minutesKept * minuteMs;
    return [...(this.#owners.get(ownerId)?.failing ?? [])]
      .map(([emitterId, { errors, lastAtMs }]) => ({ emitterId, errors, lastAtMs }))
      .filter(({ lastAtMs }) => lastAtMs >= fromMs)
      .reverse();
  }

  #touched(ownerId: string): OwnerRates {
    const owner = this.#owners.get(ownerId) ?? { minutes: new Map(), failing: new Map() };
    this.#owners.delete(ownerId);
    this.#owners.set(ownerId, owner);
    dropOldest(this.#owners, ownersMax);
    return owner;
  }
}

function minuteOf({ minutes }: OwnerRates, minute: number): { events: number; errors: number } {
  const known = minutes.get(minute);
  if (known !== undefined) return known;
  const counts = { events: 0, errors: 0 };
  minutes.set(minute, counts);
  for (const old of minutes.keys()) if (old <= minute - minutesKept) minutes.delete(old);
  return counts;
}

/** A map whose entries are inserted again when they change has the oldest first. */
function dropOldest(map: Map<string, unknown>, max: number): void {
  for (const key of map.keys()) {
    if (map.size <= max) return;
    map.delete(key);
  }
}
