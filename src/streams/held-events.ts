import type { StoredEvent } from '#events/event.ts';

const eventsMax = 10_000;
const bytesMax = 8 * 1024 * 1024;

/** Events that wait for others of their emitter: few, because the store has them too. */
export class HeldEvents {
  readonly #byEmitter = new Map<string, StoredEvent[]>();
  #events = 0;
  #bytes = 0;

  get emitterIds(): string[] {
    return [...this.#byEmitter.keys()];
  }

  get isFull(): boolean {
    return this.#events > eventsMax || this.#bytes > bytesMax;
  }

  add(event: StoredEvent): void {
    const held = this.#byEmitter.get(event.emitter_id);
    if (held === undefined) this.#byEmitter.set(event.emitter_id, [event]);
    else held.push(event);
    this.#events += 1;
    this.#bytes += event.event.length;
  }

  /** Those of one emitter, in the order of their arrival, which are held no more. */
  take(emitterId: string): StoredEvent[] {
    const held = this.#byEmitter.get(emitterId) ?? [];
    this.#byEmitter.delete(emitterId);
    this.#events -= held.length;
    this.#bytes -= held.reduce((sum, { event }) => sum + event.length, 0);
    return held;
  }
}
