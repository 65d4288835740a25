import { fillTemplate } from '#accounts/apps/fill-template.ts';
import { toError } from '#lib/errors.ts';
import { GrantError } from './grant.ts';

/**
 * A URL of a provider from its template. Unencrypted only for a provider on this machine: what is sent there are codes
 * and secrets. Throws GrantError `client`, which names the field that is missing, never a value.
 */
export function providerUrl(template: string, fields: Readonly<Record<string, unknown>>): URL {
  let text: string;
  try {
    text = fillTemplate(template, fields, 'url');
  } catch (error) {
    throw new GrantError('client', `the address ${template} cannot be made: ${toError(error).message}`);
  }
  const url = URL.parse(text);
  if (url === null || url.username !== '' || url.password !== '') {
    throw new GrantError('client', `the address ${template} makes no URL with the fields of this account`);
  }
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname))) return url;
  throw new GrantError('client', `the address ${template} is not encrypted: expected https`);
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}
