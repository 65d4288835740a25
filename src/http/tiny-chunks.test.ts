import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { patienceMs, within } from '../../test/support/wait-for.ts';
import { refuseTinyChunks } from './tiny-chunks.ts';

describe('bodies in chunks', () => {
  let chunksSeen = 0;
  let bodiesTaken = 0;
  const server = createServer((request, response) => {
    let bytes = 0;
    chunksSeen = 0;
    request.on('data', (chunk: Buffer) => {
      chunksSeen += 1;
      bytes += chunk.length;
    });
    request.on('end', () => {
      bodiesTaken += 1;
      response.end(String(bytes));
    });
    request.on('error', () => {});
  });
  let waitMs = 0;
  refuseTinyChunks(server, () => waitMs);
  before(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  after(() => server.close());

  const answerTo = async (chunk: string, count: number): Promise<string> => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.on('error', () => {});
    let answer = '';
    socket.on('data', (data) => {
      answer += data;
    });
    const head = 'POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n';
    socket.write(`${head}${`${chunk.length.toString(16)}\r\n${chunk}\r\n`.repeat(count)}0\r\n\r\n`);
    const closed = new Promise((resolve) => socket.on('close', resolve));
    await within(closed, patienceMs, 'the end of the connection');
    return answer;
  };

  test('two thousand of one byte are taken, and any number of sixteen', async () => {
    assert.match(await answerTo('x', 2_000), /\r\n\r\n(?:.*\r\n)?2000/s);
    assert.match(await answerTo('x'.repeat(16), 10_000), /\r\n\r\n(?:.*\r\n)?160000/s);
  });

  test('more tiny ones end the request with 400, and are looked at no further', async () => {
    const answer = await answerTo('x', 47_000);
    assert.match(answer, /^HTTP\/1.1 400 /);
    assert.match(answer, /"error":"the body comes in chunks of fewer than 8 bytes: send larger ones/);
    assert.ok(chunksSeen <= 2_000, `${chunksSeen} chunks`);
    const taken = bodiesTaken;
    // All of it comes in one piece, with its end.
    assert.match(await answerTo('x', 5_000), /^HTTP\/1.1 400 /);
    assert.equal(bodiesTaken, taken, 'a part of a body is not taken for the whole');
    waitMs = 100;
    const startedAt = performance.now();
    assert.match(await answerTo('x', 47_000), /^HTTP\/1.1 400 /);
    assert.ok(performance.now() - startedAt > 95);
  });
});
