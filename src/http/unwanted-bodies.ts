import type { IncomingMessage } from 'node:http';
import { BodyTurns } from '#lib/body-turns.ts';

/** Maximum that is read of an unwanted body. The connection of a larger one is closed. */
const drainedBytesMax = 64 * 1024 * 1024;
/** So much is read in one turn. */
const pieceBytes = 256 * 1024;
/** Senders that are slower than that have their answer before the end of the body, and then no connection. */
const patienceDefaultMs = 10_000;

/**
 * Reads what is left of bodies that no operation wants, of refused requests above all, and discards it. A caller that is still sending when the
 * connection is closed often never sees the answer, only that the connection broke. Node would read them at full speed after
 * the answer, which needs no key and takes most of the time of the loop: so they are read before it, in turns.
 */
export class UnwantedBodies {
  readonly #turns = new BodyTurns({ largeBytes: 64 * 1024, callersAtOnce: 4 });
  readonly #patienceMs: number;

  constructor({ patienceMs = patienceDefaultMs }: { patienceMs?: number } = {}) {
    this.#patienceMs = patienceMs;
  }

  /**
   * Resolves when the answer to a request can be sent: true after the end of its body, or when what is left is small; false when the
   * connection is to be closed after the answer. `address`: of the caller.
   */
  async drain(request: IncomingMessage, address: string): Promise<boolean> {
    if (hasEnded(request)) return true;
    const size = this.#turns.bytesOf(request);
    if (size === undefined) return true;
    if (size > drainedBytesMax) return false;
    const deadlineMs = performance.now() + this.#patienceMs;
    // The size is not known when the body comes in chunks.
    let left = size === 0 ? drainedBytesMax : size;
    while (left > 0 && performance.now() < deadlineMs) {
      try {
        const bytes = Math.min(left, pieceBytes);
        await this.#turns.begin({ caller: address, bytes, isGone: () => request.destroyed });
      } catch {
        // Too many wait.
        return false;
      }
      if (hasEnded(request)) return true;
      left -= await readPiece(request, deadlineMs - performance.now());
      if (hasEnded(request)) return true;
    }
    return false;
  }
}

function hasEnded({ complete, readableEnded, destroyed }: IncomingMessage): boolean {
  return complete || readableEnded || destroyed;
}

/** Reads so much, or for so long, or until the end; how many bytes that was. */
async function readPiece(request: IncomingMessage, ms: number): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let bytes = 0;
  const count = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes >= pieceBytes) resolve();
  };
  const timer = setTimeout(resolve, Math.max(0, ms)).unref();
  const ends = ['end', 'close', 'error'];
  for (const event of ends) request.on(event, resolve);
  request.on('data', count);
  request.resume();
  await promise;
  request.pause();
  clearTimeout(timer);
  request.off('data', count);
  for (const event of ends) request.off(event, resolve);
  return bytes;
}
