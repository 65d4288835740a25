import type { Readable, Writable } from 'node:stream';
import { bytesText } from '#lib/units.ts';

/** Longest line either side reads: a bundle or a file with JSON escapes. */
export const lineBytesMax = 64 * 1024 * 1024;

/** Calls `onMessage` for every line of JSON; a line that is too long or not JSON destroys the stream. */
export function readMessages<T>(stream: Readable, onMessage: (message: T) => void): void {
  let parts: Buffer[] = [];
  let bytes = 0;
  stream.on('data', (chunk: Buffer) => {
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(10, from);
      const part = chunk.subarray(from, end === -1 ? chunk.length : end);
      parts.push(part);
      bytes += part.length;
      if (bytes > lineBytesMax) {
        stream.destroy(new Error(`a message of a builder process is longer than ${bytesText(lineBytesMax)}`));
        return;
      }
      if (end === -1) return;
      const line = Buffer.concat(parts).toString('utf8');
      parts = [];
      bytes = 0;
      from = end + 1;
      let message: T;
      try {
        message = JSON.parse(line) as T;
      } catch (error) {
        stream.destroy(new Error('a message of a builder process is not JSON', { cause: error }));
        return;
      }
      onMessage(message);
    }
  });
}

export function writeMessage(stream: Writable, message: unknown): void {
  stream.write(`${JSON.stringify(message)}\n`);
}
