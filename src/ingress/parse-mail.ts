import PostalMime, {
  type Address,
  type Attachment,
  addressParser,
  decodeWords,
  type Email,
} from 'postal-mime';
import { bytesText } from '#lib/units.ts';

/** Header fields of the message and of all its parts; a mail with more is refused. */
const headerBytesMax = 1024 * 1024;
/** Parts within parts; a deeper mail is refused. */
const nestingMax = 20;
/**
 * Each line costs the parser a hundred bytes in each part that it is in, each part a thousand. A mail of 30 MB in base64 has 400,000 lines of 78
 * bytes; one with more than these, or with lines shorter than these in the mean, is made to cost: 18 mails of 0.8 MB took more than a gigabyte.
 */
const linesMax = 500_000;
const shortLinesMax = 20_000;
const bytesPerLineMin = 4;
/** Attachments that are handed on; all of them are in the raw mail. */
export const attachmentsMax = 100;
/** Characters of a text that are passed on as a string. A longer text is passed on as bytes too. */
const textHeadMax = 150_000;
/** Maximum of one header field. */
const headerCharactersMax = 8_000;
/** Addresses of one header field. */
const addressesMax = 200;
/** Header fields that are handed on. */
const headersMax = 500;
/** A mail that passed this many servers is in a loop. */
const receivedMax = 100;

/** A mail as its event describes it. It is made in a thread of its own, so it holds only data. */
export interface ParsedMail {
  /** In the order of the message, values unfolded but not decoded, at most `headersMax`. */
  headerLines: { name: string; value: string }[];
  headersTruncated: boolean;
  /** By lower-case name: see `headerValue`; arrays where a field is there more than once. */
  headers: Record<string, unknown>;
  text: MailText | null;
  html: MailText | null;
  attachments: MailAttachment[];
  attachmentsTruncated: boolean;
}

export interface MailText {
  head: string;
  /** UTF-8 of the whole text; null when `head` is all of it. */
  whole: ArrayBuffer | null;
}

export interface MailAttachment {
  /** Without folders and control characters; never empty. */
  filename: string;
  contentType: string;
  /** As its header names it; null where the header names none. */
  charset: string | null;
  disposition: string | null;
  contentId: string | null;
  content: ArrayBuffer;
}

/** `{ value: [{ address, name }], text }` of a header field that holds addresses. */
export interface AddressList {
  value: { address: string; name: string }[];
  text: string;
}

/**
 * Reads a raw mail. Throws for what no mail looks like (too many or too deep parts, endless headers, a loop); garbage
 * within the bounds is read as far as possible. Messages inside the message are attachments.
 */
export async function parseMail(raw: ArrayBuffer): Promise<ParsedMail> {
  requireFewLines(new Uint8Array(raw));
  const parser = new CharsetParser({
    forceRfc822Attachments: true,
    maxNestingDepth: nestingMax,
    maxHeadersSize: headerBytesMax,
  });
  const email = await parser.parse(raw);
  if (email.headers.filter(({ key }) => key === 'received').length > receivedMax)
    throw new Error(`came by more than ${receivedMax} servers`);
  const lines = email.headers.slice(0, headersMax);
  return {
    headerLines: lines.map(({ originalKey, value }) => ({
      name: cut(originalKey, headerCharactersMax),
      value: cut(value, headerCharactersMax),
    })),
    headersTruncated: email.headers.length > lines.length,
    headers: headerObject(lines),
    text: mailText(email.text),
    html: mailText(email.html),
    attachments: email.attachments
      .slice(0, attachmentsMax)
      .map((attachment, index) => attachmentOf(attachment, index, parser.charsets.get(attachment))),
    attachmentsTruncated: email.attachments.length > attachmentsMax,
  };
}

/** What the parser knows of a part; its types leave it out. */
interface ParsedPart {
  contentType: { parsed: { params: Record<string, string> } };
}

/** Notes the charset of each attachment, which the parser reads but does not return. */
class CharsetParser extends PostalMime {
  readonly charsets = new Map<Attachment, string>();
  declare readonly attachments: Attachment[];

  /** Overrides an internal method of the parser: a new version of it may need another way, and a test says so. */
  protected collectAttachment(part: ParsedPart, ...others: unknown[]): void {
    Reflect.apply(Reflect.get(PostalMime.prototype, 'collectAttachment'), this, [part, ...others]);
    const attachment = this.attachments.at(-1);
    const { charset } = part.contentType.parsed.params;
    if (attachment !== undefined && charset !== undefined) this.charsets.set(attachment, charset);
  }
}

function requireFewLines(bytes: Uint8Array): void {
  const max = Math.min(linesMax, shortLinesMax + bytes.length / bytesPerLineMin);
  let lines = 0;
  for (let at = bytes.indexOf(0x0a); at !== -1; at = bytes.indexOf(0x0a, at + 1)) {
    lines += 1;
    if (lines > max) throw new Error(`more than ${Math.floor(max)} lines in ${bytesText(bytes.length)}`);
  }
}

const addressFields = new Set([
  'from',
  'sender',
  'to',
  'cc',
  'bcc',
  'reply-to',
  'delivered-to',
  'return-path',
]);
/** With parameters: `{ value, params }`. */
const structuredFields = new Set(['content-type', 'content-disposition', 'dkim-signature']);
/** Fields that may appear once (RFC 5322, 3.6); of several the first counts, so that no two readers see different ones. */
const singleFields = new Set([
  ...addressFields,
  'subject',
  'date',
  'message-id',
  'in-reply-to',
  'references',
  'content-type',
  'content-disposition',
  'content-transfer-encoding',
  'mime-version',
]);

function headerObject(lines: Email['headers']): Record<string, unknown> {
  const headers = new Map<string, unknown>();
  for (const { key, value } of lines) {
    // No name of a field, and more than a name to JavaScript.
    if (key === '' || key === '__proto__') continue;
    const name = cut(key, headerCharactersMax);
    if (!headers.has(name)) headers.set(name, headerValue(name, value));
    else if (!singleFields.has(name)) {
      const known = headers.get(name);
      headers.set(name, [...(Array.isArray(known) ? known : [known]), headerValue(name, value)]);
    }
  }
  return Object.fromEntries(headers);
}

function headerValue(name: string, value: string): unknown {
  const short = cut(value, headerCharactersMax);
  if (addressFields.has(name)) return addressList(short);
  if (structuredFields.has(name)) return structured(short);
  if (name === 'date') {
    const ms = Date.parse(short);
    return Number.isNaN(ms) ? short : new Date(ms).toISOString();
  }
  return decoded(short);
}

/** Encoded words may hold line ends, which would make new headers if user code put a subject into another header. */
function decoded(value: string): string {
  return oneLine(decodeWords(value));
}

function oneLine(text: string): string {
  return text.replace(/[\r\n\0]+/g, ' ');
}

function addressList(value: string): AddressList {
  const flat = (addresses: readonly Address[]): AddressList['value'] =>
    addresses.flatMap((each) =>
      each.group === undefined
        ? [{ address: oneLine(each.address), name: oneLine(each.name) }]
        : flat(each.group),
    );
  return { value: flat(addressParser(value)).slice(0, addressesMax), text: decoded(value) };
}

function structured(text: string): { value: string; params: Record<string, string> } {
  const params = new Map<string, string>();
  // A value in quotes may hold semicolons.
  const parts = text.match(/(?:"(?:\\.|[^"\\])*"|[^;"]|")+/g) ?? [];
  for (const part of parts) {
    const equals = part.indexOf('=');
    const name = part.slice(0, equals).trim().toLowerCase();
    if (equals === -1 || name === '__proto__' || params.has(name)) continue;
    params.set(
      name,
      part
        .slice(equals + 1)
        .trim()
        .replace(/^"(.*)"$/s, '$1'),
    );
  }
  const first = parts[0]?.trim() ?? '';
  return { value: first, params: Object.fromEntries(params) };
}

function mailText(text: string | undefined): MailText | null {
  if (text === undefined) return null;
  if (text.length <= textHeadMax) return { head: text, whole: null };
  return { head: cut(text, textHeadMax), whole: new TextEncoder().encode(text).buffer };
}

/** The parser decodes these itself and returns UTF-8. */
const decodedTypes = new Set(['text/calendar', 'application/ics']);

function attachmentOf(attachment: Attachment, index: number, charset: string | undefined): MailAttachment {
  const { content, mimeType } = attachment;
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  return {
    filename: safeFilename(attachment.filename) ?? `attachment-${index + 1}`,
    contentType: /^[\w.+-]+\/[\w.+-]+$/.test(mimeType) ? cut(mimeType, 200) : 'application/octet-stream',
    charset: decodedTypes.has(mimeType) ? 'utf-8' : safeCharset(charset),
    disposition: attachment.disposition === null ? null : cut(attachment.disposition, 100),
    contentId: attachment.contentId === undefined ? null : cut(attachment.contentId, 500),
    content:
      bytes instanceof ArrayBuffer
        ? bytes
        : (bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer),
  };
}

/** The label may be used in a header again. */
function safeCharset(charset: string | undefined): string | null {
  const label = charset?.trim();
  return label !== undefined && /^[\w.:+-]{1,40}$/.test(label) ? label : null;
}

function safeFilename(name: string | null): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be in a file name.
  const safe = cut((name ?? '').replace(/[\u0000-\u001f\u007f/\\]+/g, '_').trim(), 200);
  return safe === '' || /^\.+$/.test(safe) ? undefined : safe;
}

/** The beginning of a text, without half a character at its end. */
export function cut(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  const last = text.charCodeAt(charactersMax - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? charactersMax - 1 : charactersMax);
}
