import { isIP } from 'node:net';

/** An address as a number of 32 or 128 bits. Text is parsed here and nowhere else. */
export interface IpAddress {
  family: 4 | 6;
  value: bigint;
}

/** A block of addresses, such as 10.0.0.0/8. */
export interface IpRange {
  family: 4 | 6;
  base: bigint;
  prefix: number;
}

/** Parses a strict literal (`net.isIP`), with or without a zone; undefined for everything else. */
export function parseIpAddress(text: string): IpAddress | undefined {
  const family = isIP(text);
  if (family === 4) return { family, value: ipv4Value(text) };
  if (family !== 6) return undefined;
  const [address = ''] = text.split('%');
  return { family, value: ipv6Value(address) };
}

/** Parses `address/prefix`, and a bare address as the block of that one address; undefined for everything else. */
export function parseIpRange(text: string): IpRange | undefined {
  const match = /^([0-9a-fA-F.:]+)(?:\/(\d{1,3}))?$/.exec(text);
  const address = parseIpAddress(match?.[1] ?? '');
  if (match === null || address === undefined) return undefined;
  const bits = address.family === 4 ? 32 : 128;
  const prefix = match[2] === undefined ? bits : Number(match[2]);
  if (prefix > bits) return undefined;
  const shift = BigInt(bits - prefix);
  return { family: address.family, base: (address.value >> shift) << shift, prefix };
}

/**
 * What is wrong with an address or range that does not mean what it seems to. Undefined: nothing is. With a prefix that is too short for it, such as
 * 10.1.2.3/8, an address means all of 10.0.0.0/8, which may be far more than was meant. IPv4 inside IPv6 is compared as IPv4, so
 * ::ffff:0:0/96 would match nothing, or all of IPv4.
 */
export function problemOfRange(text: string): string | undefined {
  const range = parseIpRange(text);
  const [bare = ''] = text.split('/');
  const address = parseIpAddress(bare);
  if (range === undefined || address === undefined) return undefined;
  const inside = unwrapIpv4(address);
  if (inside.family !== address.family) {
    const prefix = range.prefix === 128 ? '' : `/${Math.max(0, range.prefix - 96)}`;
    return `${JSON.stringify(text)} is IPv4 inside IPv6; write ${addressText(inside)}${prefix}`;
  }
  if (address.value === range.base) return undefined;
  const network = `${addressText({ family: range.family, value: range.base })}/${range.prefix}`;
  return `${JSON.stringify(text)} is an address in ${network}; write ${network} for all of that network, or ${bare} for the one address`;
}

function addressText({ family, value }: IpAddress): string {
  const [count, bits] = family === 4 ? [4, 8n] : [8, 16n];
  const parts = Array.from(
    { length: count },
    (_, index) => (value >> (BigInt(count - 1 - index) * bits)) & ((1n << bits) - 1n),
  );
  if (family === 4) return parts.join('.');
  // The URL parser writes the short form.
  return new URL(`http://[${parts.map((part) => part.toString(16)).join(':')}]/`).hostname.slice(1, -1);
}

export function rangeContains(range: IpRange, address: IpAddress): boolean {
  if (range.family !== address.family) return false;
  const shift = BigInt((range.family === 4 ? 32 : 128) - range.prefix);
  return address.value >> shift === range.base >> shift;
}

/** The IPv4 address inside an IPv4-mapped (::ffff:0:0/96) or translated (64:ff9b::/96) one; others as they are. */
export function unwrapIpv4(address: IpAddress): IpAddress {
  if (address.family === 4) return address;
  const head = address.value >> 32n;
  if (head !== mappedHead && head !== translatedHead) return address;
  return { family: 4, value: address.value & 0xffff_ffffn };
}

const mappedHead = 0xffffn;
const translatedHead = 0x64_ff9bn << 64n;

function ipv4Value(text: string): bigint {
  return text.split('.').reduce((sum, part) => (sum << 8n) | BigInt(Number(part)), 0n);
}

function ipv6Value(text: string): bigint {
  const [left = '', right] = text.split('::');
  const head = groups(left);
  const tail = right === undefined ? [] : groups(right);
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => 0n);
  return [...head, ...zeros, ...tail].reduce((sum, group) => (sum << 16n) | group, 0n);
}

function groups(text: string): bigint[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [BigInt(`0x${group}`)];
    const value = ipv4Value(group);
    return [value >> 16n, value & 0xffffn];
  });
}
