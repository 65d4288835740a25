import type { Socket } from 'node:net';
import type pg from 'pg';
import type { DatabaseHosts } from './database-hosts.ts';

/**
 * How long the server is waited for, in milliseconds. A host that dies, or a firewall that begins to drop packets, sends
 * no reset: without these bounds the kernel tries for about 15 minutes, and every write waits behind the first.
 */
export interface Patience {
  /** For a connection, from its first packet until it takes queries; also for a free one of the pool. */
  connectMs: number;
  /** For one statement, on the server; less than the silence, so that a server that is there gets to say so. */
  statementMs: number;
  /** Without a byte either way on a connection that is in use, it is given up. */
  silenceMs: number;
  /** Between two questions on the connection that otherwise only listens. */
  listenerPingMs: number;
}

export const usualPatience: Patience = {
  connectMs: 10_000,
  statementMs: 25_000,
  silenceMs: 30_000,
  listenerPingMs: 10_000,
};

/** Idle connections notice a dead peer by themselves this soon, before a query pays for it with the silence. */
const keepAliveDelayMs = 5_000;

/** What all our connections have in common. The host is the client's to choose (`clientOf`). */
export function connectionOptions(
  hosts: DatabaseHosts,
  patience: Pick<Patience, 'connectMs'>,
): pg.ClientConfig {
  return {
    ...(hosts.urls[0] === undefined ? {} : { connectionString: hosts.urls[0] }),
    connectionTimeoutMillis: patience.connectMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveDelayMs,
  };
}

/**
 * Ends the connection of a connected client once nothing was heard or sent for so long; whatever waits on it fails. On
 * the socket rather than per query: it costs a query nothing, and leaves no connection behind whose answer is still due.
 */
export function endWhenSilent(client: pg.Client | pg.PoolClient, silenceMs: number): void {
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  stream.setTimeout(silenceMs, () => {
    const error = new Error(`no word from the database for ${silenceMs / 1000} s`);
    stream.destroy(Object.assign(error, { code: 'ETIMEDOUT' }));
  });
}
