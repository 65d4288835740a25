import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';

type HostOf = (
  request: Pick<IncomingMessage, 'headers'> & { socket: { remoteAddress?: string | undefined } },
) => string;

/**
 * The host a request is for, before there is a Fastify request to ask: what the proxy that sent it says, if it is one of
 * `trustedProxies` (addresses and CIDRs), and the Host header otherwise. The same host as Fastify's `request.host`.
 */
export function requestHost(trustedProxies: readonly string[]): HostOf {
  const isTrusted = trustedProxyCheck(trustedProxies);
  return ({ headers, socket }) => {
    const forwarded = headers['x-forwarded-host'];
    const peer = socket.remoteAddress ?? '';
    if (forwarded === undefined || forwarded === '' || !isTrusted(peer)) return headers.host ?? '';
    // Each proxy appends its value: the values before it come from an unknown sender.
    return String(forwarded).split(',').at(-1)?.trim() ?? '';
  };
}

/** Tells whether an address is that of one of these proxies (addresses and CIDRs). */
export function trustedProxyCheck(trustedProxies: readonly string[]): (address: string) => boolean {
  const trusted = new BlockList();
  for (const proxy of trustedProxies) {
    const [address = '', bits] = proxy.split('/');
    const family = familyOf(address);
    if (bits === undefined) trusted.addAddress(address, family);
    else trusted.addSubnet(address, Number(bits), family);
  }
  return (address) => isIP(address) !== 0 && trusted.check(address, familyOf(address));
}

/**
 * Leaves addresses in X-Forwarded-For only, because the last one that is no proxy is taken for the caller, shown and stored. Ports, which
 * some proxies add, are cut. An entry that is no address is removed with those before it, of which nothing is known.
 */
export function dropUnreadableAddresses(headers: IncomingHttpHeaders): void {
  const found = headers['x-forwarded-for'];
  if (found === undefined) return;
  const addresses = String(found).split(',').map(addressIn);
  const readable = addresses.slice(addresses.lastIndexOf(undefined) + 1);
  if (readable.length === 0) delete headers['x-forwarded-for'];
  else headers['x-forwarded-for'] = readable.join(', ');
}

/** `192.0.2.1`, `192.0.2.1:99`, `2001:db8::1` or `[2001:db8::1]:99`. */
function addressIn(entry: string): string | undefined {
  const text = entry.trim();
  const withPort = /^(?:\[(?<bracketed>[^\]]*)\]|(?<plain>[^:]*))(?::\d{1,5})?$/.exec(text);
  const { bracketed, plain } = withPort?.groups ?? {};
  return [text, bracketed, plain].find((address) => address !== undefined && isIP(address) !== 0);
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4';
}
