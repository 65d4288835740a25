import { isIP } from 'node:net';

/** The address of an email trigger. A domain that is an IP address is written in the form of mail addresses: `key@[127.0.0.1]`. */
export function emailAddress(domain: string, key: string): string {
  const version = isIP(domain);
  if (version === 0) return `${key}@${domain}`;
  return version === 4 ? `${key}@[${domain}]` : `${key}@[IPv6:${domain}]`;
}

/** The domain of email addresses where none is set: the host of the public URL. */
export function emailDomain(setting: string, publicUrl: string): string {
  if (setting !== '') return setting.toLowerCase();
  return new URL(publicUrl).hostname.replace(/^\[|\]$/g, '');
}

/** Why no mail comes to email triggers where none is taken. */
export const noMailReason =
  'no mail can arrive: the service takes none until the setting MILLRACE_SMTP_PORT opens a port for it';

/** The recipient of a mail, as its sender wrote it. */
export interface MailRecipient {
  /** The key of the trigger, in lower case. */
  key: string;
  /** What follows the `+`; null: there was none. */
  plusTag: string | null;
}

const keyPattern = /^em[0-9a-z]{13}$/;

/**
 * Reads an envelope address; undefined when it belongs to no trigger. The twin at `upload.<domain>` is the same: mail that is
 * too large for an event is stored beside it anyway.
 */
export function readRecipient(domain: string, address: string): MailRecipient | undefined {
  const at = address.lastIndexOf('@');
  if (at === -1) return undefined;
  const host = address
    .slice(at + 1)
    .toLowerCase()
    .replace(/^\[(?:ipv6:)?(.*)\]$/, '$1')
    .replace(/\.$/, '');
  if (host !== domain && host !== `upload.${domain}`) return undefined;
  const local = address.slice(0, at);
  const plus = local.indexOf('+');
  const key = (plus === -1 ? local : local.slice(0, plus)).toLowerCase();
  return keyPattern.test(key) ? { key, plusTag: plus === -1 ? null : local.slice(plus + 1) } : undefined;
}
