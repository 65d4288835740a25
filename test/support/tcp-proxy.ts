import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

interface Cut {
  text: string;
  /** Text that the client has sent in the same transaction. */
  behind: string;
  when: 'before' | 'after';
  done: () => void;
}

/** Stands between a client and a server, and can make the server vanish as a dying host does: without a reset. */
export class TcpProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #silent = false;
  #isAway = false;
  #cut: Cut | undefined;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(target: { host: string; port: number }): Promise<TcpProxy> {
    const server = createServer();
    const proxy = new TcpProxy(server);
    server.on('connection', (near) => (proxy.#isAway ? near.destroy() : proxy.#join(near, connect(target))));
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

  /** Ends all connections, and new ones at once, as a server does that has ended. */
  goAway(): void {
    this.#isAway = true;
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  /** New connections pass again. */
  comeBack(): void {
    this.#isAway = false;
  }

  /**
   * Ends the connection of the next client that sends a message with this text: `before` it reaches the server, or `after` the
   * server has answered it, whose answer is lost. With `behind`, only a client that has sent that text before, in the same transaction.
   * Resolves when it was done.
   */
  cutAt(text: string, when: 'before' | 'after', behind = ''): Promise<void> {
    return new Promise((resolve) => {
      this.#cut = { text, when, behind, done: resolve };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #join(near: Socket, far: Socket): void {
    // Whatever began before, or during, the silence stays in it.
    let silent = this.#silent;
    let cut: Cut | undefined;
    /** What the client has sent since a cut is wanted and its last transaction ended. */
    let sent = '';
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from);
      from.on('data', (chunk) => {
        silent ||= this.#silent;
        if (from === near && this.#cut !== undefined) {
          sent += chunk.toString('latin1');
          if (chunk.includes(this.#cut.text) && sent.includes(this.#cut.behind)) {
            cut = this.#cut;
            this.#cut = undefined;
          }
          if (chunk.includes('commit') || chunk.includes('rollback')) sent = '';
        }
        if (cut !== undefined && (cut.when === 'before' || from === far)) {
          near.destroy();
          far.destroy();
          cut.done();
        } else if (!silent) to.write(chunk);
      });
      from.on('error', () => {});
      from.on('close', () => {
        this.#sockets.delete(from);
        if (!silent && !this.#silent) to.destroy();
      });
    }
  }
}
