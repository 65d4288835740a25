import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { asObject, CapPassedError, isIntegerIn, jsonObject } from './frame-fields.ts';
import {
  type AnswerHeader,
  askBodyBytesMax,
  askHeaderBytesMax,
  asksPerCallMax,
  asksPerProcessMax,
  PayloadReader,
  ProtocolError,
} from './protocol.ts';
import type { Ask, AskAnswer, CallOptions } from './runner.ts';

const kindCharactersMax = 64;
const messageCharactersMax = 4096;

/** Sends one answer to the process. */
type SendAnswer = (header: string, body: Uint8Array | undefined) => void;

/**
 * What the code in one process asks of the service. An ask is answered also when its call has ended meanwhile, since
 * the process waits for it before it lets others through. Throws `ProtocolError` or `CapPassedError` at frames that
 * only forged ones can be; both end the process.
 */
export class ProcessAsks {
  readonly #send: SendAnswer;
  readonly #logger: Logger;
  /** Names of the asks under way, each with its call. */
  readonly #open = new Map<number, number>();
  readonly #openPerCall = new Map<number, number>();

  constructor(send: SendAnswer, logger: Logger) {
    this.#send = send;
    this.#logger = logger;
  }

  /** `onAsk` is undefined when the call has ended, or may not ask. */
  take(callId: number, header: unknown, payload: Buffer, onAsk: CallOptions['onAsk']): void {
    const { n, kind, header: headerLength, body: bodyLength } = asObject(header);
    if (!isIntegerIn(n, 1, Number.MAX_SAFE_INTEGER) || this.#open.has(n))
      throw new ProtocolError('an ask has no name of its own');
    if (typeof kind !== 'string' || kind.length > kindCharactersMax)
      throw new ProtocolError('the kind of an ask is no short text');
    const reader = new PayloadReader(payload);
    const headerBytes = reader.bytes(headerLength);
    const bodyBytes = reader.bytes(bodyLength);
    reader.end();
    const ofCall = this.#openPerCall.get(callId) ?? 0;
    if (ofCall >= asksPerCallMax || this.#open.size >= asksPerProcessMax)
      throw new CapPassedError('more is asked at a time than allowed');
    if (headerBytes.length > askHeaderBytesMax || bodyBytes.length > askBodyBytesMax)
      throw new CapPassedError('an ask is larger than allowed');
    if (onAsk === undefined) {
      this.#refuse(n, 'this call cannot ask the service for anything', 'not_available');
      return;
    }
    const asked: Ask = {
      kind,
      header: jsonObject(headerBytes.toString('utf8')),
      // A copy: the frame is a view into a larger buffer that would be kept alive.
      body: Buffer.from(bodyBytes),
    };
    this.#open.set(n, callId);
    this.#openPerCall.set(callId, ofCall + 1);
    void this.#answer(n, callId, asked, onAsk);
  }

  async #answer(
    n: number,
    callId: number,
    asked: Ask,
    onAsk: NonNullable<CallOptions['onAsk']>,
  ): Promise<void> {
    let answer: AskAnswer | undefined;
    let failure: unknown;
    try {
      answer = await onAsk(asked);
    } catch (error) {
      failure = error;
    }
    this.#open.delete(n);
    const left = (this.#openPerCall.get(callId) ?? 1) - 1;
    if (left === 0) this.#openPerCall.delete(callId);
    else this.#openPerCall.set(callId, left);
    if (answer === undefined) this.#tellFailure(n, asked.kind, failure);
    else this.#tellAnswer(n, asked.kind, answer);
  }

  #tellAnswer(n: number, kind: string, answer: AskAnswer): void {
    let header: string;
    try {
      header = JSON.stringify({ n, header: answer.header } satisfies AnswerHeader);
    } catch (error) {
      this.#tellFailure(n, kind, error);
      return;
    }
    const bodyBytes = answer.body?.byteLength ?? 0;
    if (Buffer.byteLength(header) > askHeaderBytesMax + 64 || bodyBytes > askBodyBytesMax) {
      this.#tellFailure(n, kind, new CallerError('answer_too_large', 'the answer is larger than 1 MB'));
      return;
    }
    this.#send(header, answer.body);
  }

  /** Only what is meant for the caller is told; anything else is ours, and may hold what user code must not see. */
  #tellFailure(n: number, kind: string, failure: unknown): void {
    if (failure instanceof CallerError || failure instanceof UnavailableError) {
      this.#refuse(n, failure.message, failure.code);
      return;
    }
    this.#logger.error({ err: failure, kind }, 'runner.ask_failed');
    this.#refuse(n, 'the service failed to answer', 'internal_error');
  }

  #refuse(n: number, message: string, code: string): void {
    const error = { message: message.slice(0, messageCharactersMax), code };
    this.#send(JSON.stringify({ n, error } satisfies AnswerHeader), undefined);
  }
}
