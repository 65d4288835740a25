/**
 * Requests to receivers that are not quick, started in one turn of the event loop. A start takes up to half a millisecond, and an
 * event may have a thousand such receivers; what a quick one gets is sent between them.
 */
const startsPerTurn = 16;

/** Lets few requests begin in a turn of the event loop; the others begin in the next turns, in the order of their lanes. */
export class PacedStarts<Lane> {
  readonly #send: (lane: Lane) => void;
  readonly #waiting = new Set<Lane>();
  #left = startsPerTurn;
  #nextTurn: NodeJS.Immediate | undefined;

  /** `send` continues a lane that waited for its turn. */
  constructor(send: (lane: Lane) => void) {
    this.#send = send;
  }

  get hasRoom(): boolean {
    return this.#left > 0;
  }

  has(lane: Lane): boolean {
    return this.#waiting.has(lane);
  }

  wait(lane: Lane): void {
    this.#waiting.add(lane);
  }

  count(): void {
    this.#left -= 1;
    this.#nextTurn ??= setImmediate(() => this.#beginTurn());
  }

  #beginTurn(): void {
    this.#nextTurn = undefined;
    this.#left = startsPerTurn;
    for (const lane of this.#waiting) {
      if (this.#left === 0) break;
      this.#waiting.delete(lane);
      this.#send(lane);
    }
  }
}
