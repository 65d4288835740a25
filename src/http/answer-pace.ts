/** Answers a second, and answers at once, of one caller. */
const perSecond = 1_000;
const atOnce = 250;
/** So many bytes count as an answer more: 16 MB a second of one caller. */
const bytesPerAnswer = 16 * 1024;
/** Callers that are remembered; those that owe nothing are forgotten beyond it. */
const callersMax = 1_000;

/**
 * When answers are sent that cost their caller nothing: refusals, and pages that need no key. Sixty connections that ask for paths that do not
 * exist, each again as soon as it was answered, took all of the time of the loop that answers everyone. A connection
 * has one request at a time, so what its answer waits for bounds what it asks.
 */
export class AnswerPace {
  /** When each caller has had all its answers. */
  readonly #paidMs = new Map<string, number>();
  readonly #nowMs: () => number;

  constructor({ nowMs = () => performance.now() }: { nowMs?: () => number } = {}) {
    this.#nowMs = nowMs;
  }

  /** Counts an answer of so many bytes. Returns the milliseconds that it has to wait. */
  delayMs(caller: string, bytes = 0): number {
    const nowMs = this.#nowMs();
    const answers = 1 + bytes / bytesPerAnswer;
    const paidMs = Math.max(nowMs, this.#paidMs.get(caller) ?? 0) + (answers * 1_000) / perSecond;
    if (this.#paidMs.size >= callersMax) this.#forget(nowMs);
    this.#paidMs.set(caller, paidMs);
    return Math.max(0, paidMs - nowMs - (atOnce * 1_000) / perSecond);
  }

  #forget(nowMs: number): void {
    for (const [caller, paidMs] of this.#paidMs) if (paidMs <= nowMs) this.#paidMs.delete(caller);
    // All of them owe: this is no one's fault alone, and what is not bounded would fill the memory.
    if (this.#paidMs.size >= callersMax) this.#paidMs.clear();
  }
}
