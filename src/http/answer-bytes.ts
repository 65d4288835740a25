import { Readable } from 'node:stream';
import { BytePace } from '#lib/byte-pace.ts';

/**
 * Bytes of JSON a second for one caller, and what is sent at once. All of it is read, written and sent by the loop that serves everyone: 24
 * readers of pages of 33 MB made calls of others wait for a second.
 */
const bytesPerSecond = 20_000_000;
const bytesAtOnce = 8_000_000;

/** When answers of the API are sent that are large. A connection has one request at a time, so what waits bounds what is asked. */
export class AnswerBytes {
  readonly #pace = new BytePace({ perSecond: bytesPerSecond, atOnce: bytesAtOnce });

  /** Counts an answer that is there as a whole. Undefined: it may be sent at once. */
  whole(caller: string, bytes: number): Promise<void> | undefined {
    this.#pace.owe(caller, bytes);
    return this.#pace.owes(caller) ? this.#pace.turn(caller, () => 0) : undefined;
  }

  /** The same stream; the next part is read when the parts before it have had their time. */
  inParts(caller: string, stream: Readable): Readable {
    const parts = async function* (this: AnswerBytes) {
      for await (const part of stream as AsyncIterable<string | Buffer>) {
        await this.whole(caller, part.length);
        yield part;
      }
    };
    // No object mode: that would read 16 parts ahead.
    return Readable.from(parts.call(this), { objectMode: false });
  }

  /** Nothing waits from now on. */
  close(): void {
    this.#pace.close();
  }
}
