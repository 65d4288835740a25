import assert from 'node:assert/strict';
import { createServer, IncomingMessage } from 'node:http';
import { type AddressInfo, connect, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { setImmediate as settle } from 'node:timers/promises';
import { UnwantedBodies } from './unwanted-bodies.ts';

const MB = 1024 * 1024;

/** A server that refuses everything, and what it says to bytes. */
async function refusingServer(unwanted = new UnwantedBodies()) {
  const read: boolean[] = [];
  const server = createServer((request, response) => {
    void unwanted.drain(request, '127.0.0.1').then((isRead) => {
      read.push(isRead);
      if (!isRead) response.setHeader('connection', 'close');
      response.writeHead(401).end('no');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    read,
    post: async (init: RequestInit) =>
      (await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', ...init })).status,
    /** Ends when the server closes the connection. */
    answerTo: (bytes: string) => {
      const socket = connect(port, '127.0.0.1');
      socket.write(bytes);
      return text(socket);
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

for (const isChunked of [false, true])
  test(`unwanted bodies are read before the answer, ten megabytes in a second${isChunked ? ', also those that do not say their size' : ''}`, async () => {
    await using server = await refusingServer();
    const bytes = Buffer.alloc(MB);
    const startedAt = performance.now();
    const init = () =>
      isChunked ? ({ body: new Blob([bytes]).stream(), duplex: 'half' } as RequestInit) : { body: bytes };
    const statuses = await Promise.all(Array.from({ length: 10 }, () => server.post(init())));
    assert.ok(performance.now() - startedAt > 900);
    assert.deepEqual(statuses, Array(10).fill(401));
    assert.deepEqual(server.read, Array(10).fill(true));
  });

test('a body that is declared larger than 64 MB is not read: the connection is closed after the answer', async () => {
  await using server = await refusingServer();
  const answer = await server.answerTo(
    `POST / HTTP/1.1\r\nhost: a\r\ncontent-length: ${64 * MB + 1}\r\n\r\n`,
  );
  assert.match(answer, /^HTTP\/1\.1 401 /);
});

test('a body that does not arrive keeps the answer waiting for a time, and the connection is closed then', async () => {
  await using server = await refusingServer(new UnwantedBodies({ patienceMs: 50 }));
  const answer = await server.answerTo('POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\nabc');
  assert.match(answer, /^HTTP\/1\.1 401 /);
  assert.deepEqual(server.read, [false]);
});

test('small bodies are left to Node', async () => {
  await using server = await refusingServer();
  const answer = server.answerTo(
    'POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 65535\r\n\r\n',
  );
  assert.match(await answer, /^HTTP\/1\.1 401 /);
  assert.deepEqual(server.read, [true]);
});

test('a sender that is slow, but sends, has its answer after the end of the body', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const request = new IncomingMessage(new Socket());
  request.headers = { 'content-length': '100000' };
  let isRead: boolean | undefined;
  void new UnwantedBodies().drain(request, '127.0.0.1').then((read) => {
    isRead = read;
  });
  for (let n = 0; n < 5; n += 1) {
    await settle();
    request.push(Buffer.alloc(20_000));
    await settle();
    t.mock.timers.tick(9_000);
    assert.equal(isRead, undefined);
  }
  request.push(null);
  await settle();
  await settle();
  assert.equal(isRead, true);
});
