import type { FastifyRequest } from 'fastify';

/** Bodies from this size on take turns: reading the JSON of one keeps everything else waiting. */
const largeBytes = 64 * 1024;
/** Read at once, before a caller's further ones have to wait. */
const burstBytes = 2 * 1024 * 1024;
/** So many bytes of large bodies of one caller are read in a second: 0.5 MB takes 5 ms, so one caller has a tenth of the time. */
const bytesPerSecond = 10 * 1024 * 1024;
/** Callers that are remembered before those with nothing to wait for are forgotten. */
const callersMax = 1_000;

/**
 * When the large bodies of a caller are read. A hundred clients that send half a megabyte each as often as they are refused would otherwise have
 * half of the time of the loop that answers all others. What waits is not read, so it takes no memory.
 */
export class BodyTurns {
  readonly #nowMs: () => number;
  /** The bytes of a caller as if they were read one after the other: when the last of them would have been read. */
  readonly #readByMs = new Map<string, number>();

  /** `nowMs` is a clock that never steps. */
  constructor(nowMs = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Counts a body, and answers for how long it has to wait, in milliseconds. A body whose size is not known yet counts as 0 bytes, and is counted by `count` when it is. */
  take(caller: string, bytes: number): number {
    const waitMs = (this.#readByMs.get(caller) ?? 0) - this.#nowMs() - (burstBytes / bytesPerSecond) * 1000;
    this.count(caller, bytes);
    return Math.max(0, waitMs);
  }

  /** Counts bytes that were read without a wait. */
  count(caller: string, bytes: number): void {
    const nowMs = this.#nowMs();
    const readByMs = Math.max(nowMs, this.#readByMs.get(caller) ?? 0) + (bytes / bytesPerSecond) * 1000;
    this.#readByMs.set(caller, readByMs);
    if (this.#readByMs.size <= callersMax) return;
    for (const [one, doneMs] of this.#readByMs) if (doneMs <= nowMs) this.#readByMs.delete(one);
  }
}

/** The bytes of the body of a request if it is a large one; 0: they are not known; undefined: it is none. */
export function largeBodyBytes({ headers }: Pick<FastifyRequest, 'headers'>): number | undefined {
  if (headers['transfer-encoding'] !== undefined) return 0;
  const bytes = Number(headers['content-length'] ?? 0);
  return bytes >= largeBytes ? bytes : undefined;
}
