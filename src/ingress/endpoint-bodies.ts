import type { IncomingMessage } from 'node:http';
import { BodyTurns } from '#lib/body-turns.ts';
import { formFieldsMax } from './request-event.ts';
import { bodyOf } from './uploaded-bodies.ts';

/** A request with half a megabyte takes nine milliseconds of the loop, until its run has begun; one with that little, half a millisecond. */
const largeBytes = 8 * 1024;
/** Owners whose turn it is at the same time: ten megabytes a second take a fifth of the time of the loop each. */
const callersAtOnce = 2;
/** So much of a body that is set aside is read in one turn, which is half as long as for others: it takes half of their time, and may have a gigabyte. */
const pieceBytes = 256 * 1024;
/** Others are kept from waiting for so long after their last request. */
const othersMs = 10_000;

/** A part of a form takes so long to parse, however small it is. */
const partMs = 0.01;

/** The empty lines of a form: each part has one after its header. */
function partsOf(body: Buffer): number {
  let parts = 0;
  for (let at = body.indexOf('\r\n\r\n'); at !== -1; at = body.indexOf('\r\n\r\n', at + 4)) parts += 1;
  return Math.min(parts, formFieldsMax);
}

/** A body that had its turn. */
export interface BodyTurn {
  ownerId: string;
  /** The bytes that the turn was for; 0 when they were not known. */
  bytes: number;
}

/**
 * When the bodies of requests to endpoints are read. Those of one owner could take all of the time of the loop that answers for
 * everyone: they are read in turns while there are requests to endpoints of other owners. An owner who is alone has no turns.
 */
export class EndpointBodies {
  readonly #turns = new BodyTurns({ largeBytes, callersAtOnce });
  /** The last request to an endpoint of anyone, and the last one to an endpoint of another owner than that. */
  #latest = { ownerId: '', atMs: Number.NEGATIVE_INFINITY };
  #other = { ownerId: '', atMs: Number.NEGATIVE_INFINITY };
  readonly #nowMs: () => number;

  constructor({ nowMs = () => performance.now() }: { nowMs?: () => number } = {}) {
    this.#nowMs = nowMs;
  }

  /** To be called for each request to an endpoint of an owner. */
  noteRequest(ownerId: string): void {
    if (this.#latest.ownerId !== ownerId) this.#other = this.#latest;
    this.#latest = { ownerId, atMs: this.#nowMs() };
  }

  isLarge(request: IncomingMessage): boolean {
    return this.#turns.bytesOf(request) !== undefined;
  }

  /**
   * Resolves when the body of a request may be read; with its turn, if it had one. Throws CallerError `bodies_busy`.
   */
  async begin(request: IncomingMessage, ownerId: string): Promise<BodyTurn | undefined> {
    const bytes = this.#turns.bytesOf(request);
    if (bytes === undefined || !this.#othersHaveRequests(ownerId)) return undefined;
    await this.#turns.begin({ caller: ownerId, bytes, isGone: () => request.destroyed });
    return { ownerId, bytes };
  }

  /** Counts a body whose size was not known before, or that takes long to parse, if it had a turn. */
  wasRead(turn: BodyTurn | undefined, body: Buffer, contentType: string | undefined): void {
    if (turn === undefined) return;
    const ms = contentType?.startsWith('multipart/') === true ? partsOf(body) * partMs : 0;
    this.#turns.wasRead({ caller: turn.ownerId, given: turn.bytes, bytes: body.length, ms });
  }

  /** The bytes of a body that is not held in memory, read in turns. */
  async *pieces(request: IncomingMessage, ownerId: string): AsyncGenerator<Buffer> {
    let left = 0;
    for await (const chunk of bodyOf(request)) {
      if (left <= 0 && this.#othersHaveRequests(ownerId)) {
        await this.#turns.begin({ caller: ownerId, bytes: pieceBytes / 2, isGone: () => request.destroyed });
        left = pieceBytes;
      }
      left -= chunk.length;
      yield chunk;
    }
  }

  #othersHaveRequests(ownerId: string): boolean {
    const { atMs } = this.#latest.ownerId === ownerId ? this.#other : this.#latest;
    return this.#nowMs() - atMs < othersMs;
  }
}
