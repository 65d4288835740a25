import type { IncomingMessage, Server } from 'node:http';

/** Chunks of a body that may be of any size; more than that have this many bytes each on average. */
const anyChunks = 2_000;
const bytesPerChunkMin = 8;

const text = `the body comes in chunks of fewer than ${bytesPerChunkMin} bytes: send larger ones, or a content-length`;
const answer = JSON.stringify({ error: text, code: 'invalid_request', details: {} });

/**
 * Ends requests whose bodies come in thousands of tiny chunks. Each chunk takes the loop that serves everyone as long as one of 64 KB: forty
 * senders of 47 KB byte by byte made calls of others wait for a second. The answer waits for what `delayMs` says of the sender's address.
 */
export function refuseTinyChunks(server: Server, delayMs: (address: string) => number): void {
  server.prependListener('request', (request: IncomingMessage) => {
    if (request.headers['transfer-encoding'] === undefined) return;
    const push = request.push.bind(request);
    let chunks = 0;
    let bytes = 0;
    let isRefused = false;
    request.push = (chunk: Buffer | null, ...encoding) => {
      // Nor does the body end: its beginning would be taken for the whole.
      if (isRefused) return false;
      if (chunk === null) return push(chunk, ...encoding);
      chunks += 1;
      bytes += chunk.length;
      if (chunks > anyChunks && bytes < chunks * bytesPerChunkMin) {
        isRefused = true;
        refuse(request, delayMs(request.socket.remoteAddress ?? ''));
        return false;
      }
      return push(chunk, ...encoding);
    };
  });
}

/** The answer is written by hand: what reads the body has not got all of it, and gets no more. */
function refuse({ socket }: IncomingMessage, waitMs: number): void {
  socket.pause();
  setTimeout(() => {
    // Ends the request too, with an error for what reads it.
    socket.end(
      'HTTP/1.1 400 Bad Request\r\ncontent-type: application/json; charset=utf-8\r\n' +
        `content-length: ${Buffer.byteLength(answer)}\r\nconnection: close\r\n\r\n${answer}`,
      () => socket.destroy(),
    );
  }, waitMs).unref();
}
