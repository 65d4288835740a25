import type { IncomingMessage } from 'node:http';
import { BodyTurns } from '#lib/body-turns.ts';

/** Maximum that is read of an unwanted body. The connection of a larger one is closed. */
const drainedBytesMax = 64 * 1024 * 1024;
/** So much is read in one turn. */
const pieceBytes = 256 * 1024;
/** Senders that send nothing for so long have their answer before the end of the body, and then no connection. */
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
    // The size is not known when the body comes in chunks.
    let left = size === 0 ? drainedBytesMax : size;
    while (left > 0) {
      try {
        const bytes = Math.min(left, pieceBytes);
        await this.#turns.begin({ caller: address, bytes, isGone: () => request.destroyed });
      } catch {
        // Too many wait.
        return false;
      }
      if (hasEnded(request)) return true;
      const piece = await readPiece(request, this.#patienceMs);
      if (hasEnded(request)) return true;
      if (piece.isSilent) return false;
      left -= piece.bytes;
    }
    return false;
  }
}

function hasEnded({ complete, readableEnded, destroyed }: IncomingMessage): boolean {
  return complete || readableEnded || destroyed;
}

/** Reads so much, or until nothing comes for so long, or until the end. */
async function readPiece(
  request: IncomingMessage,
  silentMs: number,
): Promise<{ bytes: number; isSilent: boolean }> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  let silence = setTimeout(resolve, silentMs, true);
  let bytes = 0;
  const count = (chunk: Buffer): void => {
    bytes += chunk.length;
    clearTimeout(silence);
    if (bytes >= pieceBytes) resolve(false);
    else silence = setTimeout(resolve, silentMs, true);
  };
  const end = (): void => resolve(false);
  const ends = ['end', 'close', 'error'];
  for (const event of ends) request.on(event, end);
  request.on('data', count);
  request.resume();
  const isSilent = await promise;
  request.pause();
  clearTimeout(silence);
  request.off('data', count);
  for (const event of ends) request.off(event, end);
  return { bytes, isSilent };
}
