import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { orderRequests } from './ordered-requests.ts';

/** A server whose answers the test gives, and a connection to it. */
async function listen(t: TestContext) {
  const begun: { path: string; response: ServerResponse }[] = [];
  let waitsFor = 0;
  let reached = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    begun.push({ path: request.url ?? '', response });
    if (begun.length >= waitsFor) reached.resolve();
  });
  let excesses = 0;
  orderRequests(server, () => {
    excesses += 1;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.on('error', () => undefined);
  t.after(() => {
    socket.destroy();
    server.closeAllConnections();
    server.close();
  });
  return {
    ...{ begun, server, socket },
    excesses: () => excesses,
    /** Until so many requests have begun. */
    begins: async (count: number) => {
      waitsFor = count;
      reached = Promise.withResolvers();
      if (begun.length < count) await reached.promise;
    },
  };
}

const requests = (count: number, last = '') =>
  Array.from(
    { length: count },
    (_, n) => `GET /${n} HTTP/1.1\r\nhost: a\r\n${n === count - 1 ? last : ''}\r\n`,
  ).join('');

test('requests that come at once are worked on one after the other, and answered in their order', async (t) => {
  const { begun, socket, begins, excesses } = await listen(t);
  socket.write(requests(20, 'connection: close\r\n'));
  const answers = text(socket);
  for (let n = 0; n < 20; n += 1) {
    await begins(n + 1);
    assert.equal(begun.length, n + 1, 'no other has begun');
    begun[n]?.response.end(`answer ${n};`);
  }
  const bodies = [...(await answers).matchAll(/answer (\d+);/g)].map(([, n]) => Number(n));
  assert.deepEqual(
    bodies,
    Array.from({ length: 20 }, (_, n) => n),
  );
  assert.equal(excesses(), 0);
});

test('a connection with more than twenty requests without an answer is closed, and those that wait do not begin', async (t) => {
  const { begun, socket, excesses, server } = await listen(t);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.write(requests(5_000));
  await closed;
  const ended = once(server, 'close');
  server.close();
  for (const { response } of begun) response.end();
  await ended;
  assert.deepEqual(
    begun.map(({ path }) => path),
    ['/0'],
  );
  assert.equal(excesses(), 1);
});

test('requests whose connection has ended do not begin', async (t) => {
  const { begun, socket, begins, server } = await listen(t);
  socket.write(requests(10));
  await begins(1);
  const first = begun[0]?.response;
  assert.ok(first !== undefined);
  const closed = once(first, 'close');
  socket.destroy();
  await closed;
  const ended = once(server, 'close');
  server.close();
  await ended;
  assert.equal(begun.length, 1);
});
