import type { IncomingMessage } from 'node:http';

/** What is read of a body nobody wants; a larger one is hung up on. */
const drainedBytesMax = 64 * 1024 * 1024;

/**
 * Reads the rest of a body and throws it away. Whoever is still sending when the connection is closed often never sees
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
