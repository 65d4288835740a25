import { isIPv6 } from 'node:net';
import { canonicalHost } from '#lib/canonical-host.ts';

/** The target that a connection is redirected to. */
export interface Destination {
  /** As `canonicalHost` reads it, without brackets. */
  host: string;
  port: number;
}

interface Rule {
  /** Undefined: any. */
  fromHost: string | undefined;
  fromPort: number | undefined;
  /** Undefined: the requested host. */
  toHost: string | undefined;
  toPort: number | undefined;
}

const form = /^(\[[^[\]]*\]|[^:[\]]*):(\d*):(\[[^[\]]*\]|[^:[\]]*):(\d*)$/;
const expected =
  'expected HOST1:PORT1:HOST2:PORT2, such as api.example.com:443:gateway.internal:8443, with IPv6 addresses in brackets';

/**
 * Connections that the operator redirects, in the form of curl's `--connect-to`: a connection to HOST1:PORT1 is
 * made to HOST2:PORT2. An empty HOST1 or PORT1 matches any, an empty HOST2 or PORT2 means the requested
 * one; the first entry that matches counts, and its target is not looked up in the list again.
 */
export class ConnectTo {
  readonly #rules: readonly Rule[];

  /** Throws an Error that says what was expected, for the first entry that is no such text. */
  constructor(entries: readonly string[]) {
    this.#rules = entries.map(parseRule);
  }

  /** The destination for `host` (a name or address, canonical) and `port` (0: unknown, fits only an empty PORT1). */
  lead(host: string, port: number): Destination | undefined {
    if (this.#rules.length === 0) return undefined;
    const name = comparable(host);
    const rule = this.#rules.find(
      ({ fromHost, fromPort }) =>
        (fromHost === undefined || fromHost === name) && (fromPort === undefined || fromPort === port),
    );
    if (rule === undefined || (rule.toHost === undefined && rule.toPort === undefined)) return undefined;
    return { host: rule.toHost ?? host, port: rule.toPort ?? port };
  }
}

function parseRule(entry: string): Rule {
  const match = form.exec(entry);
  if (match === null) throw new Error(`${expected}; found ${JSON.stringify(entry)}`);
  const [, fromHost = '', fromPort = '', toHost = '', toPort = ''] = match;
  return {
    fromHost: parseHost(fromHost, entry),
    fromPort: parsePort(fromPort, entry),
    toHost: parseHost(toHost, entry),
    toPort: parsePort(toPort, entry),
  };
}

function parseHost(text: string, entry: string): string | undefined {
  if (text === '') return undefined;
  const host = text.startsWith('[') && !isIPv6(text.slice(1, -1)) ? undefined : canonicalHost(text);
  if (host === undefined)
    throw new Error(`${JSON.stringify(text)} is no host; ${expected}; found ${JSON.stringify(entry)}`);
  return comparable(host);
}

function parsePort(text: string, entry: string): number | undefined {
  if (text === '') return undefined;
  const port = Number(text);
  if (port < 1 || port > 65_535)
    throw new Error(`${text} is no port from 1 to 65535; ${expected}; found ${JSON.stringify(entry)}`);
  return port;
}

/** One text for every spelling of an IPv6 address, and for a name with and without the dot of the root. */
function comparable(host: string): string {
  if (isIPv6(host)) return URL.parse(`http://[${host}]/`)?.hostname.slice(1, -1) ?? host;
  return host.endsWith('.') ? host.slice(0, -1) : host;
}
