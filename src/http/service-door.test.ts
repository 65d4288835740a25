import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import type { CallOutcome } from '#runner/call-outcome.ts';
import { type RunnerFixture, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { ServiceDoor } from './service-door.ts';

function resultOf(outcome: CallOutcome): unknown {
  assert.equal(outcome.status, 'finished', JSON.stringify(outcome.error));
  return JSON.parse(outcome.result ?? 'null');
}

describe('user code at the door of its own service', () => {
  let fixture: RunnerFixture;
  let publicUrl = '';
  const handled: string[] = [];
  let headers: IncomingMessage['headers'] = {};
  let dialled = 0;
  const door = new ServiceDoor({ publicUrl: () => publicUrl });
  // The port that the service listens on. No connection may ever arrive here.
  const listener = createServer((_request, response) => {
    dialled += 1;
    response.end();
  });

  before(async () => {
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const { port } = listener.address() as AddressInfo;
    publicUrl = `http://127.0.0.1:${port}`;
    const policy = new AddressPolicy({ allow: ['local'], deny: () => [{ address: '127.0.0.1', port }] });
    fixture = await startRunnerFixture({ policy, door });
    door.leadTo((request, response) => {
      handled.push(`${request.method} ${request.url}`);
      headers = request.headers;
      if (request.url === '/files/large') {
        const rest = Buffer.alloc(3 * 1024 * 1024, 'x');
        response.end(rest);
        return;
      }
      let bytes = 0;
      request
        .on('data', (chunk: Buffer) => {
          bytes += chunk.length;
        })
        .on('end', () => response.end(`${request.method} ${request.url} ${bytes}`));
    });
  });
  after(async () => {
    await fixture?.close();
    door.close();
    listener.close();
  });

  test('reads files, calls endpoints and asks for signatures', async () => {
    const outcome = await fixture.run(`
      const post = await fetch('${publicUrl}/in/abc/x?y=1', { method: 'POST', body: 'b'.repeat(300000), headers: { 'x-forwarded-for': '9.9.9.9' } });
      const many = await Promise.all([1, 2, 3].map(async (n) => (await fetch('${publicUrl}/files/' + n)).status));
      const large = await (await fetch('${publicUrl}/files/large')).arrayBuffer();
      const signed = await fetch('${publicUrl}/oauth1/sign/apn_x.y', { method: 'POST', body: '{}' });
      return [await post.text(), many, large.byteLength, await signed.text()];`);
    assert.deepEqual(resultOf(outcome), [
      'POST /in/abc/x?y=1 300000',
      [200, 200, 200],
      3 * 1024 * 1024,
      'POST /oauth1/sign/apn_x.y 2',
    ]);
    assert.equal(headers['x-forwarded-for'], undefined);
  });

  test('does not reach the API, however it writes the request', async () => {
    handled.length = 0;
    const port = new URL(publicUrl).port;
    const requests = [
      'GET /v1/users/me HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET //in/abc HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET /IN/abc HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET /%69n/abc HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET /v1/users/me?/in/ HTTP/1.1\r\nHost: x\r\n\r\n',
      'POST /oauth1/signer HTTP/1.1\r\nHost: x\r\n\r\n',
      'POST /oauth1/../v1/users/me HTTP/1.1\r\nHost: x\r\n\r\n',
      `GET ${publicUrl}/v1/users/me HTTP/1.1\r\nHost: x\r\n\r\n`,
      `GET ${publicUrl}/in/abc HTTP/1.1\r\nHost: x\r\n\r\n`,
      'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET /v1/x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
      'CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n',
      'nonsense\r\n\r\n',
      // A second request behind the first, and one hidden in its body.
      'GET /in/one HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/users/me HTTP/1.1\r\nHost: x\r\n\r\n',
      'POST /in/two HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/users/me HTTP/1.1\r\nHost: x\r\n\r\n',
    ];
    const outcome = await fixture.run(`
      const net = require('net');
      const ask = (text) => new Promise((resolve) => { const socket = net.connect(${port}, '127.0.0.1'); let answer = '';
        socket.on('error', (error) => resolve(error.code)).on('data', (chunk) => { answer += chunk; }).on('close', () => resolve(answer.split('\\r\\n')[0]));
        socket.end(text); });
      const answers = [];
      for (const text of ${JSON.stringify(requests)}) answers.push(await ask(text));
      return answers;`);
    const answers = resultOf(outcome) as string[];
    assert.equal(answers.length, requests.length);
    assert.deepEqual([...new Set(answers.slice(0, 12))], ['HTTP/1.1 403 Forbidden']);
    assert.deepEqual(
      handled.filter((line) => line !== 'GET /in/one'),
      [],
    );
    assert.equal(dialled, 0);
  });

  test('gets nowhere beside the door: other names of the machine, and its port once the door is closed', async () => {
    const { port } = new URL(publicUrl);
    const tried = `
      const codes = [];
      for (const url of ['http://localhost:${port}/in/a', 'http://[::1]:${port}/in/a', 'http://0.0.0.0:${port}/in/a', 'http://127.0.0.2:${port}/in/a'])
        codes.push(await fetch(url).then((response) => response.status, (error) => error.cause?.code ?? error.message));
      return codes;`;
    assert.deepEqual(resultOf(await fixture.run(tried)), ['EACCES', 'EACCES', 'EACCES', 'EACCES']);
    const secure = new ServiceDoor({ publicUrl: () => 'https://m.example' });
    secure.leadTo(() => {});
    assert.equal(secure.takes('m.example', 443), false);
    const named = new ServiceDoor({ publicUrl: () => 'http://M.example' });
    assert.equal(named.takes('m.example', 80), false, 'not before it leads anywhere');
    named.leadTo(() => {});
    assert.deepEqual(
      [named.takes('m.example', 80), named.takes('M.EXAMPLE.', 80), named.takes('m.example', 8080)],
      [true, true, false],
    );
    secure.close();
    named.close();
    assert.equal(dialled, 0);
  });

  test('holds nothing of the service when it goes in the middle of an answer', async () => {
    const outcome = await fixture.run(`
      const net = require('net');
      await Promise.all([...Array(20)].map(() => new Promise((resolve) => {
        const socket = net.connect(${new URL(publicUrl).port}, '127.0.0.1');
        socket.once('data', () => { socket.destroy(); resolve(); });
        socket.write('GET /files/large HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); })));
      return 'gone';`);
    assert.equal(resultOf(outcome), 'gone');
    await waitFor(() => door.connections === 0);
  });
});
