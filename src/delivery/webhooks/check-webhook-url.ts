import type { AddressPolicy } from '#egress/address-policy.ts';
import { EgressError, type LookupAll, resolveAndVet } from '#egress/resolve-address.ts';
import { CallerError } from '#lib/errors.ts';

const urlCharactersMax = 2_048;
/** A name that takes longer to look up is accepted: it is looked up and vetted again for each request. */
const lookupMs = 3_000;

/** Which rule a URL breaks: `details.rule` of the error. */
export type UrlRule =
  | 'too_long'
  | 'characters'
  | 'protocol_missing'
  | 'protocol_unknown'
  | 'host_missing'
  | 'credentials'
  | 'port'
  | 'malformed'
  | 'address_not_allowed';

/**
 * The URL that a webhook is stored with: parsed once (WHATWG), without its fragment, which no request carries. Throws
 * CallerError `invalid_parameter` with `details.rule`. Addresses that names resolve to are never revealed.
 */
export async function checkWebhookUrl(
  text: string,
  options: { policy: AddressPolicy; lookup?: LookupAll },
): Promise<string> {
  const url = parseWebhookUrl(text);
  await vetHost(url, options);
  return url.href;
}

/** The rules that the text alone decides. */
export function parseWebhookUrl(text: string): URL {
  if (text.length > urlCharactersMax) throw refusal('too_long', `at most ${urlCharactersMax} characters`);
  // The parser would drop some of them, wherever they are.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused.
  if (/[\u0000-\u0020\u007f]/.test(text)) throw refusal('characters', 'no spaces or control characters');
  const [, protocol, rest = ''] = /^([a-z][a-z0-9+.-]*):(.*)$/i.exec(text) ?? [];
  // A host with a port, as in localhost:3000, looks like a protocol.
  if (protocol === undefined || /^\d/.test(rest))
    throw refusal('protocol_missing', 'a protocol in front, as in https://example.com/hook');
  if (!/^https?$/i.test(protocol)) throw refusal('protocol_unknown', 'the protocol https or http');
  // The parser is lenient here: it would take the first part of the path for the host.
  const authority = /^\/\/([^/\\?#]+)/.exec(rest)?.[1];
  if (authority === undefined) throw refusal('host_missing', 'a host, as in https://example.com/hook');
  if (authority.includes('@'))
    throw refusal('credentials', 'no user name or password in it; requests are signed instead');
  if (authority.startsWith(':')) throw refusal('host_missing', 'a host, as in https://example.com/hook');
  const port = /:(\d*)$/.exec(authority)?.[1] ?? '';
  if (port !== '' && (port.length > 10 || Number(port) < 1 || Number(port) > 65_535))
    throw refusal('port', 'a port from 1 to 65535');
  const url = URL.parse(text);
  if (url === null || url.hostname === '') throw refusal('malformed', 'a well-formed URL');
  url.hash = '';
  if (url.href.length > urlCharactersMax)
    throw refusal('too_long', `at most ${urlCharactersMax} characters when it is encoded`);
  return url;
}

async function vetHost(
  url: URL,
  { policy, lookup }: { policy: AddressPolicy; lookup?: LookupAll },
): Promise<void> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, lookupMs);
  });
  try {
    await Promise.race([resolveAndVet(host, port, policy, lookup === undefined ? {} : { lookup }), late]);
  } catch (error) {
    // A name that is not known now may be later.
    if (!(error instanceof EgressError) || error.code !== 'EACCES') return;
    throw refusal(
      'address_not_allowed',
      `a host that this service may connect to, which ${url.host} is not; its operator decides that with MILLRACE_EGRESS`,
    );
  } finally {
    clearTimeout(timer);
  }
}

function refusal(rule: UrlRule, expected: string): CallerError {
  return new CallerError('invalid_parameter', `url: expected ${expected}`, { parameter: 'url', rule });
}
