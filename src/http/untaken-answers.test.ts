import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { waitFor } from '../../test/support/wait-for.ts';
import { countedBytes, UntakenAnswers } from './untaken-answers.ts';

const megabyte = 1024 * 1024;
const gigabyte = 1024 * megabyte;

describe('answers that are not taken', () => {
  let server: Server;
  let answers: UntakenAnswers;
  let nowMs = 0;
  const sockets: Socket[] = [];
  const responses: ServerResponse[] = [];

  beforeEach(async () => {
    nowMs = 0;
    server = createServer((_request, response) => responses.push(response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => {
    answers.close();
    for (const socket of sockets.splice(0)) socket.destroy();
    responses.splice(0);
    server.close();
  });

  /** A response whose caller reads nothing until its socket is resumed. */
  const request = async () => {
    const { port } = server.address() as AddressInfo;
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    sockets.push(socket);
    socket.pause();
    const count = responses.length;
    socket.write('GET / HTTP/1.1\r\nhost: here\r\n\r\n');
    await waitFor(() => responses.length > count);
    return { socket, response: responses.at(-1) as ServerResponse };
  };
  /** So many megabytes are sent, and not taken. */
  const send = async (who: string, megabytes: number) => {
    const { socket, response } = await request();
    answers.begin(who, response).sends(Math.max(1, megabytes) * megabyte);
    if (megabytes > 0) response.end(Buffer.alloc(megabytes * megabyte));
    return { socket, response };
  };

  test('a caller with 64 MB that it does not take gets small answers only, until it takes them', async () => {
    answers = new UntakenAnswers({ memoryBytes: 8 * gigabyte });
    const first = await send('a', 40);
    assert.ok(answers.bytesOf('a') > 30 * megabyte, 'the socket takes some');
    answers.requireRoom('a', 10 * megabyte);
    assert.throws(() => answers.requireRoom('a', 40 * megabyte), { code: 'overloaded' });
    answers.requireRoom('a', 1_000);
    answers.requireRoom('a', 40 * megabyte, 256 * megabyte);
    answers.requireRoom('b', 100 * megabyte);
    first.socket.resume();
    await waitFor(() => answers.bytesOf('a') === 0);
    answers.requireRoom('a', 100 * megabyte);
  });

  test('what is not made yet waits for room, in order, and others are not kept waiting', async () => {
    answers = new UntakenAnswers({ memoryBytes: 8 * gigabyte });
    const first = await send('a', 60);
    const waiting = answers.begin('a', (await request()).response);
    const done: string[] = [];
    const waits = [waiting.turn(30 * megabyte), waiting.turn(30 * megabyte)];
    void waits[0]?.then(() => done.push('first'));
    void waits[1]?.then(() => done.push('second'));
    const other = answers.begin('b', (await request()).response);
    assert.equal(other.turn(30 * megabyte), undefined);
    assert.deepEqual(done, []);
    first.socket.destroy();
    await waits[0];
    await waits[1];
    assert.deepEqual(done, ['first', 'second']);
    assert.equal(answers.bytesOf('a'), 60 * megabyte, 'what may be made counts');
    waiting.sends(50 * megabyte);
    assert.equal(answers.bytesOf('a'), 10 * megabyte);
  });

  test('an answer that waits for room and whose caller has gone waits no longer, and the end of the service ends all waits', async () => {
    answers = new UntakenAnswers({ memoryBytes: 8 * gigabyte });
    await send('a', 70);
    const gone = await request();
    const turn = answers.begin('a', gone.response).turn(30 * megabyte);
    const kept = answers.begin('a', (await request()).response).turn(30 * megabyte);
    gone.socket.destroy();
    await turn;
    answers.begin('c', gone.response).turn(2 * countedBytes);
    assert.equal(answers.bytesOf('c'), 0, 'what is not sent any longer does not count for ever');
    answers.close();
    await kept;
  });

  test('all together have an eighth of the memory, beyond 8 MB of each', async () => {
    answers = new UntakenAnswers({ memoryBytes: 800 * megabyte });
    await send('a', 60);
    await send('b', 50);
    assert.throws(() => answers.requireRoom('b', megabyte), { code: 'overloaded' });
    answers.requireRoom('c', 7 * megabyte);
  });

  test('a connection that takes nothing for a minute is closed, a slow one is not', async () => {
    let looks = 0;
    const clock = () => {
      looks += 1;
      return nowMs;
    };
    answers = new UntakenAnswers({ memoryBytes: 8 * gigabyte, nowMs: clock, lookMs: 1 });
    const stuck = await send('a', 10);
    const slow = await send('b', 0);
    const closed = once(stuck.response, 'close');
    for (let n = 0; n < 12; n += 1) {
      // Each part is taken when the next one comes.
      slow.socket.resume();
      await waitFor(() => answers.bytesOf('b') === 0);
      slow.socket.pause();
      slow.response.write(Buffer.alloc(10 * megabyte));
      // It is looked at with what was taken, and with this time.
      const before = looks;
      await waitFor(() => looks > before + 1);
      nowMs += 40_000;
    }
    await closed;
    assert.equal(slow.response.destroyed, false);
    const slowClosed = once(slow.response, 'close');
    nowMs += 60_000 + (10 * megabyte) / 32;
    await slowClosed;
  });
});
