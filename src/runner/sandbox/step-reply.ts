import type { CallEffects } from './call-effects.ts';
import { ReplyTooLargeError } from './http-reply.ts';

type Loose = Record<string, unknown>;

/**
 * `$.respond` of one call. A stream as body is read to its end first, so it cannot be sent immediately. Resolves when the reply is sent. Only the
 * first one counts.
 */
export class StepReply {
  readonly #effects: CallEffects;
  readonly #bodyBytesMax: number;
  /** A stream that is being read. */
  #reading: Promise<void> | undefined;
  /** The error of the last reply that was refused. */
  #refused: { error: unknown } | undefined;

  constructor(effects: CallEffects, bodyBytesMax: number) {
    this.#effects = effects;
    this.#bodyBytesMax = bodyBytesMax;
  }

  /**
   * Waits for a reply whose stream the code did not await. Rejects when no reply was valid, because most code does not wait for `$.respond` and
   * would never learn of the error.
   */
  get settled(): Promise<void> | undefined {
    if (this.#reading !== undefined || this.#refused === undefined || this.#effects.responded)
      return this.#reading;
    return Promise.reject(this.#refused.error);
  }

  async respond(given: unknown): Promise<void> {
    if (this.#reading !== undefined) return this.#reading;
    if (this.#effects.responded) return;
    try {
      return this.#respond(given);
    } catch (error) {
      this.#refused = { error };
      throw error;
    }
  }

  #respond(given: unknown): Promise<void> | undefined {
    const reply = typeof given === 'object' && given !== null ? (given as Loose) : undefined;
    const immediate = reply?.immediate === true;
    const { body } = reply ?? {};
    if (!isStream(body)) {
      this.#effects.respond(given, { immediate });
      return undefined;
    }
    if (immediate) throw new TypeError('$.respond: a reply with a stream as body cannot be immediate');
    this.#reading = this.#readAndRespond({ ...reply }, body);
    // Code that does not wait for it gets a failure at the end of the step.
    this.#reading.catch(() => undefined);
    return this.#reading;
  }

  async #readAndRespond(reply: Loose, stream: AsyncIterable<unknown>): Promise<void> {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of stream) {
      const part = bytesOf(chunk);
      bytes += part.length;
      if (bytes > this.#bodyBytesMax) {
        const error = new ReplyTooLargeError('$.respond', bytes, this.#bodyBytesMax, { isWhole: false });
        this.#effects.refuseReply(error);
        throw error;
      }
      chunks.push(part);
    }
    this.#effects.respond({ ...reply, body: Buffer.concat(chunks) }, { immediate: false });
  }
}

/** True for streams of Node and of the web, which are both iterable. */
function isStream(body: unknown): body is AsyncIterable<unknown> {
  return (
    typeof body === 'object' &&
    body !== null &&
    typeof (body as { [Symbol.asyncIterator]?: unknown })[Symbol.asyncIterator] === 'function'
  );
}

function bytesOf(chunk: unknown): Uint8Array {
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  if (typeof chunk === 'string') return Buffer.from(chunk);
  throw new TypeError(`$.respond: the stream gave ${typeof chunk}, expected bytes or text`);
}
