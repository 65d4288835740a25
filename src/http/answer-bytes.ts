import { Readable } from 'node:stream';
import { BytePace } from '#lib/byte-pace.ts';
import { ExpectedBytes } from '#lib/expected-bytes.ts';
import { inTurn } from '#lib/in-turn.ts';
import type { UntakenAnswer } from './untaken-answers.ts';

/**
 * Bytes of JSON a second for one caller, and what is sent at once. All of it is read, written and sent by the loop that serves everyone: 24
 * readers of pages of 33 MB made calls of others wait for a second.
 */
const bytesPerSecond = 20_000_000;
const bytesAtOnce = 8_000_000;
/** Answers that are expected to be smaller wait for nothing before they are made. */
const largeBytes = 256 * 1024;
/** Callers and routes of which large answers are expected. */
const expectedMax = 1_000;

/** When answers of the API are made and sent that are large. A connection has one request at a time, so what waits bounds what is asked. */
export class AnswerBytes {
  readonly #pace = new BytePace({ perSecond: bytesPerSecond, atOnce: bytesAtOnce });
  /** By caller and route. */
  readonly #expected = new ExpectedBytes({ much: largeBytes, kindsMax: expectedMax });

  /**
   * For a request that came: a large answer is not made, and takes no memory, before it may be sent. `untaken`: what its caller has not taken
   * bounds it too.
   */
  begin(caller: string, route: string, untaken: UntakenAnswer): AnswerTurn {
    const kind = `${caller} ${route}`;
    const expected = this.#expected.of(kind);
    let reserved = 0;
    let hasEnded = false;
    const start = () => {
      // Its caller has gone while it waited.
      if (hasEnded) return 0;
      // The rest waits for its own time, part by part.
      reserved = Math.min(expected, bytesAtOnce);
      return reserved;
    };
    const turn =
      expected < largeBytes
        ? undefined
        : inTurn(
            () => untaken.turn(Math.min(expected, bytesAtOnce)),
            () => this.#pace.turn(caller, start),
          );
    let sent = 0;
    return {
      ...(turn === undefined ? {} : { turn }),
      expects: (bytes) => {
        const more = sent + bytes - reserved;
        if (more <= 0 || sent + bytes < largeBytes) return undefined;
        const begin = () => {
          if (hasEnded) return 0;
          reserved += more;
          return more;
        };
        return inTurn(
          () => untaken.turn(more),
          () => this.#pace.turn(caller, begin),
        );
      },
      sends: (bytes) => {
        sent += bytes;
        untaken.sends(bytes);
        if (sent <= reserved) return undefined;
        this.#pace.owe(caller, sent - reserved);
        reserved = sent;
        // A small answer does not wait for large ones of the same caller.
        if (sent < largeBytes || !this.#pace.owes(caller)) return undefined;
        return this.#pace.turn(caller, () => 0);
      },
      end: () => {
        hasEnded = true;
        if (reserved > sent) this.#pace.owe(caller, sent - reserved);
        this.#expected.saw(kind, { moved: sent, expected });
      },
    };
  }

  /** Nothing waits from now on. */
  close(): void {
    this.#pace.close();
  }
}

/** What one answer sends. */
export interface AnswerTurn {
  /** Resolves when the answer may be made. Absent: at once. */
  readonly turn?: Promise<void>;
  /** So many bytes are going to be made and sent next. Undefined: they may be at once. */
  expects(bytes: number): Promise<void> | undefined;
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
