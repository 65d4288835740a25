import type { Duplex } from 'node:stream';

/**
 * Where connections of user code to the service itself come in, instead of being dialled: the service's own port is
 * denied to user code, and this shows it nothing but what strangers may use anyway. Made by http/service-door.ts.
 */
export interface EgressDoor {
  /** True when host and port, as user code wrote them, are the service's public address. */
  takes(host: string, port: number): boolean;
  /** The other end of a connection; destroying it ends the connection on both sides. */
  open(): Duplex;
}
