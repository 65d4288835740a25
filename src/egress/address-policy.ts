import { networkInterfaces } from 'node:os';
import { problemOfEgress } from '#config/allowed-address.ts';
import { ConnectTo } from '#config/connect-to.ts';
import { must } from '#lib/assert.ts';
import {
  type IpAddress,
  type IpRange,
  parseIpAddress,
  parseIpRange,
  rangeContains,
  unwrapIpv4,
} from '#lib/ip-address.ts';
import type { EgressProxy } from './egress-proxy.ts';

/** `closed`: whatever the operator allows. */
export type AddressVerdict = { allowed: true } | { allowed: false; reason: string; closed?: boolean };

export interface AddressPolicyOptions {
  /** Any of `public` (global unicast), `local` (loopback, private and unique-local) and CIDRs, as in MILLRACE_EGRESS. */
  allow: readonly string[];
  /** Read at every check: where the platform itself and its database listen. Always denied, whatever `allow` says. */
  deny: () => readonly { address: string; port: number }[];
  /** Connections that are led elsewhere, as in MILLRACE_CONNECT_TO. What they are led to is decided on like any other. */
  connectTo?: readonly string[];
  /** All connections go through it. */
  proxy?: EgressProxy;
}

/**
 * Where connections may go, decided on the address that is about to be dialled, never on a name. Both the relay of
 * user code and the platform's own requests are checked here.
 *
 * `public` is an allow list for IPv6 and the complement of IANA's special-purpose registry for IPv4: a list of known bad
 * addresses would miss the next one.
 */
export class AddressPolicy {
  /** As given, for messages. */
  readonly allow: readonly string[];
  readonly connectTo: ConnectTo;
  readonly proxy: EgressProxy | undefined;
  #deny: AddressPolicyOptions['deny'];
  #ranges: IpRange[] = [];
  #public = false;

  /** Throws on an entry of `allow` that is neither a word nor a CIDR, and on one of `connectTo` of another form. */
  constructor(options: AddressPolicyOptions) {
    this.allow = [...options.allow];
    this.#deny = options.deny;
    this.connectTo = new ConnectTo(options.connectTo ?? []);
    this.proxy = options.proxy;
    for (const entry of options.allow) {
      if (entry === 'public') this.#public = true;
      else if (entry === 'local') this.#ranges.push(...localRanges);
      else this.#ranges.push(allowedRange(entry));
    }
  }

  /** Decides on an IP literal (brackets and zones are accepted) and a port; port 0 asks about the address alone. */
  check(address: string, port: number): AddressVerdict {
    const parsed = parseLiteral(address);
    if (parsed === undefined)
      return { allowed: false, reason: `${JSON.stringify(address)} is not an IP address` };
    const target = unwrapIpv4(parsed);
    if (this.#isDenied(target, port)) {
      return {
        allowed: false,
        reason: 'the service itself, its database or its proxy listens there, which is never reachable',
        closed: true,
      };
    }
    return this.#isAllowed(target) ? { allowed: true } : { allowed: false, reason: describeRange(target) };
  }

  #isAllowed(target: IpAddress): boolean {
    const bits = target.family === 4 ? 32 : 128;
    const metadata = metadataAddresses.some((range) => rangeContains(range, target));
    const ranges = metadata ? this.#ranges.filter((range) => range.prefix === bits) : this.#ranges;
    if (ranges.some((range) => rangeContains(range, target))) return true;
    return !metadata && this.#public && isPublic(target);
  }

  #isDenied(target: IpAddress, port: number): boolean {
    if (port === 0) return false;
    for (const denied of this.#deny()) {
      if (denied.port !== port) continue;
      const parsed = parseLiteral(denied.address === 'localhost' ? '127.0.0.1' : denied.address);
      // A name that was not resolved could be any address: the port is denied everywhere.
      if (parsed === undefined) return true;
      const address = unwrapIpv4(parsed);
      if (sameAddress(address, target)) return true;
      // A service on one address of this machine often answers on others too; all of them count as the same place.
      if (isThisMachine(address) && isThisMachine(target)) return true;
    }
    return false;
  }
}

function parseLiteral(text: string): IpAddress | undefined {
  return parseIpAddress(text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text);
}

function allowedRange(entry: string): IpRange {
  const problem = problemOfEgress(entry);
  if (problem !== undefined) throw new Error(`MILLRACE_EGRESS: ${problem}`);
  return must(parseIpRange(entry), `the range ${entry}`);
}

function isPublic(target: IpAddress): boolean {
  if (target.family === 4) return !specialIpv4.some(({ range }) => rangeContains(range, target));
  return (
    rangeContains(globalUnicast, target) && !specialIpv6.some(({ range }) => rangeContains(range, target))
  );
}

function describeRange(target: IpAddress): string {
  const special = [...specialIpv4, ...specialIpv6].find(({ range }) => rangeContains(range, target));
  if (special !== undefined) return `it is ${special.name}`;
  return isPublic(target) ? 'it is a public address' : 'it is not a public address';
}

function sameAddress(a: IpAddress, b: IpAddress): boolean {
  return a.family === b.family && a.value === b.value;
}

/** True for addresses that are this machine on every machine: 127.0.0.0/8, ::1 and the unspecified ones. */
export function isLoopback(address: string): boolean {
  const parsed = parseLiteral(address);
  return parsed !== undefined && ownRanges.some((range) => rangeContains(range, unwrapIpv4(parsed)));
}

/** Loopback, the unspecified address (dialling it reaches loopback) and every address of an interface. */
function isThisMachine(address: IpAddress): boolean {
  if (ownRanges.some((range) => rangeContains(range, address))) return true;
  for (const entries of Object.values(networkInterfaces())) {
    for (const entry of entries ?? []) {
      const own = parseIpAddress(entry.address);
      if (own !== undefined && sameAddress(unwrapIpv4(own), address)) return true;
    }
  }
  return false;
}

function knownRange(text: string): IpRange {
  const range = parseIpRange(text);
  if (range === undefined) throw new Error(`assertion failed: ${text} is no range`);
  return range;
}

function named(name: string, ...texts: string[]): { name: string; range: IpRange }[] {
  return texts.map((text) => ({ name, range: knownRange(text) }));
}

const ownRanges = ['127.0.0.0/8', '0.0.0.0/8', '::1', '::'].map(knownRange);
const localRanges = ['127.0.0.0/8', '::1', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'].map(
  knownRange,
);
const globalUnicast = knownRange('2000::/3');

/** Clouds hand out machine credentials here. Opened only by an entry that names exactly the one address. */
const metadataAddresses = [
  '169.254.169.254',
  '169.254.170.2',
  '169.254.170.23',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  'fd00:ec2::254',
  'fd00:ec2::23',
].map(knownRange);

const specialIpv4 = [
  ...named(
    'a cloud metadata address',
    '168.63.129.16/32',
    '169.254.169.254/32',
    '100.100.100.200/32',
    '192.0.0.192/32',
  ),
  ...named('a loopback address', '127.0.0.0/8'),
  ...named('a private address', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'),
  ...named('a link-local address', '169.254.0.0/16'),
  ...named('a shared address (carrier NAT)', '100.64.0.0/10'),
  ...named('an unspecified address', '0.0.0.0/8'),
  ...named('a multicast or reserved address', '224.0.0.0/4', '240.0.0.0/4'),
  ...named(
    'a special-purpose address',
    '192.0.0.0/24',
    '192.0.2.0/24',
    '192.88.99.0/24',
    '198.18.0.0/15',
    '198.51.100.0/24',
    '203.0.113.0/24',
  ),
];

const specialIpv6 = [
  ...named('a cloud metadata address', 'fd00:ec2::/64'),
  ...named('a loopback address', '::1/128'),
  ...named('a private address (unique-local)', 'fc00::/7'),
  ...named('a link-local address', 'fe80::/10'),
  ...named('an unspecified address', '::/128'),
  ...named('a multicast address', 'ff00::/8'),
  ...named('a special-purpose address', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'),
];
