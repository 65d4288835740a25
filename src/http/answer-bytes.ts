import { Readable } from 'node:stream';
import { BytePace } from '#lib/byte-pace.ts';

/**
 * Bytes of JSON a second for one caller, and what is sent at once. All of it is read, written and sent by the loop that serves everyone: 24
 * readers of pages of 33 MB made calls of others wait for a second.
 */
const bytesPerSecond = 20_000_000;
const bytesAtOnce = 8_000_000;
/** Answers that are expected to be smaller wait for nothing before they are made. */
const largeBytes = 256 * 1024;
/** What is expected of a route is its largest answer, forgotten slowly. */
const keptPart = 0.9;
/** Callers and routes of which large answers are expected. */
const expectedMax = 1_000;

/** When answers of the API are made and sent that are large. A connection has one request at a time, so what waits bounds what is asked. */
export class AnswerBytes {
  readonly #pace = new BytePace({ perSecond: bytesPerSecond, atOnce: bytesAtOnce });
  /** By caller and route. */
  readonly #expected = new Map<string, number>();

  /** For a request that came: a large answer is not made, and takes no memory, before it may be sent. */
  begin(caller: string, route: string): AnswerTurn {
    const expected = this.#expected.get(`${caller} ${route}`) ?? 0;
    let reserved = 0;
    const start = () => {
      reserved = expected;
      return expected;
    };
    const turn = expected < largeBytes ? undefined : this.#pace.turn(caller, start);
    let sent = 0;
    return {
      ...(turn === undefined ? {} : { turn }),
      sends: (bytes) => {
        sent += bytes;
        if (sent <= reserved) return undefined;
        this.#pace.owe(caller, sent - reserved);
        reserved = sent;
        return this.#pace.owes(caller) ? this.#pace.turn(caller, () => 0) : undefined;
      },
      end: () => {
        if (reserved > sent) this.#pace.owe(caller, sent - reserved);
        this.#expect(`${caller} ${route}`, Math.max(sent, expected * keptPart));
      },
    };
  }

  /** Nothing waits from now on. */
  close(): void {
    this.#pace.close();
  }

  #expect(key: string, bytes: number): void {
    if (bytes < largeBytes) this.#expected.delete(key);
    else if (this.#expected.has(key) || this.#expected.size < expectedMax) this.#expected.set(key, bytes);
  }
}

/** What one answer sends. */
export interface AnswerTurn {
  /** Resolves when the answer may be made. Absent: at once. */
  readonly turn?: Promise<void>;
  /** Counts bytes that are about to be sent. Undefined: they may be sent at once. */
  sends(bytes: number): Promise<void> | undefined;
  /** The answer was sent, or its caller has gone. */
  end(): void;
}

/** The same stream; the next part is read when those before it have had their time. */
export function inParts(answer: Pick<AnswerTurn, 'sends'>, stream: Readable): Readable {
  const parts = async function* () {
    for await (const part of stream as AsyncIterable<string | Buffer>) {
      await answer.sends(part.length);
      yield part;
    }
  };
  // No object mode: that would read 16 parts ahead.
  return Readable.from(parts(), { objectMode: false });
}
