import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Registry } from 'prom-client';
import type { Logger } from '#lib/logger.ts';
import { within } from '../../test/support/wait-for.ts';
import { type ConnectionLimitOptions, limitConnections } from './connection-limits.ts';

/** A server with these limits, and what it has logged. */
async function listen(t: TestContext, options: Partial<ConnectionLimitOptions>) {
  const server = createServer((_request, response) => response.end('answered'));
  const lines: unknown[] = [];
  const logger = { warn: (line: unknown, event: string) => lines.push([event, line]) };
  const metrics = new Registry();
  let nowMs = 0;
  limitConnections(server, {
    ...{ perAddressMax: 1000, descriptorsMax: undefined, isTrustedProxy: () => false },
    ...{ metrics, nowMs: () => nowMs },
    logger: logger as unknown as Logger,
    ...options,
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const later = () => {
    nowMs += 60_000;
  };
  return { server, lines, later, metrics };
}

/** A request without its end. */
function halfSent(server: Server, localAddress: string): { socket: Socket; closed: Promise<unknown> } {
  const { port } = server.address() as AddressInfo;
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  socket.on('error', () => {});
  socket.write('GET / HTTP/1.1\r\nhost: a\r\nx-more:');
  return { socket, closed: new Promise((resolve) => socket.once('close', resolve)) };
}

function answerTo(server: Server, localAddress: string): Promise<string> {
  const { port } = server.address() as AddressInfo;
  return new Promise((resolve) => {
    const request = get({ port, host: '127.0.0.1', localAddress, agent: false }, (response) => {
      response.setEncoding('utf8').once('data', resolve);
    });
    request.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
  });
}

test('half-sent requests of one address hold up no other, and no request of that address when they end', async (t) => {
  const { server, lines, later, metrics } = await listen(t, { perAddressMax: 20 });
  const hundred = Array.from({ length: 100 }, () => halfSent(server, '127.0.0.1'));
  let closed = 0;
  await within(
    new Promise<void>((resolve) => {
      for (const one of hundred)
        void one.closed.then(() => {
          closed += 1;
          if (closed === 80) resolve();
        });
    }),
    20_000,
    'eighty connections to be closed',
  );
  assert.equal(await answerTo(server, '127.0.0.2'), 'answered');
  assert.equal(await answerTo(server, '127.0.0.1'), 'ECONNRESET');
  assert.deepEqual(lines, [
    [
      'http.connections-refused',
      { reason: 'address has too many', address: '127.0.0.1', limit: 20, connections: 1 },
    ],
  ]);
  later();
  assert.equal(await answerTo(server, '127.0.0.1'), 'ECONNRESET');
  assert.deepEqual((lines[1] as [string, object])[1], {
    ...{ reason: 'address has too many', address: '127.0.0.1', limit: 20, connections: 81 },
  });
  assert.match(await metrics.metrics(), /^millrace_http_connections_refused_total 82$/m);
  const [held] = hundred.filter(({ socket }) => !socket.destroyed);
  held?.socket.destroy();
  let answer = '';
  // The server learns of the end by the network.
  while (answer !== 'answered') answer = await answerTo(server, '127.0.0.1');
});

test('a trusted proxy has the connections of many, and no address more than half of what the process can have', async (t) => {
  const few = await listen(t, { descriptorsMax: 20, isTrustedProxy: (address) => address === '127.0.0.9' });
  assert.equal(few.server.maxConnections, 15);
  const own = Array.from({ length: 12 }, () => halfSent(few.server, '127.0.0.1'));
  await Promise.race(own.map(({ closed }) => closed));
  const ofProxy = Array.from({ length: 12 }, () => halfSent(few.server, '127.0.0.9'));
  await Promise.race(ofProxy.map(({ closed }) => closed));
  few.later();
  assert.equal(await answerTo(few.server, '127.0.0.2'), 'ECONNRESET', 'the process has too many');
  const [, line] = few.lines.at(-1) as [string, { reason: string; limit: number }];
  assert.deepEqual([line.reason, line.limit], ['process has too many', 15]);
});
