/** Longest delay of a timer of Node.js. */
const timerMsMax = 2 ** 31 - 1;

/**
 * The time limit of a block while this node runs the steps in it. When it is over, its signal ends these steps; their strands
 * find out here which block it is. A block in this one is ended with it.
 */
export class BlockDeadline {
  /** That of a block around it. */
  readonly outer: BlockDeadline | undefined;
  /** Epoch ms. */
  readonly untilMs: number;
  /** Ends what runs in the block: its own time is over, that of a block around it, or the run stops here. */
  readonly signal: AbortSignal;
  readonly #now: () => number;
  readonly #abort = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: {
    outer: BlockDeadline | undefined;
    untilMs: number;
    now: () => number;
    /** The run stops here. */
    signal: AbortSignal;
  }) {
    this.outer = options.outer;
    this.untilMs = options.untilMs;
    this.#now = options.now;
    this.signal = AbortSignal.any([this.#abort.signal, options.outer?.signal ?? options.signal]);
    this.#arm();
  }

  /** The outermost block around a step whose time is over; undefined: none. */
  get expired(): BlockDeadline | undefined {
    return this.outer?.expired ?? (this.#isOver ? this : undefined);
  }

  /** When the first of the blocks around a step ends, epoch ms. */
  get firstMs(): number {
    return Math.min(this.untilMs, this.outer?.firstMs ?? Number.POSITIVE_INFINITY);
  }

  /** The block has ended. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  get #isOver(): boolean {
    return this.#abort.signal.aborted || this.#now() >= this.untilMs;
  }

  #arm(): void {
    const restMs = Math.max(this.untilMs - this.#now(), 0);
    this.#timer =
      restMs > timerMsMax
        ? setTimeout(() => this.#arm(), timerMsMax)
        : setTimeout(() => this.#abort.abort(), restMs);
    this.#timer.unref();
  }
}
