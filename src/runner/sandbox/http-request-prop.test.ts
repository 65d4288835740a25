import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { after, before, describe, test } from 'node:test';
import { createTempFolder } from '../../../test/support/temp-folder.ts';
import { makeHttpRequest } from './http-request-prop.ts';

interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}

describe('execute() of an http_request prop', () => {
  let server: Server;
  let origin: string;
  let seen: Seen;

  before(async () => {
    server = createServer(async (request, response) => {
      const { method = '', url = '', headers } = request;
      seen = { method, url, headers, body: await text(request) };
      const path = new URL(url, 'http://x').pathname;
      if (path === '/missing')
        response.writeHead(404, { 'content-type': 'application/json' }).end('{"why":"gone"}');
      else if (path === '/broken') response.writeHead(503).end('later');
      else if (path === '/image')
        response.writeHead(200, { 'content-type': 'image/png' }).end(Buffer.from([0, 255]));
      else if (path === '/latin') {
        response
          .writeHead(200, { 'content-type': 'text/plain; charset=iso-8859-1' })
          .end(Buffer.from([0xe4]));
      } else if (path === '/lies')
        response.writeHead(200, { 'content-type': 'application/json' }).end('<html>');
      else if (path === '/empty') response.writeHead(204).end();
      else if (path === '/large') {
        response.writeHead(200, { 'content-type': 'text/plain' });
        const piece = Buffer.alloc(1024 * 1024, 'a');
        await pipeline(Readable.from(Array.from({ length: 80 }, () => piece)), response).catch(() => {});
      } else {
        response
          .writeHead(200, { 'content-type': 'application/vnd.x+json', 'set-cookie': ['a=1', 'b=2'] })
          .end('{"ok":true}');
      }
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });

  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const execute = (config: object, defaults?: object) =>
    makeHttpRequest('httpRequest', defaults, config).execute();

  test('makes the configured request and responds as axios does', async () => {
    const response = await execute({
      method: 'post',
      url: `${origin}/a?x=1`,
      headers: [
        { name: 'X-One', value: '1' },
        { name: 'X-Off', value: '2', disabled: true },
        { name: '', value: '3' },
      ],
      params: [
        { name: 'y', value: 'a b' },
        { name: 'y', value: 2 },
      ],
      body: { contentType: 'application/json', mode: 'raw', raw: '{"a":1}' },
    });
    assert.deepEqual([seen.method, seen.url], ['POST', '/a?x=1&y=a+b&y=2']);
    assert.equal(seen.headers['x-one'], '1');
    assert.equal(seen.headers['x-off'], undefined);
    assert.equal(seen.headers['content-type'], 'application/json');
    assert.equal(seen.body, '{"a":1}');
    assert.equal(response.status, 200);
    assert.equal(response.statusText, 'OK');
    assert.deepEqual(response.data, { ok: true });
    assert.deepEqual(response.headers['set-cookie'], ['a=1', 'b=2']);
  });

  test('uses the default of the prop for fields that the value does not set', async () => {
    await execute({ url: origin }, { method: 'PUT', url: 'http://other.invalid' });
    assert.equal(seen.method, 'PUT');
    const prop = makeHttpRequest('httpRequest', { method: 'PUT' }, { url: origin });
    assert.deepEqual([prop.method, prop.url], ['PUT', origin]);
    await execute({ url: origin });
    assert.equal(seen.method, 'GET');
  });

  test('sends fields as JSON, as a form or as multipart', async () => {
    const fields = [
      { name: 'a', value: '1 & 2' },
      { name: 'b', value: { c: 3 } },
      { name: 'off', value: 'x', disabled: true },
    ];
    const send = (contentType: string) =>
      execute({ method: 'POST', url: origin, body: { contentType, mode: 'fields', fields } });
    await send('application/json');
    assert.deepEqual(JSON.parse(seen.body), { a: '1 & 2', b: { c: 3 } });
    await send('application/x-www-form-urlencoded');
    assert.match(seen.headers['content-type'] ?? '', /^application\/x-www-form-urlencoded/);
    assert.equal(seen.body, 'a=1+%26+2&b=%7B%22c%22%3A3%7D');
    await send('multipart/form-data');
    assert.match(seen.headers['content-type'] ?? '', /^multipart\/form-data; boundary=/);
    assert.match(seen.body, /name="a"\r\n\r\n1 & 2\r\n/);
  });

  test('sends text and objects raw, and no body with GET', async () => {
    await execute({ method: 'POST', url: origin, body: 'plain' });
    assert.deepEqual([seen.body, seen.headers['content-type']], ['plain', 'text/plain;charset=UTF-8']);
    await execute({ method: 'POST', url: origin, body: { type: 'raw', raw: { a: 1 } } });
    assert.deepEqual([seen.body, seen.headers['content-type']], ['{"a":1}', 'application/json']);
    await execute({
      method: 'POST',
      url: origin,
      body: { raw: 'x' },
      headers: { 'Content-Type': 'text/csv' },
    });
    assert.deepEqual([seen.body, seen.headers['content-type']], ['x', 'text/csv']);
    await execute({ method: 'GET', url: origin, body: { raw: 'x' } });
    assert.equal(seen.body, '');
    await execute({ method: 'POST', url: origin, body: { mode: 'raw', raw: '' } });
    assert.equal(seen.body, '');
  });

  test('authorizes with a name and password or a token', async () => {
    await execute({ url: origin, auth: { type: 'basic', username: 'u', password: 'p:w' } });
    assert.equal(seen.headers.authorization, `Basic ${Buffer.from('u:p:w').toString('base64')}`);
    await execute({ url: origin, auth: { type: 'bearer', token: 't' } });
    assert.equal(seen.headers.authorization, 'Bearer t');
    await execute({ url: origin, auth: { type: 'none', token: 't' } });
    assert.equal(seen.headers.authorization, undefined);
    await assert.rejects(
      execute({ url: origin, auth: { type: 'digest' } }),
      /auth\.type is none, basic or bearer/,
    );
  });

  test('auth of an exported workflow is what is filled in', async () => {
    const withAuth = (auth: object) => execute({ url: origin, auth: { type: 'integrated_auth', ...auth } });
    await withAuth({ username: '', password: '', token: '' });
    assert.equal(seen.headers.authorization, undefined);
    await withAuth({ username: '', password: '', token: 't' });
    assert.equal(seen.headers.authorization, 'Bearer t');
    await withAuth({ username: 'u', password: 'p', token: '' });
    assert.equal(seen.headers.authorization, `Basic ${Buffer.from('u:p').toString('base64')}`);
  });

  test('sends files as parts of a form, or as the body', async () => {
    await using folder = await createTempFolder();
    const path = join(folder.path, 'note.csv');
    await writeFile(path, 'a,b\n');
    const post = (body: object) => execute({ method: 'POST', url: origin, body });
    await post({
      contentType: 'multipart/form-data',
      mode: 'fields',
      fields: [
        { name: 'title', value: 'Note' },
        { name: 'upload', type: 'file', value: path },
      ],
    });
    assert.match(seen.body, /name="title"\r\n\r\nNote\r\n/);
    assert.match(seen.body, /name="upload"; filename="note.csv"\r\n[\s\S]*\r\n\r\na,b\n\r\n/);
    await post({ contentType: 'text/csv', mode: 'file', file: path });
    assert.deepEqual([seen.body, seen.headers['content-type']], ['a,b\n', 'text/csv']);
    await post({ mode: 'file', file: path });
    assert.equal(seen.headers['content-type'], 'application/octet-stream');
    await assert.rejects(
      post({ mode: 'file', file: `${path}.missing` }),
      /body\.file: cannot read .*: ENOENT/,
    );
    await assert.rejects(post({ mode: 'file', file: folder.path }), /is not a file/);
    await assert.rejects(
      post({ mode: 'file' }),
      /this\.httpRequest: body\.file: expected the path of a file, found nothing/,
    );
  });

  test('gives the bytes of a response that is asked for so', async () => {
    const response = await makeHttpRequest('httpRequest', undefined, { url: origin }).execute({
      responseType: 'arraybuffer',
    });
    assert.deepEqual(response.data, Buffer.from('{"ok":true}'));
  });

  test('reads responses by their type', async () => {
    assert.deepEqual((await execute({ url: `${origin}/image` })).data, Buffer.from([0, 255]));
    assert.equal((await execute({ url: `${origin}/latin` })).data, 'ä');
    assert.equal((await execute({ url: `${origin}/lies` })).data, '<html>');
    assert.equal((await execute({ url: `${origin}/empty` })).data, '');
  });

  test('a refused status is an error with the response and a code', async () => {
    await assert.rejects(execute({ url: `${origin}/missing` }), (error: Record<string, unknown>) => {
      assert.equal(error.message, 'Request failed with status code 404');
      assert.equal(error.code, 'ERR_BAD_REQUEST');
      const response = error.response as Record<string, unknown>;
      assert.deepEqual([response.status, response.data], [404, { why: 'gone' }]);
      return true;
    });
    await assert.rejects(execute({ url: `${origin}/broken` }), {
      message: 'Request failed with status code 503',
      code: 'ERR_BAD_RESPONSE',
    });
  });

  test('a missing response is an error with the reason', async () => {
    await assert.rejects(execute({ url: 'http://127.0.0.1:1/' }), (error: Error & { code?: unknown }) => {
      assert.match(error.message, /bad port|ECONNREFUSED/);
      return true;
    });
    const closed = createServer();
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
    const { port } = closed.address() as AddressInfo;
    await new Promise((resolve) => closed.close(resolve));
    await assert.rejects(execute({ url: `http://127.0.0.1:${port}/` }), {
      message: `connect ECONNREFUSED 127.0.0.1:${port}`,
      code: 'ECONNREFUSED',
    });
    await assert.rejects(execute({}), { message: 'this.httpRequest: the request has no url' });
    await assert.rejects(execute({ url: 'nowhere' }), /"nowhere" is not a url, expected one such as https:/);
    await assert.rejects(execute({ url: origin, headers: 'a' }), /headers is a list of names and values/);
  });

  test('a response that is too large is not kept in memory', async () => {
    await assert.rejects(execute({ url: `${origin}/large` }), {
      message: 'the response is larger than 64 MB',
      code: 'ERR_BAD_RESPONSE',
    });
  });

  test('the result and the errors of a step do not contain the credentials of the request', async () => {
    const config = { auth: { type: 'bearer', token: 'canary' }, headers: [{ name: 'x', value: 'canary' }] };
    const response = await execute({ url: origin, ...config });
    assert.doesNotMatch(JSON.stringify(response), /canary/);
    assert.deepEqual(Object.keys(response), ['status', 'statusText', 'headers', 'data']);
    assert.equal((response as unknown as { config: { url: string } }).config.url, `${origin}/`);
    await assert.rejects(execute({ url: `${origin}/missing`, ...config }), (error: object) => {
      assert.doesNotMatch(JSON.stringify(error), /canary/);
      return true;
    });
  });
});
