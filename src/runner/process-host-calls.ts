import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { asObject, CapPassedError, isIntegerIn, jsonObject } from './frame-fields.ts';
import {
  type AnswerHeader,
  hostCallBodyBytesMax,
  hostCallHeaderBytesMax,
  hostCallsPerCallMax,
  hostCallsPerProcessMax,
  PayloadReader,
  ProtocolError,
} from './protocol.ts';
import type { CallOptions, HostCall, HostCallAnswer } from './runner.ts';

const kindCharactersMax = 64;
const messageCharactersMax = 4096;

/** Sends one answer to the process. */
type SendAnswer = (header: string, body: Uint8Array | undefined) => void;

/**
 * The host calls of the code in one process. A host call is answered also when its call has ended meanwhile, because the process waits for
 * the answer before it sends further ones. Throws `ProtocolError` or `CapPassedError` for frames that can only be forged; both end the
 * process. Which host calls there are: `workflows/runs/run-host-calls.ts`.
 */
export class ProcessHostCalls {
  readonly #send: SendAnswer;
  readonly #logger: Logger;
  /** Numbers of the host calls under way, each with the ID of its call. */
  readonly #open = new Map<number, number>();
  readonly #openPerCall = new Map<number, number>();

  constructor(send: SendAnswer, logger: Logger) {
    this.#send = send;
    this.#logger = logger;
  }

  /** `onHostCall` is undefined when the call has ended, or may not make host calls. */
  take(callId: number, header: unknown, payload: Buffer, onHostCall: CallOptions['onHostCall']): void {
    const { n, kind, header: headerLength, body: bodyLength } = asObject(header);
    if (!isIntegerIn(n, 1, Number.MAX_SAFE_INTEGER) || this.#open.has(n))
      throw new ProtocolError('a host call has no name of its own');
    if (typeof kind !== 'string' || kind.length > kindCharactersMax)
      throw new ProtocolError('the kind of a host call is no short text');
    const reader = new PayloadReader(payload);
    const headerBytes = reader.bytes(headerLength);
    const bodyBytes = reader.bytes(bodyLength);
    reader.end();
    const ofCall = this.#openPerCall.get(callId) ?? 0;
    if (ofCall >= hostCallsPerCallMax || this.#open.size >= hostCallsPerProcessMax)
      throw new CapPassedError('more requests to the service are under way than allowed');
    if (headerBytes.length > hostCallHeaderBytesMax || bodyBytes.length > hostCallBodyBytesMax)
      throw new CapPassedError('a host call is larger than allowed');
    if (onHostCall === undefined) {
      this.#refuse(n, 'this call cannot ask the service for anything', 'not_available');
      return;
    }
    const asked: HostCall = {
      kind,
      header: jsonObject(headerBytes.toString('utf8')),
      // A copy: the frame is a view into a larger buffer that would be kept alive.
      body: Buffer.from(bodyBytes),
    };
    this.#open.set(n, callId);
    this.#openPerCall.set(callId, ofCall + 1);
    void this.#answer(n, callId, asked, onHostCall);
  }

  async #answer(
    n: number,
    callId: number,
    asked: HostCall,
    onHostCall: NonNullable<CallOptions['onHostCall']>,
  ): Promise<void> {
    let answer: HostCallAnswer | undefined;
    let failure: unknown;
    try {
      answer = await onHostCall(asked);
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

  #tellAnswer(n: number, kind: string, answer: HostCallAnswer): void {
    let header: string;
    try {
      header = JSON.stringify({ n, header: answer.header } satisfies AnswerHeader);
    } catch (error) {
      this.#tellFailure(n, kind, error);
      return;
    }
    const bodyBytes = answer.body?.byteLength ?? 0;
    if (Buffer.byteLength(header) > hostCallHeaderBytesMax + 64 || bodyBytes > hostCallBodyBytesMax) {
      this.#tellFailure(n, kind, new CallerError('answer_too_large', 'the answer is larger than 1 MB'));
      return;
    }
    this.#send(header, answer.body);
  }

  /** User code gets only messages that are meant for the caller. Other errors are internal, and may hold what user code must not see. */
  #tellFailure(n: number, kind: string, failure: unknown): void {
    if (failure instanceof CallerError || failure instanceof UnavailableError) {
      this.#refuse(n, failure.message, failure.code);
      return;
    }
    this.#logger.error({ err: failure, kind }, 'runner.host-call-failed');
    this.#refuse(n, 'the service failed to answer', 'internal_error');
  }

  #refuse(n: number, message: string, code: string): void {
    const error = { message: message.slice(0, messageCharactersMax), code };
    this.#send(JSON.stringify({ n, error } satisfies AnswerHeader), undefined);
  }
}
