import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type Duplex, duplexPair } from 'node:stream';
import { signerPath } from '#accounts/oauth/oauth1-signer-uris.ts';
import type { EgressDoor } from '#egress/egress-door.ts';

/** A request through the door must have arrived by then. */
const requestTimeoutMs = 120_000;
/** What strangers may use: endpoints, links of waiting runs, signed URLs of files, and signers of OAuth 1 accounts. */
const openPaths = ['/in/', '/files/', signerPath];
/** Headers in which a proxy names its client: they are removed, because no proxy is between user code and this door. */
const proxyHeaders = [
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-forwarded-port',
];

type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * The service as user code reaches it under its public address: without a network, and without the API. A step reads
 * the `raw_body_url` of its own event, and calls other workflows, as the rest of the world does.
 *
 * Only for an address with plain http. One with https belongs to a proxy in front, and is dialled like any other.
 */
export class ServiceDoor implements EgressDoor {
  readonly #publicUrl: () => string;
  readonly #server: Server;
  readonly #connections = new Set<Duplex>();
  #handler: RequestHandler | undefined;
  #address = { url: '', host: '', port: 0 };

  constructor(options: { publicUrl: () => string }) {
    this.#publicUrl = options.publicUrl;
    this.#server = createServer((request, response) => this.#answer(request, response));
    this.#server.requestTimeout = requestTimeoutMs;
    // One request per connection: no connection is idle, so none has to be tracked.
    this.#server.maxRequestsPerSocket = 1;
  }

  /** From now on the door leads somewhere. `handler` is that of the service's server. */
  leadTo(handler: RequestHandler): void {
    this.#handler = handler;
  }

  /** Connections right now. */
  get connections(): number {
    return this.#connections.size;
  }

  takes(host: string, port: number): boolean {
    if (this.#handler === undefined) return false;
    const url = this.#publicUrl();
    if (this.#address.url !== url) this.#address = { url, ...addressOf(url) };
    return port > 0 && port === this.#address.port && plainHost(host) === this.#address.host;
  }

  open(): Duplex {
    const [outside, inside] = duplexPair();
    this.#connections.add(inside);
    inside.on('error', () => {});
    outside.on('close', () => inside.destroy());
    inside.on('close', () => {
      this.#connections.delete(inside);
      // What the service has sent before is still to be read.
      if (outside.readableEnded) outside.destroy();
      else outside.once('end', () => outside.destroy());
    });
    this.#server.emit('connection', inside);
    return outside;
  }

  close(): void {
    this.#handler = undefined;
    for (const connection of this.#connections) connection.destroy();
    this.#server.close();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { url = '' } = request;
    if (this.#handler !== undefined && openPaths.some((path) => url.startsWith(path))) {
      for (const name of proxyHeaders) delete request.headers[name];
      this.#handler(request, response);
      return;
    }
    const body = JSON.stringify({
      error: 'only endpoints, files and signers of the service can be reached from here, not its API',
      code: 'forbidden',
      details: {},
    });
    response.writeHead(403, { 'content-type': 'application/json; charset=utf-8' }).end(body);
  }
}

/** Host and port of a plain http URL; port 0 for any other. */
function addressOf(url: string): { host: string; port: number } {
  const { protocol, hostname, port } = new URL(url);
  if (protocol !== 'http:') return { host: '', port: 0 };
  return { host: plainHost(hostname), port: port === '' ? 80 : Number(port) };
}

function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
}
