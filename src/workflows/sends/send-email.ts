import { getCACertificates } from 'node:tls';
import { toError } from '#lib/errors.ts';
import type { RunSendTable } from '#storage/tables/workflow-tables.ts';
import { optionalText, SendError, type SendOutcome, sendArgument } from './run-send.ts';

/** Connections to the mail server at once; more mails wait. */
const connectionsMax = 4;
const connectTimeoutMs = 10_000;
/** Silence of the mail server. */
const silenceMs = 30_000;
const attachmentsMax = 20;

/** The mail server of the instance. */
export interface MailServer {
  /** Resolves with the id of the message, or rejects with the server's answer. */
  send(mail: Mail): Promise<string>;
  close(): void;
}

export interface Mail {
  to: string;
  subject: string;
  text?: string;
  html?: string;
  attachments: { filename: string; content: Buffer; contentType?: string }[];
  /** Names the workflow to mail servers and receivers; an action that was run by itself has none. */
  workflowId?: string;
}

export interface MailServerOptions {
  /** smtp://user:password@host:port, or smtps://… */
  url: string;
  from: string;
  extraCa?: string;
  /** http://user:password@host:port, which is asked for the host. */
  proxy?: string;
}

export function createMailServer(options: MailServerOptions): MailServer {
  let opened: ReturnType<typeof openTransport> | undefined;
  return {
    async send({ workflowId, ...mail }) {
      opened ??= openTransport(options);
      const transport = await opened;
      const sent = await transport.sendMail({
        ...mail,
        from: options.from,
        headers: {
          ...(workflowId === undefined ? {} : { 'x-millrace-workflow': workflowId }),
          'auto-submitted': 'auto-generated',
        },
      });
      return String(sent.messageId);
    },
    // Where it could not be opened, each mail has said why.
    close: () =>
      void opened?.then(
        (transport) => transport.close(),
        () => {},
      ),
  };
}

/** The library is read with the first mail: an instance that sends none would keep it in memory. */
async function openTransport(options: MailServerOptions) {
  const { createTransport } = await import('nodemailer');
  const url = new URL(options.url);
  const isSecure = url.protocol === 'smtps:';
  return createTransport({
    pool: true,
    maxConnections: connectionsMax,
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (isSecure ? 465 : 587) : Number(url.port),
    secure: isSecure,
    ...(url.username === ''
      ? {}
      : { auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) } }),
    ...(options.extraCa === undefined
      ? {}
      : { tls: { ca: [...getCACertificates('default'), options.extraCa] } }),
    connectionTimeout: connectTimeoutMs,
    greetingTimeout: connectTimeoutMs,
    socketTimeout: silenceMs,
    ...(options.proxy === undefined ? {} : { proxy: options.proxy }),
    // A mail is what is given here, never a file of this machine or what an address answers.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/**
 * `$.send.email`: `{ subject, text, html, attachments: [{ filename, content, encoding: 'base64' | 'utf8', contentType }] }`,
 * only to the address of the user who made the workflow, or runs the action (`to`). `attachments` are an addition to the
 * original.
 */
export async function sendEmail(
  server: MailServer | undefined,
  send: Pick<RunSendTable, 'payload'> & { workflowId?: string },
  to: () => Promise<string>,
): Promise<SendOutcome> {
  if (server === undefined)
    throw new SendError(
      'no mail server is set: the operator sets MILLRACE_SMTP_URL and MILLRACE_EMAIL_FROM; the component smtp-send-email sends through a mail server of your own',
    );
  const argument = sendArgument(send.payload);
  const text = optionalText(argument, 'text');
  const html = optionalText(argument, 'html');
  const subject = (optionalText(argument, 'subject') ?? '').replace(/[\r\n]+/g, ' ');
  const attachments = attachmentsOf(argument.attachments);
  const address = await to();
  const { workflowId } = send;
  try {
    const messageId = await server.send({
      to: address,
      subject,
      ...(text === undefined ? {} : { text }),
      ...(html === undefined ? {} : { html }),
      attachments,
      ...(workflowId === undefined ? {} : { workflowId }),
    });
    return { state: 'sent', result: { message_id: messageId } };
  } catch (error) {
    return { state: 'failed', result: { error: `mail server: ${toError(error).message.slice(0, 500)}` } };
  }
}

function attachmentsOf(given: unknown): Mail['attachments'] {
  if (given === undefined || given === null) return [];
  if (!Array.isArray(given) || given.length > attachmentsMax)
    throw new SendError(`attachments: expected a list of at most ${attachmentsMax}`);
  return given.map((item: unknown, index) => {
    const place = `attachments[${index}]`;
    if (typeof item !== 'object' || item === null) throw new SendError(`${place}: expected an object`);
    const attachment = item as Record<string, unknown>;
    const content = optionalText(attachment, 'content');
    if (content === undefined) throw new SendError(`${place}: content is required, as text`);
    const encoding = optionalText(attachment, 'encoding') ?? 'utf8';
    if (encoding !== 'base64' && encoding !== 'utf8')
      throw new SendError(`${place}: encoding is base64 or utf8`);
    const contentType = optionalText(attachment, 'contentType');
    return {
      filename: optionalText(attachment, 'filename') ?? `attachment-${index + 1}`,
      content: Buffer.from(content, encoding),
      ...(contentType === undefined ? {} : { contentType }),
    };
  });
}
