import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';
import type { CertificateAuthority } from '../certificates.ts';

export interface TakenMail {
  from: string;
  to: string[];
  /** Headers and body, as they were sent. */
  text: string;
  isEncrypted: boolean;
}

/** A real mail server on 127.0.0.1 that offers STARTTLS, takes mail of one user who says who they are, and keeps it. */
export class MailServerStandIn {
  /** Clients of mail look names up by themselves, so it is one that every machine knows. */
  readonly host = 'localhost';
  readonly mails: TakenMail[] = [];
  readonly #server: SMTPServer;

  private constructor(authority: CertificateAuthority, user: string, password: string) {
    this.#server = new SMTPServer({
      ...authority.issue([this.host]),
      authMethods: ['PLAIN', 'LOGIN'],
      onAuth: ({ username, password: given }, _session, done) => {
        if (username === user && given === password) done(null, { user });
        else done(new Error('535 wrong user or password'));
      },
      onData: (stream, { envelope, secure }, done) => {
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        stream.on('end', () => {
          this.mails.push({
            from: envelope.mailFrom === false ? '' : envelope.mailFrom.address,
            to: envelope.rcptTo.map(({ address }) => address),
            text: Buffer.concat(chunks).toString(),
            isEncrypted: secure,
          });
          done();
        });
      },
    });
    // Clients that leave in the middle are no fault of the server.
    this.#server.on('error', () => {});
  }

  static async start(
    authority: CertificateAuthority,
    user: string,
    password: string,
  ): Promise<MailServerStandIn> {
    const standIn = new MailServerStandIn(authority, user, password);
    await once(standIn.#server.listen(0, '127.0.0.1'), 'listening');
    return standIn;
  }

  get port(): number {
    return (this.#server.server.address() as AddressInfo).port;
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }
}
