import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer } from 'smtp-server';

export interface ArrivedMail {
  to: string[];
  content: Email;
}

/** A real mail server on 127.0.0.1 that takes every mail, without encryption or a password, and keeps it. */
export class PlainMailServer {
  readonly mails: ArrivedMail[] = [];
  readonly #server: SMTPServer;

  private constructor() {
    this.#server = new SMTPServer({
      authOptional: true,
      disabledCommands: ['STARTTLS'],
      onData: (stream, { envelope }, done) => {
        const take = async () => {
          const content = await PostalMime.parse(await buffer(stream));
          this.mails.push({ to: envelope.rcptTo.map(({ address }) => address), content });
        };
        take().then(() => done(), done);
      },
    });
    // Clients that disconnect are no fault of the server.
    this.#server.on('error', () => {});
  }

  static async start(): Promise<PlainMailServer> {
    const server = new PlainMailServer();
    await once(server.#server.listen(0, '127.0.0.1'), 'listening');
    return server;
  }

  /** For `MILLRACE_SMTP_URL`. */
  get url(): string {
    return `smtp://127.0.0.1:${(this.#server.server.address() as AddressInfo).port}`;
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }
}
