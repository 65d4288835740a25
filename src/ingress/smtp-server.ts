import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import {
  SMTPServer,
  type SMTPServerAddress,
  type SMTPServerDataStream,
  type SMTPServerSession,
} from 'smtp-server';
import type { ActiveOwners } from '#lib/active-owners.ts';
import { BytePace } from '#lib/byte-pace.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { bytesText } from '#lib/units.ts';
import { type MailAcceptor, MailRefusal, type MailTarget } from './mail-acceptor.ts';
import { MailBuffer, MailMemory } from './mail-buffer.ts';

/** The largest mail, with headers and attachments as they are sent. */
const mailBytesMax = 30 * 1024 * 1024;
/** Connections at once, and those from one address. */
const connectionsMax = 200;
const connectionsPerAddressMax = 20;
/** Maximum of recipients of one mail; the sender repeats the mail for the others. */
const recipientsMax = 50;
/** Maximum unknown addresses in one connection, so that a sender that guesses has to connect again. */
const unknownRecipientsMax = 10;
/** Replies to one connection without a mail that was taken: a mail takes four, and one for each recipient. */
const repliesPerMailMax = 200;
/**
 * An address that wanted more is refused for so long, and each of its connections waits for its refusal: nineteen connections without a mail
 * that sent commands as fast as they could made calls of others wait for 800 ms.
 */
const refusedMs = 60_000;
const refusalDelayMs = 5_000;
/** Addresses that are refused; beyond that the oldest is forgotten. */
const refusedAddressesMax = 1_000;
/** All mails that are being received, parsed and stored; beyond that a sender is asked to try again later. */
const mailMemoryBytes = 160 * 1024 * 1024;
/** A connection on which nothing comes ends after this. */
const idleMs = 60_000;
/** And one that takes longer for one mail, however much it sends. */
const receiveMaxMs = 10 * 60_000;
/** What still arrives of a mail that is too large is thrown away; when this much has, the connection ends. */
const discardedBytesMax = 64 * 1024 * 1024;
/**
 * Bytes of mails for one owner that are read in a second while others have something to do, and what is read at once. Six senders of mails
 * of 21 MB made calls of others wait for 280 ms (bench `floods`).
 */
const bytesPerSecond = 8 * 1024 * 1024;
const bytesAtOnce = 512 * 1024;
/** When the service stops, mails under way get this long. */
const closeMs = 3_000;

/** What one mail, and all of them together, may cost. */
export interface MailBounds {
  /** The largest mail. */
  bytesMax: number;
  /** What is thrown away of a mail that is larger, before its connection ends. */
  discardedBytesMax: number;
  receiveMaxMs: number;
  /** What a connection of an address that is refused waits for its refusal. */
  refusalDelayMs: number;
  /** What is read of the mails for one owner while others have something to do, and at once. */
  bytesPerSecond: number;
  bytesAtOnce: number;
  /** Memory for all mails. */
  memoryBytes: number;
}

const usualBounds: MailBounds = {
  bytesMax: mailBytesMax,
  discardedBytesMax,
  ...{ receiveMaxMs, refusalDelayMs, bytesPerSecond, bytesAtOnce },
  memoryBytes: mailMemoryBytes,
};

export interface SmtpServerOptions {
  acceptor: Pick<MailAcceptor, 'findTarget' | 'accept'>;
  logger: Logger;
  /** What the server calls itself. */
  name: () => string;
  /** PEM texts; without them there is no STARTTLS. */
  tls?: { key: string; cert: string };
  /** Those that other owners' mails are slowed for. */
  owners?: ActiveOwners;
  /** Called for each wait of a mail for the part of its owner. */
  onDelayed?: (ownerId: string) => void;
  /** Smaller in tests. */
  bounds?: Partial<MailBounds>;
}

/** What is known of a connection between its commands. */
interface Connection {
  targets: Map<string, MailTarget>;
  unknown: number;
  /** Since the last mail that was taken. */
  replies: number;
  /** It waited for its refusal. */
  hasWaited: boolean;
}

/**
 * The mail server of email triggers. It takes mail for addresses of active workflows only, and says 250 when their runs
 * are on disk; it sends none, knows no users and keeps no mailboxes.
 */
export class MailServer {
  readonly #server: SMTPServer;
  readonly #acceptor: SmtpServerOptions['acceptor'];
  readonly #logger: Logger;
  readonly #memory: MailMemory;
  readonly #bounds: MailBounds;
  readonly #owners: ActiveOwners | undefined;
  readonly #pace: BytePace;
  readonly #connections = new Map<string, Connection>();
  readonly #perAddress = new Map<string, number>();
  readonly #receiving = new Set<Promise<void>>();
  /** Until when addresses are refused, epoch ms. */
  readonly #refused = new Map<string, number>();

  constructor(options: SmtpServerOptions) {
    this.#acceptor = options.acceptor;
    this.#logger = options.logger;
    this.#bounds = { ...usualBounds, ...options.bounds };
    this.#memory = new MailMemory(this.#bounds.memoryBytes);
    this.#owners = options.owners;
    this.#pace = new BytePace({
      ...{ perSecond: this.#bounds.bytesPerSecond, atOnce: this.#bounds.bytesAtOnce },
      isFree: () => options.owners?.areSeveral !== true,
      ...(options.onDelayed === undefined ? {} : { onWait: options.onDelayed }),
    });
    this.#server = new SMTPServer({
      name: options.name(),
      banner: 'Millrace',
      size: this.#bounds.bytesMax,
      rejectOversized: true,
      maxClients: connectionsMax,
      maxRecipients: recipientsMax,
      socketTimeout: idleMs,
      closeTimeout: closeMs,
      disableReverseLookup: true,
      authOptional: true,
      // Without a certificate of one's own the library would use one whose key is public.
      disabledCommands: options.tls === undefined ? ['AUTH', 'STARTTLS'] : ['AUTH'],
      ...(options.tls === undefined ? {} : { ...options.tls, minVersion: 'TLSv1.2' as const }),
      logger: false,
      onConnect: (session, done) => {
        const refusal = this.#connected(session);
        if (!this.#isRefused(session.remoteAddress)) done(refusal);
        else setTimeout(() => this.#refuseLate(session, done), this.#bounds.refusalDelayMs).unref();
      },
      onClose: (session) => this.#closed(session),
      onMailFrom: (_address, session, done) => {
        this.#connections.get(session.id)?.targets.clear();
        done();
      },
      onRcptTo: (address, session, done) => {
        this.#recipient(address, session).then(() => done(), done);
      },
      onData: (stream, session, done) => {
        const received = this.#receive(stream, session).then(
          () => done(null, 'Accepted'),
          (error: unknown) => done(toError(error)),
        );
        this.#receiving.add(received);
        void received.finally(() => this.#receiving.delete(received));
      },
    });
    // Connections break; that is not an error of the service.
    this.#server.on('error', (error) =>
      this.#logger.debug({ error: error.message }, 'mail.connection-failed'),
    );
  }

  /** Resolves with the port it listens on. */
  async listen(host: string, port: number): Promise<number> {
    const { server } = this.#server;
    this.#server.listen(port, host);
    // `once` rejects when it cannot listen.
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }

  /** Takes no new connections, and gives mails under way a few seconds. May be called twice. */
  async close(): Promise<void> {
    if (!this.#server.server.listening) return;
    this.#pace.close();
    const closed = new Promise<void>((resolve) => this.#server.close(resolve));
    // A client between two mails loses nothing.
    for (const connection of this.#server.connections)
      if (this.#isIdle(connection.session)) connection.send(421, 'The service is stopping');
    await closed;
  }

  /** Resolves when no received mail is being processed. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#receiving);
  }

  #isIdle(session: SMTPServerSession): boolean {
    return (session.envelope?.rcptTo ?? []).length === 0;
  }

  #connected(session: SMTPServerSession): Error | null {
    const { id, remoteAddress } = session;
    const open = (this.#perAddress.get(remoteAddress) ?? 0) + 1;
    this.#perAddress.set(remoteAddress, open);
    const connection: Connection = { targets: new Map(), unknown: 0, replies: 0, hasWaited: false };
    this.#connections.set(id, connection);
    this.#boundReplies(session, connection);
    return open > connectionsPerAddressMax
      ? new MailRefusal(421, 'Too many connections from your address; try again later')
      : null;
  }

  /** Ends the connection, and refuses its address for a while, when it gets too many replies without a mail. */
  #boundReplies({ id, remoteAddress }: SMTPServerSession, counted: Connection): void {
    for (const connection of this.#server.connections) {
      if (connection.session.id !== id) continue;
      const send = connection.send.bind(connection);
      connection.send = (code, ...rest) => {
        counted.replies += 1;
        if (code === 421 && !counted.hasWaited && this.#isRefused(remoteAddress)) {
          // It sent commands before the greeting, and they are not read any further.
          setTimeout(() => send(code, ...rest), this.#bounds.refusalDelayMs).unref();
          return;
        }
        if (counted.replies <= repliesPerMailMax || code === 421) return send(code, ...rest);
        // At once: until the connection ends, its commands are read.
        send(421, tooManyCommands().message);
        this.#refuse(remoteAddress);
      };
    }
  }

  #refuseLate({ id }: SMTPServerSession, done: (error: Error) => void): void {
    const connection = this.#connections.get(id);
    if (connection === undefined) return;
    connection.hasWaited = true;
    done(tooManyCommands());
  }

  #refuse(address: string): void {
    this.#refused.delete(address);
    this.#refused.set(address, Date.now() + refusedMs);
    const [oldest] = this.#refused.keys();
    if (this.#refused.size > refusedAddressesMax && oldest !== undefined) this.#refused.delete(oldest);
  }

  #isRefused(address: string): boolean {
    const untilMs = this.#refused.get(address);
    if (untilMs === undefined) return false;
    if (Date.now() < untilMs) return true;
    this.#refused.delete(address);
    return false;
  }

  #closed({ id, remoteAddress }: SMTPServerSession): void {
    // Connections that were refused before they were counted end here too.
    if (!this.#connections.delete(id)) return;
    const open = (this.#perAddress.get(remoteAddress) ?? 1) - 1;
    if (open === 0) this.#perAddress.delete(remoteAddress);
    else this.#perAddress.set(remoteAddress, open);
  }

  async #recipient({ address }: SMTPServerAddress, session: SMTPServerSession): Promise<void> {
    const connection = this.#connections.get(session.id);
    if (connection === undefined) throw new MailRefusal(421, 'The connection has ended');
    try {
      connection.targets.set(address.toLowerCase(), await this.#acceptor.findTarget(address));
    } catch (error) {
      if (!(error instanceof MailRefusal)) throw this.#unexpected(error);
      if (error.responseCode === 550) connection.unknown += 1;
      throw connection.unknown > unknownRecipientsMax
        ? new MailRefusal(421, 'Too many unknown addresses')
        : error;
    }
  }

  async #receive(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<void> {
    const targets = [...(this.#connections.get(session.id)?.targets.values() ?? [])];
    const ownerIds = new Set(targets.map(({ ownerId }) => ownerId));
    const { bytesMax, discardedBytesMax, receiveMaxMs } = this.#bounds;
    const buffer = new MailBuffer({ memory: this.#memory, bytesMax });
    const tooSlow = setTimeout(() => this.#hangUp(session, 421, 'The mail took too long'), receiveMaxMs);
    try {
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        buffer.append(chunk);
        for (const ownerId of ownerIds) await this.#pass(ownerId, chunk.length);
        if (buffer.length > bytesMax + discardedBytesMax) {
          this.#hangUp(session, 552, `The mail is larger than ${bytesText(bytesMax)}`);
          break;
        }
      }
      clearTimeout(tooSlow);
      if (buffer.refused === 'too_large')
        throw new MailRefusal(552, `The mail is larger than ${bytesText(bytesMax)}`);
      if (buffer.refused === 'no_room')
        throw new MailRefusal(451, 'The service has no room for more mail now; try again later');
      const { mailFrom } = session.envelope;
      await this.#acceptor.accept(buffer.finish(), targets, {
        sender: mailFrom === false ? '' : mailFrom.address,
        clientIp: session.remoteAddress,
        helo: session.hostNameAppearsAs,
        secure: session.secure,
      });
      const connection = this.#connections.get(session.id);
      if (connection !== undefined) connection.replies = 0;
      this.#logger.info(
        { bytes: buffer.length, workflows: targets.map(({ workflowId }) => workflowId) },
        'mail.accepted',
      );
    } catch (error) {
      const refusal = error instanceof MailRefusal ? error : this.#unexpected(error);
      this.#logger.info({ bytes: buffer.length, code: refusal.responseCode }, 'mail.refused');
      throw refusal;
    } finally {
      clearTimeout(tooSlow);
      buffer.release();
    }
  }

  /** Counts bytes of a mail, and waits while its owner has had its part: what is not read stays with the sender. */
  async #pass(ownerId: string, bytes: number): Promise<void> {
    this.#owners?.note(ownerId);
    this.#pace.owe(ownerId, bytes);
    if (this.#pace.owes(ownerId)) await this.#pace.turn(ownerId, () => 0);
  }

  /** Ends a connection in the middle of a mail. */
  #hangUp(session: SMTPServerSession, code: number, message: string): void {
    for (const connection of this.#server.connections) {
      if (connection.session.id !== session.id) continue;
      connection.send(code, message);
      connection.close();
    }
  }

  /** Nothing was promised, so the sender keeps the mail and tries again. */
  #unexpected(error: unknown): MailRefusal {
    const { code } = Object(error) as { code?: unknown };
    // The sender went away.
    if (code !== 'ECONNECTION' && code !== 'ERR_STREAM_PREMATURE_CLOSE')
      this.#logger.error({ err: toError(error) }, 'mail.failed');
    return new MailRefusal(451, 'The service failed; try again later', { cause: error });
  }
}

function tooManyCommands(): MailRefusal {
  return new MailRefusal(421, 'Too many commands without a mail; try again later');
}
