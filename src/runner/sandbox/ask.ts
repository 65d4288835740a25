import {
  type AnswerHeader,
  type AskHeader,
  askBodyBytesMax,
  askHeaderBytesMax,
  asksPerCallMax,
  asksPerProcessMax,
  encodeFrame,
  frameType,
} from '#runner/protocol.ts';
import type { Channel } from './channel.ts';
import { byteLength, jsonStringify } from './primordials.ts';

/**
 * Asks the service on behalf of the call that runs: data stores, files, other workflows. The header is a small object
 * of JSON (64 KB at most), the body at most 1 MB each way. Rejects with an Error that has the message of the service's
 * answer, and its `code` when there is one.
 */
export type AskFunction = (
  kind: string,
  header: object,
  body?: string | Uint8Array,
) => Promise<{ header: Record<string, unknown>; body: Buffer }>;

type Answer = Awaited<ReturnType<AskFunction>>;

/** Asks of one call that wait for their turn; code that starts more without waiting for any has lost its way. */
const waitingMax = 10_000;

interface OpenAsk {
  asks: CallAsks;
  kind: string;
  header: string;
  body: string | Uint8Array;
  /** Where it was asked: when the answer comes, no code of the component is on the stack. */
  from: Error;
  resolve: (answer: Answer) => void;
  reject: (error: Error) => void;
}

/** What one call asks for. */
interface CallAsks {
  call: { readonly id: number; readonly ended: boolean };
  open: number;
  waiting: OpenAsk[];
}

/** The asks of all calls of this process: a bounded number under way, the rest in line, the calls in turns. */
export class Asks {
  readonly #channel: Channel;
  readonly #open = new Map<number, OpenAsk>();
  readonly #inLine = new Set<CallAsks>();
  #next = 1;

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  /** How the code of one call asks. */
  forCall(call: CallAsks['call']): AskFunction {
    const asks: CallAsks = { call, open: 0, waiting: [] };
    return async (kind, header, body = '') => this.#ask(asks, kind, header, body);
  }

  #ask(asks: CallAsks, kind: string, header: object, body: string | Uint8Array): Promise<Answer> {
    const headerText = jsonStringify(header);
    if (byteLength(headerText) > askHeaderBytesMax)
      throw new RangeError(`what is asked for is described in more than ${askHeaderBytesMax} bytes`);
    if (byteLength(body) > askBodyBytesMax)
      throw new RangeError(`more than ${askBodyBytesMax} bytes are sent to the service at a time`);
    if (asks.waiting.length >= waitingMax)
      throw new RangeError(`more than ${waitingMax} requests to the service wait for their turn`);
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    asks.waiting.push({ asks, kind, header: headerText, body, from: new Error(), resolve, reject });
    if (asks.waiting.length === 1) this.#inLine.add(asks);
    this.#sendMore();
    return promise;
  }

  #sendMore(): void {
    for (const asks of this.#inLine) {
      if (this.#open.size >= asksPerProcessMax) return;
      if (asks.open >= asksPerCallMax && !asks.call.ended) continue;
      const ask = asks.waiting.shift();
      // To the end of the line when it has more: the iteration comes to it again.
      this.#inLine.delete(asks);
      if (asks.waiting.length > 0) this.#inLine.add(asks);
      if (ask === undefined) continue;
      if (asks.call.ended) ask.reject(new Error('the call has ended'));
      else this.#send(ask);
    }
  }

  #send(ask: OpenAsk): void {
    const n = this.#next;
    this.#next += 1;
    ask.asks.open += 1;
    this.#open.set(n, ask);
    const header: AskHeader = {
      n,
      kind: ask.kind,
      header: byteLength(ask.header),
      body: byteLength(ask.body),
    };
    this.#channel.post(
      encodeFrame(
        frameType.ask,
        ask.asks.call.id,
        jsonStringify(header),
        [ask.header, ask.body],
        header.header + header.body,
      ),
    );
  }

  /** Takes an answer of the service. */
  settle(answer: AnswerHeader, payload: Buffer): void {
    const ask = this.#open.get(answer.n);
    if (ask === undefined) return;
    this.#open.delete(answer.n);
    ask.asks.open -= 1;
    if (answer.error === undefined) {
      // A copy: the frame is a view into a larger buffer.
      ask.resolve({ header: answer.header ?? {}, body: Buffer.from(payload) });
    } else {
      const { message, code } = answer.error;
      const error = new Error(message);
      error.stack = `Error: ${message}${framesOf(ask.from)}`;
      ask.reject(code === undefined ? error : Object.assign(error, { code }));
    }
    this.#sendMore();
  }
}

function framesOf({ stack }: Error): string {
  const first = typeof stack === 'string' ? stack.indexOf('\n') : -1;
  return stack === undefined || first === -1 ? '' : stack.slice(first);
}
