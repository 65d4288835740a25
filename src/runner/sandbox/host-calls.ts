import { bytesText } from '#lib/units.ts';
import {
  type AnswerHeader,
  encodeFrame,
  frameType,
  type HostCallHeader,
  hostCallBodyBytesMax,
  hostCallHeaderBytesMax,
  hostCallsPerCallMax,
  hostCallsPerProcessMax,
} from '#runner/protocol.ts';
import type { Channel } from './channel.ts';
import { byteLength, jsonStringify } from './primordials.ts';

/**
 * Calls the service for the running call: data stores, files, other workflows. The header is a small JSON object (at most 64 KB), the body has at
 * most 1 MB in each direction. Rejects with an Error that has the message of the service, and its `code` if there is one.
 */
export type HostCallFunction = (
  kind: string,
  header: object,
  body?: string | Uint8Array,
) => Promise<{ header: Record<string, unknown>; body: Buffer }>;

type Answer = Awaited<ReturnType<HostCallFunction>>;

/** Maximum host calls of one call that wait for their turn. Code that starts more without awaiting any is faulty. */
const waitingMax = 10_000;

interface OpenHostCall {
  caller: CallState;
  kind: string;
  header: string;
  body: string | Uint8Array;
  /** Holds the stack of the call. When the answer comes, no code of the component is on the stack. */
  from: Error;
  resolve: (answer: Answer) => void;
  reject: (error: Error) => void;
}

/** The host calls of one call. */
interface CallState {
  call: { readonly id: number; readonly ended: boolean };
  open: number;
  waiting: OpenHostCall[];
}

/** The host calls of all calls of this process. A limited number is under way, the others wait in line, and the calls take turns. */
export class HostCalls {
  readonly #channel: Channel;
  readonly #open = new Map<number, OpenHostCall>();
  readonly #inLine = new Set<CallState>();
  #next = 1;

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  /** Returns the function with which the code of one call calls the host. */
  forCall(call: CallState['call']): HostCallFunction {
    const caller: CallState = { call, open: 0, waiting: [] };
    return async (kind, header, body = '') => this.#hostCall(caller, kind, header, body);
  }

  #hostCall(caller: CallState, kind: string, header: object, body: string | Uint8Array): Promise<Answer> {
    const headerText = jsonStringify(header);
    if (byteLength(headerText) > hostCallHeaderBytesMax)
      throw new RangeError(
        `the arguments of a request to the service are larger than ${bytesText(hostCallHeaderBytesMax)}`,
      );
    if (byteLength(body) > hostCallBodyBytesMax)
      throw new RangeError(`more than ${bytesText(hostCallBodyBytesMax)} are sent to the service at a time`);
    if (caller.waiting.length >= waitingMax)
      throw new RangeError(`more than ${waitingMax} requests to the service wait for their turn`);
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    caller.waiting.push({ caller, kind, header: headerText, body, from: new Error(), resolve, reject });
    if (caller.waiting.length === 1) this.#inLine.add(caller);
    this.#sendMore();
    return promise;
  }

  #sendMore(): void {
    for (const caller of this.#inLine) {
      if (this.#open.size >= hostCallsPerProcessMax) return;
      if (caller.open >= hostCallsPerCallMax && !caller.call.ended) continue;
      const hostCall = caller.waiting.shift();
      // A call with more host calls goes to the end of the line, and the iteration reaches it again.
      this.#inLine.delete(caller);
      if (caller.waiting.length > 0) this.#inLine.add(caller);
      if (hostCall === undefined) continue;
      if (caller.call.ended) hostCall.reject(new Error('the call has ended'));
      else this.#send(hostCall);
    }
  }

  #send(hostCall: OpenHostCall): void {
    const n = this.#next;
    this.#next += 1;
    hostCall.caller.open += 1;
    this.#open.set(n, hostCall);
    const header: HostCallHeader = {
      n,
      kind: hostCall.kind,
      header: byteLength(hostCall.header),
      body: byteLength(hostCall.body),
    };
    this.#channel.post(
      encodeFrame(
        frameType.hostCall,
        hostCall.caller.call.id,
        jsonStringify(header),
        [hostCall.header, hostCall.body],
        header.header + header.body,
      ),
    );
  }

  /** Settles a host call with the answer of the service. */
  settle(answer: AnswerHeader, payload: Buffer): void {
    const hostCall = this.#open.get(answer.n);
    if (hostCall === undefined) return;
    this.#open.delete(answer.n);
    hostCall.caller.open -= 1;
    if (answer.error === undefined) {
      // A copy: the frame is a view into a larger buffer.
      hostCall.resolve({ header: answer.header ?? {}, body: Buffer.from(payload) });
    } else {
      const { message, code } = answer.error;
      const error = new Error(message);
      error.stack = `Error: ${message}${framesOf(hostCall.from)}`;
      hostCall.reject(code === undefined ? error : Object.assign(error, { code }));
    }
    this.#sendMore();
  }
}

function framesOf({ stack }: Error): string {
  const first = typeof stack === 'string' ? stack.indexOf('\n') : -1;
  return stack === undefined || first === -1 ? '' : stack.slice(first);
}
