import { readFile, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { ConfigurationError, shown } from '../configuration-error.ts';

/** `this` of an action that sends a mail. */
export interface MailAction {
  subject: string;
  text?: string;
  html?: string;
  attachments?: string[];
}

export const mailProps = {
  subject: {
    type: 'string',
    label: 'Subject',
    description: 'The subject of the mail, such as `New order {{steps.trigger.event.body.id}}`',
  },
  text: {
    type: 'string',
    label: 'Text',
    description: 'The plain text of the mail. A mail has a text, HTML, or both',
    optional: true,
  },
  html: {
    type: 'string',
    label: 'HTML',
    description: 'The HTML of the mail, such as `<p>Hello <b>Ada</b></p>`',
    optional: true,
  },
  attachments: {
    type: 'string[]',
    label: 'Attachments',
    description: 'Paths of files, such as `["/tmp/report.pdf"]`',
    optional: true,
  },
} as const;

export interface MailContent {
  subject: string;
  text?: string;
  html?: string;
  attachments: { filename: string; content: Buffer }[];
}

/** Subject, text and files of a mail. Throws a ConfigurationError for a mail without a text, and files that are missing or too large. */
export async function contentOf(mail: MailAction, attachmentBytesMax: number): Promise<MailContent> {
  const { subject, text, html } = mail;
  if (isEmpty(text) && isEmpty(html))
    throw new ConfigurationError('text: found nothing, expected a text, or HTML in html');
  return {
    subject: textOf(subject),
    ...(isEmpty(text) ? {} : { text: textOf(text) }),
    ...(isEmpty(html) ? {} : { html: textOf(html) }),
    attachments: await attachmentsOf(mail.attachments, attachmentBytesMax),
  };
}

async function attachmentsOf(paths: unknown, bytesMax: number): Promise<MailContent['attachments']> {
  if (isEmpty(paths)) return [];
  if (!Array.isArray(paths))
    throw new ConfigurationError(`attachments: found ${shown(paths)}, expected an array of paths`);
  const attachments: MailContent['attachments'] = [];
  let bytes = 0;
  for (const [at, path] of paths.entries()) {
    const what = `attachments[${at}]`;
    if (typeof path !== 'string' || path === '')
      throw new ConfigurationError(`${what}: found ${shown(path)}, expected the path of a file`);
    const found = await stat(path).catch(() => undefined);
    if (found?.isFile() !== true)
      throw new ConfigurationError(`${what}: there is no file ${path}, expected the path of one`);
    bytes += found.size;
    if (bytes > bytesMax)
      throw new ConfigurationError(
        `${what}: the attachments have more than ${bytesMax / 1_000_000} MB, expected at most that`,
      );
    attachments.push({ filename: basename(path), content: await readFile(path) });
  }
  return attachments;
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}

/** Expressions may give anything; an object is shown as JSON. */
function textOf(value: unknown): string {
  if (isEmpty(value)) return '';
  return typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value);
}
