import { compareEventIds, type EventId } from '#events/event-id.ts';
import { CallerError } from '#lib/errors.ts';

/** Emitters that a mark names; some 30 characters each, in a header that may have 16 KB with all others. */
const namedMax = 50;
/**
 * Of emitters beyond those, what was stored in the last minute may be sent again. As long as a commit may take to be
 * seen by every node, and their clocks may differ.
 */
const overlapMs = 60_000;

/** Ids of events end at 15 digits. */
const afterAll = 10 ** 15;

/**
 * What a reader of many emitters has been sent: up to which event of each, as far as they are named, and of all others
 * what has an id of up to `floorMs`.
 */
export class StreamMark {
  readonly floorMs: number;
  readonly #places: Map<string, EventId>;

  constructor(floorMs: number, places: Iterable<[string, EventId]> = []) {
    this.floorMs = floorMs;
    this.#places = new Map(places);
  }

  /** What is newer than this was not sent. */
  after(emitterId: string): EventId {
    return this.#places.get(emitterId) ?? { ms: this.floorMs, seq: afterAll };
  }

  /** Undefined for an emitter that has no place of its own here. */
  lastSent(emitterId: string): EventId | undefined {
    return this.#places.get(emitterId);
  }

  set(emitterId: string, sent: EventId): void {
    this.#places.set(emitterId, sent);
  }

  /** An opaque id of characters that a header may have. */
  toString(): string {
    const places = [...this.#places].map(
      ([id, { ms, seq }]) => `${id}:${ms.toString(36)}:${seq.toString(36)}`,
    );
    return [`w${this.floorMs.toString(36)}`, ...places].join(',');
  }

  /** Throws `invalid_event_id`, naming the parameter, for what `toString` did not make. */
  static parse(text: string, parameter: string): StreamMark {
    const [floor = '', ...places] = text.split(',');
    const floorMs = /^w([0-9a-z]{1,10})$/.exec(floor)?.[1];
    const parsed = places.map((place) => /^(\w{1,50}):([0-9a-z]{1,10}):([0-9a-z]{1,10})$/.exec(place));
    if (floorMs === undefined || parsed.length > namedMax || parsed.includes(null)) {
      throw new CallerError('invalid_event_id', `${parameter}: expected an id that this stream sent`, {
        parameter,
      });
    }
    return new StreamMark(
      Number.parseInt(floorMs, 36),
      parsed.map((match): [string, EventId] => [
        match?.[1] ?? '',
        { ms: Number.parseInt(match?.[2] ?? '', 36), seq: Number.parseInt(match?.[3] ?? '', 36) },
      ]),
    );
  }
}

/**
 * What all readers of a feed have been sent, short enough for a mark: the emitters that were the last to
 * emit are named. Exact while no more than `namedMax` ever emitted; then the idle ones share a floor.
 */
export class RecentPlaces {
  /** In the order of their last event here, the oldest first. */
  readonly #recent = new Map<string, EventId>();
  #floorMs = 0;

  /** Once, before any `set`. */
  load(emitters: readonly (EventId & { id: string })[]): void {
    const oldestFirst = emitters.filter(({ ms }) => ms > 0).sort(compareEventIds);
    for (const { id, ms, seq } of oldestFirst) this.set(id, { ms, seq });
  }

  set(emitterId: string, sent: EventId): void {
    this.#recent.delete(emitterId);
    this.#recent.set(emitterId, sent);
    if (this.#recent.size <= namedMax) return;
    for (const [oldest, { ms }] of this.#recent) {
      this.#recent.delete(oldest);
      this.#floorMs = Math.max(this.#floorMs, ms);
      break;
    }
  }

  delete(emitterId: string): void {
    this.#recent.delete(emitterId);
  }

  mark(nowMs: number): StreamMark {
    return new StreamMark(Math.max(0, Math.min(this.#floorMs, nowMs - overlapMs)), this.#recent);
  }
}
