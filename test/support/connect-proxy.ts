import { once } from 'node:events';
import { createServer, type Server, request as sendRequest } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';

/** A real HTTP proxy on 127.0.0.1. Whatever address it is asked for, it connects to that port of this machine. */
export class ConnectProxy implements AsyncDisposable {
  /** What it was asked for, `CONNECT host:port`, or the URL of a request that it passed on. */
  readonly asked: string[] = [];
  readonly url: string;
  /** The answer to all that comes, in place of a connection; undefined: it connects. */
  refusal: { status: number; reason: string } | undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, credentials: string) {
    this.#server = server;
    const { port } = server.address() as AddressInfo;
    this.url = `http://${credentials === '' ? '' : `${credentials}@`}127.0.0.1:${port}`;
    const expected =
      credentials === ''
        ? undefined
        : `Basic ${Buffer.from(decodeURIComponent(credentials)).toString('base64')}`;
    const refused = (given: string | undefined) =>
      this.refusal ??
      (given === expected ? undefined : { status: 407, reason: 'Proxy Authentication Required' });
    server.on('connection', (socket: Socket) => this.#keep(socket));
    server.on('connect', (request, near: Socket) => {
      this.asked.push(`CONNECT ${request.url}`);
      const no = refused(request.headers['proxy-authorization']);
      if (no !== undefined) {
        near.end(`HTTP/1.1 ${no.status} ${no.reason}\r\nContent-Length: 0\r\n\r\n`);
        return;
      }
      const far = this.#keep(connect(portOf(String(request.url)), '127.0.0.1'));
      far.once('error', () => near.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'));
      far.once('connect', () => {
        near.write('HTTP/1.1 200 Connection established\r\n\r\n');
        near.pipe(far).pipe(near);
      });
    });
    // As npm asks for what is not encrypted.
    server.on('request', (request, response) => {
      this.asked.push(`${request.method} ${request.url}`);
      const no = refused(request.headers['proxy-authorization']);
      if (no !== undefined) {
        response.writeHead(no.status, no.reason).end();
        return;
      }
      const url = new URL(String(request.url));
      const { 'proxy-authorization': _, ...headers } = request.headers;
      const far = sendRequest({
        ...{ host: '127.0.0.1', port: Number(url.port), path: `${url.pathname}${url.search}` },
        ...{ method: request.method, headers },
      });
      far.once('response', (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      });
      far.once('error', () => response.destroy());
      request.pipe(far);
    });
  }

  static async start(credentials = ''): Promise<ConnectProxy> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new ConnectProxy(server, credentials);
  }

  /** `host:port`. */
  get place(): string {
    return new URL(this.url).host;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#server.listening) return;
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy()).once('close', () => this.#sockets.delete(socket));
    return socket;
  }
}

function portOf(authority: string): number {
  return Number(authority.slice(authority.lastIndexOf(':') + 1));
}
