import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { within } from './wait-for.ts';

export interface ReceivedRequest {
  readonly method: string;
  /** Path with query, as sent. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  /** The body as JSON; throws when it is none. */
  json(): unknown;
}

/** What to answer: status 200 and an empty body where nothing is said. A string body is sent as it is, others as JSON. */
export interface ReceiverAnswer {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
}

/** An answer, or a function that makes it or writes it itself (then it returns nothing). */
export type ReceiverScript =
  | ReceiverAnswer
  | ((
      request: ReceivedRequest,
      response: ServerResponse,
    ) => ReceiverAnswer | undefined | Promise<ReceiverAnswer | undefined>);

/** A real HTTP or HTTPS server on 127.0.0.1 that keeps every request, for tests to wait for and look at. */
export class HttpReceiver {
  /** In the order in which their bodies were complete. */
  readonly requests: ReceivedRequest[] = [];
  readonly #server: ReturnType<typeof createServer>;
  readonly #scheme: 'http' | 'https';
  readonly #once: ReceiverScript[] = [];
  #always: ReceiverScript;
  #waiting: { count: number; resolve: (request: ReceivedRequest) => void }[] = [];

  private constructor(always: ReceiverScript, tls: { key: string; cert: string } | undefined) {
    this.#always = always;
    this.#scheme = tls ? 'https' : 'http';
    const listener: RequestListener = (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks);
        void this.#answer(
          {
            method: request.method ?? '',
            url: request.url ?? '',
            headers: request.headers,
            rawHeaders: request.rawHeaders,
            body,
            json: () => JSON.parse(body.toString()),
          },
          response,
        );
      });
    };
    this.#server = tls ? createTlsServer(tls, listener) : createServer(listener);
  }

  /** Starts one on a free port. With `tls` (PEM texts) it speaks HTTPS. */
  static async start(
    options: { answer?: ReceiverScript; tls?: { key: string; cert: string } } = {},
  ): Promise<HttpReceiver> {
    const receiver = new HttpReceiver(options.answer ?? {}, options.tls);
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** `http://127.0.0.1:<port>`, without a slash at the end. */
  get url(): string {
    return `${this.#scheme}://127.0.0.1:${this.port}`;
  }

  /** From now on, every request without an answer of its own (`answerOnce`) gets this one. */
  answerAlways(script: ReceiverScript): void {
    this.#always = script;
  }

  /** Answers for the next requests, in order, one each. */
  answerOnce(...scripts: ReceiverScript[]): void {
    this.#once.push(...scripts);
  }

  /** The n-th request since the start, counted from 1; waits until it is there, also on a busy machine. */
  async waitForRequest(n = 1, timeoutMs = 30_000): Promise<ReceivedRequest> {
    const there = this.requests[n - 1];
    if (there !== undefined) return there;
    const arrival = new Promise<ReceivedRequest>((resolve) => this.#waiting.push({ count: n, resolve }));
    return await within(arrival, timeoutMs, `request ${n} at ${this.url} (${this.requests.length} came)`);
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #answer(request: ReceivedRequest, response: ServerResponse): Promise<void> {
    this.requests.push(request);
    this.#waiting = this.#waiting.filter(({ count, resolve }) => {
      if (this.requests.length < count) return true;
      resolve(request);
      return false;
    });
    const script = this.#once.shift() ?? this.#always;
    try {
      const answer = typeof script === 'function' ? await script(request, response) : script;
      if (answer === undefined) return;
      const isText = typeof answer.body === 'string' || Buffer.isBuffer(answer.body);
      const headers =
        answer.body === undefined || isText
          ? answer.headers
          : { 'content-type': 'application/json', ...answer.headers };
      response.writeHead(answer.status ?? 200, headers);
      response.end(
        answer.body === undefined || isText ? (answer.body as string | Buffer) : JSON.stringify(answer.body),
      );
    } catch (error) {
      // A broken script must show in the test, not as a hanging request.
      response.destroy(error as Error);
    }
  }
}
