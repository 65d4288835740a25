import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { AddressPolicy } from './address-policy.ts';
import { createGuardedDispatcher } from './guarded-dispatcher.ts';
import { guardedPost, postTarget } from './guarded-post.ts';

const policy = new AddressPolicy({ allow: ['127.0.0.0/8'], deny: () => [] });
const dispatcher = createGuardedDispatcher({ policy, connectionsPerOrigin: null });
after(() => dispatcher.destroy());

/** A server that answers the first bytes of each connection with `answer`. */
async function receiver(answer: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', () => answer(socket));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    target: postTarget(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`),
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

const post = (target: ReturnType<typeof postTarget>, timeoutMs = 500) =>
  guardedPost(dispatcher, target, {
    headers: {},
    body: Buffer.from('{}'),
    timeoutMs,
    bodyBytesMax: 1024,
    signal: new AbortController().signal,
  });

/** Writes as much as the other side takes, until it has gone. */
const flood = (head: string, more: string) => (socket: Socket) => {
  const write = () => {
    while (!socket.destroyed && socket.write(more)) {}
  };
  socket.on('drain', write);
  socket.write(head);
  write();
};

const hostile: Record<string, [answer: (socket: Socket) => void, expected: number | RegExp]> = {
  'headers without end': [flood('HTTP/1.1 200 OK\r\nx: ', 'a'.repeat(10_000)), /Headers Overflow/],
  'early hints without end': [flood('', 'HTTP/1.1 103 Early\r\n\r\n'.repeat(1_000)), /did not answer within/],
  'half a head': [(socket) => socket.write('HTTP/1.1 200 OK\r\nx: 1\r\n'), /did not answer within/],
  'a body without end': [flood('HTTP/1.1 200 OK\r\n\r\n', 'a'.repeat(100_000)), 200],
  'a body that stops': [(socket) => socket.write('HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nabc'), 500],
  'trailers without end': [
    flood('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n', 'a: b\r\n'.repeat(1_000)),
    200,
  ],
  'HTTP/1.0 without a length': [(socket) => socket.end('HTTP/1.0 200 OK\r\n\r\nabc'), 200],
  'status 600': [(socket) => socket.write('HTTP/1.1 600 What\r\ncontent-length: 0\r\n\r\n'), 600],
  'status 099': [(socket) => socket.write('HTTP/1.1 099 What\r\ncontent-length: 0\r\n\r\n'), /./],
  'another protocol': [(socket) => socket.write('HTTP/1.1 101 Up\r\nupgrade: x\r\n\r\n'), /./],
  'a reset': [(socket) => socket.resetAndDestroy(), /ECONNRESET|other side closed/],
  'two answers': [
    (socket) =>
      socket.write(
        'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n',
      ),
    200,
  ],
  'a redirect': [
    (socket) =>
      socket.write('HTTP/1.1 308 There\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n'),
    308,
  ],
};

for (const [what, [answer, expected]] of Object.entries(hostile))
  test(`${what}: the time is bounded, and the status counts when it came`, async () => {
    await using server = await receiver(answer);
    const begun = performance.now();
    const answered = post(server.target);
    if (typeof expected === 'number') {
      const { status, body } = await answered;
      assert.equal(status, expected);
      assert.ok(body.length <= 1024);
    } else await assert.rejects(answered, expected);
    assert.ok(performance.now() - begun < 30_000);
  });

test('an idle connection is closed after some seconds, whatever the receiver asks for', async () => {
  await using server = await receiver((socket) =>
    socket.write('HTTP/1.1 200 OK\r\nkeep-alive: timeout=600\r\ncontent-length: 0\r\n\r\n'),
  );
  await Promise.all([1, 2, 3].map(() => post(server.target)));
  await Promise.all(
    [...server.sockets].map((socket) => once(socket, 'close', { signal: AbortSignal.timeout(8_000) })),
  );
});
