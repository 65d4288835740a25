import type { IncomingMessage } from 'node:http';
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

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4';
}
