import type { AddressInfo } from 'node:net';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { ServerCertificate } from './certificates.ts';

/** Code of the request by which a PostgreSQL client asks for TLS, in its second four bytes. */
const sslRequest = 80877103;

/**
 * Stands in front of a PostgreSQL without TLS and speaks it with clients, which managed servers demand and clients
 * therefore insist on. Listens on 127.0.0.1.
 */
export async function startPostgresTls(
  target: { host: string; port: number },
  certificate: ServerCertificate,
): Promise<{ port: number; close: () => Promise<void> }> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((client) => {
    sockets.add(client);
    client.on('error', () => client.destroy());
    client.once('data', (hello: Buffer) => {
      if (hello.length !== 8 || hello.readUInt32BE(4) !== sslRequest) {
        client.destroy();
        return;
      }
      client.write('S');
      const secure = new TLSSocket(client, { isServer: true, ...certificate });
      const upstream = connect(target.port, target.host);
      sockets.add(upstream);
      secure.pipe(upstream).pipe(secure);
      for (const [one, other] of [
        [secure, upstream],
        [upstream, secure],
      ] as const)
        one.on('error', () => other.destroy()).on('close', () => other.destroy());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
