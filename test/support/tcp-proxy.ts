import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Stands between a client and a server, and can make the server vanish as a dying host does: without a reset. */
export class TcpProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #silent = false;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(target: { host: string; port: number }): Promise<TcpProxy> {
    const server = createServer();
    const proxy = new TcpProxy(server);
    server.on('connection', (near) => proxy.#join(near, connect(target)));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** From now on nothing passes either way; connections stay as they are, and new ones are taken and left unanswered. */
  fallSilent(): void {
    this.#silent = true;
  }

  /** New connections pass again; those from before stay silent. */
  recover(): void {
    this.#silent = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #join(near: Socket, far: Socket): void {
    // Whatever began before, or during, the silence stays in it.
    let silent = this.#silent;
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from);
      from.on('data', (chunk) => {
        silent ||= this.#silent;
        if (!silent) to.write(chunk);
      });
      from.on('error', () => {});
      from.on('close', () => {
        this.#sockets.delete(from);
        if (!silent && !this.#silent) to.destroy();
      });
    }
  }
}
