import type { IncomingMessage } from 'node:http';

/** Maximum that is read of an unwanted body. The connection of a larger one is closed. */
const drainedBytesMax = 64 * 1024 * 1024;

/**
 * Reads the rest of a body and discards it. A caller that is still sending when the connection is closed often never sees
 * the answer, only that the connection broke. Resolves at the end of the body, of the connection, or of our patience.
 */
export function drainBody(request: IncomingMessage): Promise<void> {
  if (request.complete || request.destroyed) return Promise.resolve();
  if (Number(request.headers['content-length']) > drainedBytesMax) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  let bytes = 0;
  const count = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > drainedBytesMax) resolve();
  };
  for (const event of ['end', 'close', 'error']) request.once(event, resolve);
  request.on('data', count);
  return promise.finally(() => request.off('data', count));
}
