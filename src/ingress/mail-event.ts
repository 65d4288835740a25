import { attachmentText } from './attachment-text.ts';
import { type AddressList, cut, type MailAttachment, type MailText, type ParsedMail } from './parse-mail.ts';

/** The JSON of an event of a mail is at most this long; what did not fit is in the files beside it. */
export const mailEventBytesMax = 512 * 1024;
/** Text attachments are in the event up to here (platform facts, e-mail triggers). */
const attachmentContentBytesMax = 10_000;

/** What an event holds at most before it is made smaller; characters, but for `attachmentBytes`. */
const fullSize = {
  text: 100_000,
  html: 150_000,
  headers: 48_000,
  /** Maximum of the texts of all attachments. */
  attachmentBytes: 60_000,
};

/** Where the parts of a mail are kept for half an hour. */
export interface MailFiles {
  rawUrl: string;
  /** Null: all of it is in the event. */
  textUrl: string | null;
  htmlUrl: string | null;
  /** One for each attachment of the parsed mail. */
  attachmentUrls: string[];
}

/** How a mail came, and to which of the addresses of a workflow. */
export interface MailEnvelope {
  /** Ours: 27 characters that sort by time. */
  id: string;
  receivedAtMs: number;
  /** MAIL FROM; empty for bounces. */
  sender: string;
  /** The addresses of this workflow only: the rest of the envelope is private. */
  recipients: string[];
  plusTag: string | null;
  clientIp: string;
  /** What the sender calls itself. */
  helo: string;
  /** True: the mail came over TLS. */
  secure: boolean;
  /** Bytes of the raw mail. */
  size: number;
}

/** JSON text of `steps.trigger.event`: docs/how-it-works/email.md has its shape. */
export function mailEventJson(mail: ParsedMail, files: MailFiles, envelope: MailEnvelope): string {
  // Characters of JSON take up to six bytes each, so how much fits is known when it was written.
  for (let part = 1; ; part /= 2) {
    const json = JSON.stringify(mailEvent(mail, files, envelope, part));
    if (Buffer.byteLength(json) <= mailEventBytesMax) return json;
  }
}

function mailEvent(mail: ParsedMail, files: MailFiles, envelope: MailEnvelope, part: number) {
  const { headers } = mail;
  const text = bodyText(mail.text, Math.floor(fullSize.text * part));
  const html = bodyText(mail.html, Math.floor(fullSize.html * part));
  const timestamp = new Date(envelope.receivedAtMs).toISOString();
  const list = (name: string) => headers[name] as AddressList | undefined;
  const shown = shownHeaders(mail, Math.floor(fullSize.headers * part));
  return {
    headers: shown.headers,
    subject: textOf(headers.subject, part),
    from: shortList(list('from'), part),
    to: shortList(list('to'), part),
    cc: shortList(list('cc'), part),
    replyTo: shortList(list('reply-to'), part),
    date: textOf(headers.date, part),
    messageId: textOf(headers['message-id'], part),
    body: {
      text: text.value,
      html: html.value,
      truncated: text.truncated || html.truncated,
      ...(files.textUrl === null ? {} : { textUrl: files.textUrl }),
      ...(files.htmlUrl === null ? {} : { htmlUrl: files.htmlUrl }),
    },
    rawUrl: files.rawUrl,
    recipient: envelope.recipients[0] ?? '',
    plusTag: envelope.plusTag,
    mail: {
      messageId: envelope.id,
      timestamp,
      source: envelope.sender,
      destination: envelope.recipients,
      size: envelope.size,
      content_url: files.rawUrl,
      headersTruncated: shown.truncated,
      headers: shown.lines,
      commonHeaders: {
        returnPath: envelope.sender,
        from: texts(list('from'), part),
        to: texts(list('to'), part),
        cc: texts(list('cc'), part),
        replyTo: texts(list('reply-to'), part),
        // As the sender wrote it, where the field above is ISO 8601.
        date: rawValue(mail, 'date'),
        messageId: textOf(headers['message-id'], part),
        subject: textOf(headers.subject, part),
      },
    },
    receipt: {
      timestamp,
      recipients: envelope.recipients,
      clientIp: envelope.clientIp,
      helo: envelope.helo,
      secure: envelope.secure,
    },
    attachments: shownAttachments(mail.attachments, files, Math.floor(fullSize.attachmentBytes * part)),
    attachmentsTruncated: mail.attachmentsTruncated,
  };
}

function bodyText(
  text: MailText | null,
  charactersMax: number,
): { value: string | null; truncated: boolean } {
  if (text === null) return { value: null, truncated: false };
  const value = cut(text.head, charactersMax);
  return { value, truncated: text.whole !== null || value.length < text.head.length };
}

/** Maximum of one field outside `headers`, so that many long ones cannot fill the event. */
const fieldCharacters = 4_000;

function textOf(value: unknown, part: number): string | null {
  return typeof value === 'string' ? cut(value, Math.floor(fieldCharacters * part)) : null;
}

function shortList(list: AddressList | undefined, part: number): AddressList | null {
  if (list === undefined) return null;
  return {
    value: shortAddresses(list, part),
    text: cut(list.text, Math.floor(fieldCharacters * part)),
  };
}

/** The addresses whose characters fit. */
function shortAddresses(list: AddressList, part: number): AddressList['value'] {
  let left = Math.floor(fieldCharacters * part);
  return list.value.filter(({ address, name }) => {
    left -= address.length + name.length + 1;
    return left >= 0;
  });
}

function texts(list: AddressList | undefined, part: number): string[] {
  return list === undefined
    ? []
    : shortAddresses(list, part).map(({ address, name }) => (name === '' ? address : `${name} <${address}>`));
}

function rawValue(mail: ParsedMail, name: string): string | null {
  const line = mail.headerLines.find((each) => each.name.toLowerCase() === name);
  return line === undefined ? null : cut(line.value, 500);
}

/** These first: a mail with endless other fields still names its author. */
const firstFields = ['subject', 'from', 'to', 'cc', 'reply-to', 'date', 'message-id', 'in-reply-to'];

function shownHeaders(mail: ParsedMail, charactersMax: number) {
  let truncated = mail.headersTruncated;
  let left = charactersMax;
  const fits = (value: unknown): boolean => {
    const { length } = JSON.stringify(value);
    if (length > left) {
      truncated = true;
      return false;
    }
    left -= length;
    return true;
  };
  const names = [
    ...firstFields.filter((name) => Object.hasOwn(mail.headers, name)),
    ...Object.keys(mail.headers).filter((name) => !firstFields.includes(name)),
  ];
  const headers = Object.fromEntries(
    names.flatMap((name) => (fits([name, mail.headers[name]]) ? [[name, mail.headers[name]]] : [])),
  );
  left = charactersMax;
  const lines = mail.headerLines.filter((line) => fits(line));
  return { headers, lines, truncated };
}

function shownAttachments(attachments: readonly MailAttachment[], files: MailFiles, bytesMax: number) {
  let left = bytesMax;
  return attachments.map((attachment, index) => {
    const { filename, contentType, charset, disposition, contentId, content } = attachment;
    const common = {
      filename,
      contentType,
      size: content.byteLength,
      disposition,
      contentId,
      contentUrl: files.attachmentUrls[index] ?? null,
    };
    if (!isText(contentType)) return common;
    const bytes = Math.min(content.byteLength, attachmentContentBytesMax, left);
    left -= bytes;
    const text = attachmentText(new Uint8Array(content, 0, bytes), charset);
    return { ...common, content: text, contentTruncated: bytes < content.byteLength };
  });
}

function isText(contentType: string): boolean {
  return /^text\/|^application\/(?:json|xml|[\w.-]+\+(?:json|xml))$/.test(contentType);
}
