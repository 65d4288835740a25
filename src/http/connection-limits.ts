import type { Server } from 'node:http';
import { isIPv6, type Socket } from 'node:net';
import { Counter, type Registry } from 'prom-client';
import type { Logger } from '#lib/logger.ts';
import { metricDefinitions } from '#telemetry/metric-definitions.ts';
import { orderRequests, requestsWaitingMax } from './ordered-requests.ts';

/** So often the log says that connections of an address were refused. */
const logEveryMs = 60_000;

export interface ConnectionLimitOptions {
  /** Connections that are open at once from one address. */
  perAddressMax: number;
  /** Files and connections that this process can have; undefined: unknown. */
  descriptorsMax: number | undefined;
  isTrustedProxy: (address: string) => boolean;
  logger: Logger;
  metrics: Registry;
  /** A clock that never steps. */
  nowMs?: () => number;
}

/**
 * Bounds the connections of a server before anything is read from them: a caller without a key could otherwise hold them all with
 * half-sent requests. No address has more than half of what the process can have, and a quarter of that (256 at most) stays for
 * the store, for user code and for answers under way. Requests of one connection are worked on in turn. Connections of trusted proxies are those of many callers, and count only in the total.
 */
export function limitConnections(server: Server, options: ConnectionLimitOptions): void {
  const { descriptorsMax = Number.POSITIVE_INFINITY, isTrustedProxy, logger } = options;
  const perAddressMax = Math.min(options.perAddressMax, Math.floor(descriptorsMax / 2));
  const nowMs = options.nowMs ?? (() => performance.now());
  const open = new Map<string, number>();
  const refused = new Counter({
    name: 'millrace_http_connections_refused_total',
    help: metricDefinitions.millrace_http_connections_refused_total.text,
    registers: [options.metrics],
  });
  let loggedMs = Number.NEGATIVE_INFINITY;
  let unlogged = 0;
  const refuse = (reason: string, address: string, limit: number) => {
    refused.inc();
    unlogged += 1;
    if (nowMs() - loggedMs < logEveryMs) return;
    logger.warn({ reason, address, limit, connections: unlogged }, 'http.connections-refused');
    loggedMs = nowMs();
    unlogged = 0;
  };
  orderRequests(server, ({ remoteAddress = '' }) =>
    refuse('connection has too many requests without an answer', remoteAddress, requestsWaitingMax),
  );
  if (Number.isFinite(descriptorsMax))
    server.maxConnections = descriptorsMax - Math.min(256, Math.floor(descriptorsMax / 4));
  server.on('drop', (dropped) =>
    refuse('process has too many', dropped?.remoteAddress ?? '', server.maxConnections),
  );
  // First of all listeners: the parser of HTTP never gets what is refused.
  server.prependListener('connection', (socket: Socket) => {
    const address = socket.remoteAddress;
    if (address === undefined || isTrustedProxy(address)) return;
    const caller = callerAddress(address);
    const connections = open.get(caller) ?? 0;
    if (connections >= perAddressMax) {
      refuse('address has too many', address, perAddressMax);
      socket.destroy();
      return;
    }
    open.set(caller, connections + 1);
    socket.once('close', () => {
      const rest = (open.get(caller) ?? 1) - 1;
      if (rest === 0) open.delete(caller);
      else open.set(caller, rest);
    });
  });
}

/** An IPv6 address counts as its network of 64 bits: a caller that has one has all of them. */
function callerAddress(address: string): string {
  if (!isIPv6(address)) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [head = '', tail] = address.split('::');
  const groups = head.split(':');
  if (tail !== undefined) {
    const missing = 8 - groups.length - tail.split(':').length;
    groups.push(...Array.from({ length: Math.max(0, missing) }, () => '0'), ...tail.split(':'));
  }
  return `${groups.slice(0, 4).join(':')}::/64`;
}
