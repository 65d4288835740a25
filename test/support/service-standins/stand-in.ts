import type { CertificateAuthority } from '../certificates.ts';
import { HttpReceiver, type ReceivedRequest, type ReceiverAnswer } from '../http-receiver.ts';

/** What a service of the Internet answers, as far as a test needs it. */
export interface StandInScript {
  /** Under which its certificate is; connections to port 443 of it are led here by `connectTo`. */
  host: string;
  /** True when the request carries the credentials that the service would accept. */
  isAuthorized: (request: ReceivedRequest) => boolean | Promise<boolean>;
  /** What it says to any other. */
  unauthorized: ReceiverAnswer;
  /** By `<method> <path without query>`. */
  routes: Record<string, (request: ReceivedRequest) => ReceiverAnswer>;
  /** What is no route; 404 where nothing is said. */
  otherwise?: (request: ReceivedRequest) => ReceiverAnswer;
}

/**
 * Stands in for a service of the Internet: an HTTPS server on 127.0.0.1 with a certificate for the service's own host name
 * that refuses wrong credentials as the service does and answers the few calls of its public API that a test makes.
 */
export class ServiceStandIn {
  readonly host: string;
  readonly #receiver: HttpReceiver;

  private constructor(host: string, receiver: HttpReceiver) {
    this.host = host;
    this.#receiver = receiver;
  }

  static async start(authority: CertificateAuthority, script: StandInScript): Promise<ServiceStandIn> {
    const receiver = await HttpReceiver.start({
      tls: authority.issue([script.host]),
      answer: async (request) => {
        if (!(await script.isAuthorized(request))) return script.unauthorized;
        const route = script.routes[callOf(request)] ?? script.otherwise;
        return route === undefined ? { status: 404, body: { message: 'Not Found' } } : route(request);
      },
    });
    return new ServiceStandIn(script.host, receiver);
  }

  /** For MILLRACE_CONNECT_TO. */
  get connectTo(): string {
    return `${this.host}:443:127.0.0.1:${this.#receiver.port}`;
  }

  get requests(): readonly ReceivedRequest[] {
    return this.#receiver.requests;
  }

  /** Calls in the order in which they came, as `POST /v1/things`. */
  get calls(): string[] {
    return this.requests.map(callOf);
  }

  /** The last request of a call; fails with those that came when there is none. */
  last(call: string): ReceivedRequest {
    const found = this.requests.findLast((request) => callOf(request) === call);
    if (found === undefined) throw new Error(`${this.host} got no ${call}, but: ${this.calls.join(', ')}`);
    return found;
  }

  /** Every different value of a header that requests came with. */
  headerValues(name: string): (string | string[] | undefined)[] {
    return [...new Set(this.requests.map((request) => request.headers[name]))];
  }

  close(): Promise<void> {
    return this.#receiver.close();
  }
}

export function queryOf(request: ReceivedRequest): URLSearchParams {
  return new URL(request.url, 'https://stand-in.invalid').searchParams;
}

function callOf(request: ReceivedRequest): string {
  return `${request.method} ${request.url.split('?', 1)[0]}`;
}

/** The token of `Authorization: Bearer …`; empty without one. */
export function bearerOf(request: ReceivedRequest): string {
  return /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
}
