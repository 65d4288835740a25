import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { within } from './wait-for.ts';

/** An SMTP client that sends what a test asks for, valid or not. */
export class SmtpClient {
  readonly #socket: Socket;
  #received = '';
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => {
      this.#received += text;
      this.#wake();
    });
    socket.on('error', () => this.#wake());
    socket.on('close', () => this.#wake());
  }

  /** Resolves after the greeting and EHLO; `greeting` is what the server said first. */
  static async connect(port: number): Promise<SmtpClient> {
    const client = await SmtpClient.open(port);
    const greeting = await client.reply();
    if (!greeting.startsWith('220')) throw new Error(greeting);
    await client.say('EHLO client.example');
    return client;
  }

  static async open(port: number): Promise<SmtpClient> {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return new SmtpClient(socket);
  }

  /** Sends a line and answers the whole reply to it. */
  say(line: string): Promise<string> {
    this.#socket.write(`${line}\r\n`);
    return this.reply();
  }

  /** Sends bytes; resolves when they have left, or the connection has ended. */
  async send(bytes: string | Uint8Array): Promise<void> {
    if (this.#socket.destroyed) return;
    const left = Promise.withResolvers<void>();
    this.#socket.once('close', left.resolve);
    if (typeof bytes === 'string') this.#socket.write(bytes, 'latin1', () => left.resolve());
    else this.#socket.write(bytes, () => left.resolve());
    await left.promise;
    this.#socket.off('close', left.resolve);
  }

  /** The next reply; empty when the connection ended without one. */
  async reply(): Promise<string> {
    for (;;) {
      const match = /^(?:\d{3}-[^\n]*\n)*\d{3}(?: [^\n]*)?\r\n/.exec(this.#received);
      if (match !== null) {
        this.#received = this.#received.slice(match[0].length);
        return match[0].trimEnd();
      }
      if (this.#socket.closed) return '';
      await within(
        new Promise<void>((resolve) => {
          this.#wake = resolve;
        }),
        60_000,
        'a reply of the mail server',
      );
    }
  }

  /** MAIL, RCPT and DATA; answers the reply to the last of them that was sent: 354 when the mail may follow. */
  async begin(from: string, to: readonly string[]): Promise<string> {
    let reply = await this.say(`MAIL FROM:<${from}>`);
    for (const each of to) if (reply.startsWith('250')) reply = await this.say(`RCPT TO:<${each}>`);
    return reply.startsWith('250') ? this.say('DATA') : reply;
  }

  get closed(): boolean {
    return this.#socket.closed;
  }

  close(): void {
    this.#socket.destroy();
  }
}
