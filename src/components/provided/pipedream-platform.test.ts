import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import * as platform from './pipedream-platform.ts';
import { axios, ConfigurationError, getFileStream, getFileStreamAndMetadata } from './pipedream-platform.ts';

interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}

let url = '';
const seen: Seen[] = [];
const server = createServer(async (request, response) => {
  const body = await text(request);
  const path = request.url ?? '';
  seen.push({ method: request.method ?? '', url: path, headers: request.headers, body });
  answer(path, response);
});

function answer(path: string, response: ServerResponse): void {
  if (path.startsWith('/echo')) {
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ path }));
  } else if (path.startsWith('/refused')) {
    response.writeHead(422, { 'content-type': 'application/json', 'x-why': 'name' });
    response.end(JSON.stringify({ error: { field: 'name' } }));
  } else if (path === '/empty-500') {
    response.writeHead(500).end();
  } else if (path === '/sign') {
    response.end('OAuth oauth_signature="abc"');
  } else if (path === '/files/report%20a.csv') {
    response.writeHead(200, {
      'content-type': 'text/csv; charset=utf-8',
      'content-length': '4',
      'last-modified': 'Wed, 21 Oct 2026 07:28:00 GMT',
      etag: '"v1"',
    });
    response.end('a,b\n');
  } else if (path === '/files/chunked') {
    response.writeHead(200, { 'content-disposition': 'attachment; filename="../../up.txt"' });
    response.write('hello ');
    response.end('world');
  } else if (path.startsWith('/v1/files/')) {
    // As a signed link of the service answers: to a place of its own, with the name and the type of the file.
    if (path.includes('signature=good')) response.writeHead(302, { location: '/files/report%20a.csv' }).end();
    else response.writeHead(403).end();
  } else if (path === '/files/untyped/Table.XLSX') {
    response.writeHead(200).end('x');
  } else if (path === '/files/gzip.txt') {
    const zipped = gzipSync('x'.repeat(1000));
    response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': zipped.length }).end(zipped);
  } else if (path === '/files/cut') {
    response.writeHead(200).write('half');
    setImmediate(() => response.destroy());
  } else {
    response.writeHead(404).end('nothing here');
  }
}

before(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

function last(): Seen {
  const request = seen.at(-1);
  assert.ok(request);
  return request;
}

/** A step's `$` that remembers what was exported. */
function makeStep(context?: object) {
  const exported: Record<string, unknown> = {};
  return {
    exported,
    context,
    export(name: string, value: unknown) {
      exported[name] = value;
    },
  };
}

interface TidyError extends Error {
  response: { status: number; headers: Record<string, unknown>; data: unknown };
  code?: string;
}
async function failure(promise: Promise<unknown>): Promise<TidyError> {
  try {
    await promise;
  } catch (error) {
    return error as TidyError;
  }
  throw new Error('expected a rejection');
}

describe('axios', () => {
  test('resolves to the data, with a step, a component or nothing as first argument', async () => {
    const component = { app: {}, methods: {} };
    for (const step of [makeStep(), component, undefined, null]) {
      assert.deepEqual(await axios(step, { url: `${url}/echo` }), { path: '/echo' });
    }
  });

  test('resolves to the whole response when returnFullResponse is set', async () => {
    const response = (await axios(undefined, { url: `${url}/echo`, returnFullResponse: true })) as {
      status: number;
      data: unknown;
    };
    assert.equal(response.status, 200);
    assert.deepEqual(response.data, { path: '/echo' });
  });

  test('drops undefined keys of headers, params and data', async () => {
    await axios(undefined, {
      method: 'POST',
      url: `${url}/echo`,
      headers: { 'x-kept': 'yes', 'x-dropped': undefined },
      params: { kept: 1, dropped: undefined },
      data: { kept: null, dropped: undefined },
    });
    assert.equal(last().headers['x-kept'], 'yes');
    assert.ok(!('x-dropped' in last().headers));
    assert.equal(last().url, '/echo?kept=1');
    assert.equal(last().body, '{"kept":null}');
  });

  test('leaves data that is not a plain object as it is', async () => {
    await axios(undefined, { method: 'POST', url: `${url}/echo`, data: new URLSearchParams({ a: '1' }) });
    assert.equal(last().body, 'a=1');
    await axios(undefined, { method: 'POST', url: `${url}/echo`, data: Buffer.from('bytes') });
    assert.equal(last().body, 'bytes');
    await axios(undefined, { method: 'POST', url: `${url}/echo`, data: Readable.from(['str', 'eam']) });
    assert.equal(last().body, 'stream');
    await axios(undefined, { method: 'POST', url: `${url}/echo`, data: [1, undefined, 2] });
    assert.equal(last().body, '[1,null,2]');
  });

  test('moves the query of the URL into params, which win', async () => {
    const step = makeStep();
    await axios(step, { url: `${url}/echo?a=url&b=x%20y#part`, params: { a: 'param' }, debug: true });
    assert.equal(last().url, '/echo?b=x+y&a=param');
    const sent = step.exported.debug_config as { url: string; params: unknown };
    assert.equal(sent.url, `${url}/echo`);
    assert.deepEqual(sent.params, { a: 'param', b: 'x y' });
  });

  test('moves the query also beside a baseURL and beside URLSearchParams', async () => {
    await axios(undefined, { baseURL: url, url: '/echo?a=1', params: new URLSearchParams('b=2') });
    assert.equal(last().url, '/echo?a=1&b=2');
  });

  test('keeps a query key that stands several times', async () => {
    await axios(undefined, { url: `${url}/echo?id=1&id=2&x=3` });
    assert.deepEqual(new URLSearchParams(last().url.split('?')[1]).getAll('id'), ['1', '2']);
    assert.equal(new URLSearchParams(last().url.split('?')[1]).get('x'), '3');
  });

  test('refuses a body with a ConfigurationError, and sends nothing', async () => {
    const before = seen.length;
    const error = await failure(axios(undefined, { url: `${url}/echo`, body: {} } as object));
    assert.ok(error instanceof ConfigurationError);
    assert.match(error.message, /"data"/);
    assert.equal(seen.length, before);
    for (const body of [undefined, null, '']) {
      assert.deepEqual(await axios(undefined, { url: `${url}/echo`, body }), { path: '/echo' });
      assert.equal(last().body, '');
    }
  });

  test('exports the request and the response when debug is set', async () => {
    const step = makeStep();
    await axios(step, { url: `${url}/echo`, headers: { 'x-a': 'b' }, debug: true });
    assert.deepEqual(Object.keys(step.exported), ['debug_config', 'debug_response']);
    assert.deepEqual((step.exported.debug_config as { headers: unknown }).headers, { 'x-a': 'b' });
    assert.deepEqual(step.exported.debug_response, { path: '/echo' });
  });

  test('logs what there is no step to export to: of an app instance, of no object, of an instance of axios', async (t) => {
    const lines: string[] = [];
    t.mock.method(console, 'log', (line: string) => lines.push(line));
    const config = { url: `${url}/echo`, headers: { 'x-a': 'b' }, debug: true };
    for (const step of [{ app: 'x', methods: {} }, undefined]) {
      lines.length = 0;
      await axios(step, config);
      assert.deepEqual(
        lines.map((line) => line.split(' - ', 1)[0]),
        ['export: debug_config', 'export: debug_response'],
      );
      assert.match(lines[0] ?? '', /"x-a": "b"/);
      assert.match(lines[1] ?? '', /"path": "\/echo"/);
    }
    lines.length = 0;
    await axios.create({ ...config, baseURL: url }).get('/echo?a=1');
    assert.equal(lines.length, 2);
    assert.match(lines[0] ?? '', /^export: debug_config - \{\n {2}"method": "get",\n {2}"baseURL"/);
    lines.length = 0;
    await failure(axios({ context: {} }, { url: `${url}/refused` }));
    assert.match(lines[0] ?? '', /^export: debug - \{\n {2}"status": 422/);
    lines.length = 0;
    await failure(axios(undefined, { url: `${url}/refused` }));
    await axios(undefined, { url: `${url}/echo` });
    assert.deepEqual(lines, []);
  });

  test('rejects with what the other side said, without request, config and stack', async () => {
    const step = makeStep({ id: 'run' });
    const error = await failure(
      axios(step, { url: `${url}/refused`, headers: { authorization: 'Bearer s3cret' } }),
    );
    assert.equal(error.message, '{"error":{"field":"name"}}');
    assert.equal(error.name, 'AxiosError - Request failed with status code 422');
    assert.equal(error.response.status, 422);
    assert.equal(error.response.headers['x-why'], 'name');
    assert.deepEqual(error.response.data, { error: { field: 'name' } });
    assert.equal((error.response.headers as { get?: (name: string) => unknown }).get?.('X-Why'), 'name');
    for (const gone of ['config', 'request', 'stack']) assert.equal(Object.hasOwn(error, gone), false, gone);
    assert.doesNotMatch(JSON.stringify(Object.getOwnPropertyDescriptors(error)), /s3cret/);
    assert.deepEqual(step.exported.debug, {
      status: 422,
      statusText: 'Unprocessable Entity',
      headers: { ...error.response.headers },
      data: { error: { field: 'name' } },
    });
  });

  test('exports no debug of an error when the step has no context', async () => {
    const step = makeStep();
    await failure(axios(step, { url: `${url}/refused` }));
    assert.deepEqual(step.exported, {});
  });

  test('reads an error that came as bytes, and keeps its own message when nothing was said', async () => {
    const asked = await failure(axios(undefined, { url: `${url}/refused`, responseType: 'arraybuffer' }));
    assert.equal(asked.message, '{"error":{"field":"name"}}');
    const plain = await failure(axios(undefined, { url: `${url}/nowhere` }));
    assert.equal(plain.message, '"nothing here"');
    const empty = await failure(axios(undefined, { url: `${url}/empty-500` }));
    assert.equal(empty.message, 'Request failed with status code 500');
    const streamed = await failure(axios(undefined, { url: `${url}/refused`, responseType: 'stream' }));
    assert.equal(streamed.message, 'Request failed with status code 422');
    assert.equal(await text(streamed.response.data as Readable), '{"error":{"field":"name"}}');
  });

  test('keeps the code of a connection that failed, without the request', async () => {
    const error = await failure(
      axios(undefined, { url: 'http://127.0.0.1:1/', headers: { authorization: 's3cret' } }),
    );
    assert.equal(error.code, 'ECONNREFUSED');
    assert.equal(Object.hasOwn(error, 'config'), false);
    assert.equal(Object.hasOwn(error, 'request'), false);
  });

  test('asks the signer for the OAuth 1 Authorization header', async () => {
    await axios(
      undefined,
      { method: 'post', url: `${url}/echo?a=1`, params: { b: 2 }, data: { c: 3 } },
      { oauthSignerUri: `${url}/sign`, token: { key: 'k' } },
    );
    assert.equal(last().headers.authorization, 'OAuth oauth_signature="abc"');
    const asked = seen.at(-2);
    assert.equal(asked?.method, 'POST');
    assert.deepEqual(JSON.parse(asked?.body ?? ''), {
      requestData: { method: 'POST', url: `${url}/echo?a=1&b=2` },
      token: { key: 'k' },
    });
  });

  test('gives the signer the fields of a form, as they are sent, and of no other body', async () => {
    const form = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' };
    const signed = async (config: object) => {
      await axios(undefined, { url: `${url}/echo`, ...config }, { oauthSignerUri: `${url}/sign`, token: {} });
      return JSON.parse(seen.at(-2)?.body ?? '').requestData;
    };
    const asSent = () => Object.fromEntries(new URLSearchParams(last().body));
    const object = {
      method: 'post',
      headers: form,
      data: { a: 1, 'b c': 'd&e', list: ['x', 'y'], no: undefined },
    };
    assert.deepEqual((await signed(object)).data, { a: '1', 'b c': 'd&e', 'list[]': ['x', 'y'] });
    assert.deepEqual(asSent(), { a: '1', 'b c': 'd&e', 'list[]': 'y' });
    assert.deepEqual((await signed({ method: 'put', data: '?a=1&b=2+3&b=' })).data, {
      '?a': '1',
      b: ['2 3', ''],
    });
    assert.match(last().headers['content-type'] ?? '', /^application\/x-www-form-urlencoded/);
    assert.deepEqual((await signed({ method: 'post', data: new URLSearchParams('a=1') })).data, { a: '1' });
    assert.match(last().headers['content-type'] ?? '', /^application\/x-www-form-urlencoded/);
    const json = { 'Content-Type': 'application/json' };
    for (const data of ['{"a":1}', { a: 1 }]) {
      const asked = await signed({ method: 'post', headers: json, data });
      assert.deepEqual(asked, { method: 'POST', url: `${url}/echo` });
    }
    assert.deepEqual(await signed({ params: { q: "a b+c:$,!'()*" } }), {
      method: 'GET',
      url: `${url}/echo?q=a%20b%2Bc%3A%24%2C%21%27%28%29%2A`,
    });
    assert.equal(last().url, '/echo?q=a%20b%2Bc%3A%24%2C%21%27%28%29%2A');
  });

  test('says to apps that sign by themselves what to sign, in the encoding of OAuth, and changes nothing', () => {
    const { transformConfigForOauth } = platform;
    const config = { baseURL: 'https://a.example/2', url: '/c?x=1', params: { y: 'a b+c', z: "!'()*" } };
    const before = structuredClone(config);
    assert.deepEqual(transformConfigForOauth(config), {
      method: 'GET',
      url: 'https://a.example/2/c?x=1&y=a%20b%2Bc&z=%21%27%28%29%2A',
    });
    assert.deepEqual(config, before);
    assert.deepEqual(transformConfigForOauth({ url: 'https://a.example/', params: {}, data: {} }), {
      method: 'GET',
      url: 'https://a.example/',
    });
    const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
    assert.deepEqual(
      transformConfigForOauth({
        method: 'post',
        url: 'https://a.example/',
        headers: form,
        data: 'z=1&y=a+b',
      }),
      { method: 'POST', url: 'https://a.example/', data: { z: '1', y: 'a b' } },
    );
  });

  test('create makes an instance that treats requests and errors alike', async () => {
    const instance = axios.create({ baseURL: url, headers: { 'x-all': 'yes' } });
    const answer: unknown = await instance.get('/echo?a=1&b=2', { params: { a: 3, gone: undefined } });
    assert.deepEqual(answer, { path: '/echo?b=2&a=3' });
    assert.equal(last().headers['x-all'], 'yes');
    const posted: unknown = await instance({ method: 'post', url: '/echo', data: { a: undefined, b: 1 } });
    assert.deepEqual(posted, { path: '/echo' });
    assert.equal(last().body, '{"b":1}');
    const whole: unknown = await instance.request({ url: '/echo', returnFullResponse: true } as object);
    assert.equal((whole as { status: number }).status, 200);
    const error = await failure(instance.get('/refused'));
    assert.equal(error.message, '{"error":{"field":"name"}}');
    assert.equal(Object.hasOwn(error, 'config'), false);
    assert.ok(
      (await failure(instance.request({ url: '/echo', body: 1 } as object))) instanceof ConfigurationError,
    );
    assert.throws(() => axios.create({ body: 1 } as object), ConfigurationError);
  });

  test('create with a signer signs each request', async () => {
    const instance = axios.create({ baseURL: url }, { oauthSignerUri: `${url}/sign`, token: {} });
    await instance.get('/echo', { params: { a: 1 } });
    assert.equal(last().headers.authorization, 'OAuth oauth_signature="abc"');
    assert.equal(JSON.parse(seen.at(-2)?.body ?? '').requestData.url, `${url}/echo?a=1`);
  });
});

describe('ConfigurationError', () => {
  test('is an Error of that name that hides its stack unless asked', () => {
    const error = new ConfigurationError('set a URL');
    assert.ok(error instanceof Error);
    assert.equal(error.name, 'ConfigurationError');
    assert.equal(String(error), 'ConfigurationError: set a URL');
    assert.equal(error.exposeStack, false);
    assert.equal(new ConfigurationError('x', true).exposeStack, true);
  });
});

describe('file streams', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'platform-files-'));
    await writeFile(join(folder, 'a.json'), '{}');
  });
  after(() => rm(folder, { recursive: true, force: true }));

  test('a local path and a file URL give content, size, type, name and date', async () => {
    assert.equal(await text(await getFileStream(join(folder, 'a.json'))), '{}');
    const { stream, metadata } = await getFileStreamAndMetadata(`file://${folder}/a.json`);
    assert.equal(await text(stream), '{}');
    assert.ok(metadata.lastModified instanceof Date);
    assert.deepEqual(
      { ...metadata, lastModified: 0 },
      { size: 2, contentType: 'application/json', name: 'a.json', lastModified: 0 },
    );
    await assert.rejects(getFileStream(join(folder, 'missing')), { code: 'ENOENT' });
    await assert.rejects(getFileStream(folder), /not a file/);
    await assert.rejects(getFileStream(undefined as never), TypeError);
  });

  test('a local file is opened before it is given, and its stream has the path, from which forms take a name', async () => {
    const path = join(folder, 'b.PDF');
    await writeFile(path, 'content');
    const { stream, metadata } = await getFileStreamAndMetadata(path);
    await rm(path);
    assert.equal((stream as { path?: unknown }).path, path);
    assert.equal(metadata.contentType, 'application/pdf');
    assert.equal(await text(stream), 'content');
    await writeFile(join(folder, 'noext'), '');
    const plain = await getFileStreamAndMetadata(join(folder, 'noext'));
    assert.deepEqual(
      [plain.metadata.size, plain.metadata.contentType, plain.metadata.name],
      [0, undefined, 'noext'],
    );
    assert.equal(await text(plain.stream), '');
  });

  test('a signed link is followed to the file, and one that has ended is an error without the signature', async () => {
    const { stream, metadata } = await getFileStreamAndMetadata(`${url}/v1/files/f_1?signature=good`);
    assert.equal(await text(stream), 'a,b\n');
    assert.deepEqual([metadata.name, metadata.size], ['report a.csv', 4]);
    await assert.rejects(
      getFileStream(`${url}/v1/files/f_1?signature=s3cret`),
      ({ message }: Error) => message.includes('HTTP 403') && !message.includes('s3cret'),
    );
    await assert.rejects(getFileStream('http://127.0.0.1:1/x'), { message: 'fetch failed' });
  });

  test('a URL whose answer names no type has the one of its name', async () => {
    const { stream, metadata } = await getFileStreamAndMetadata(`${url}/files/untyped/Table.XLSX`);
    assert.equal(metadata.contentType, 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet');
    assert.equal(await text(stream), 'x');
  });

  test('a URL gives content and what its headers say', async () => {
    assert.equal(await text(await getFileStream(`${url}/files/report%20a.csv`)), 'a,b\n');
    const { stream, metadata } = await getFileStreamAndMetadata(`${url}/files/report%20a.csv`);
    assert.equal(await text(stream), 'a,b\n');
    assert.deepEqual(metadata, {
      size: 4,
      contentType: 'text/csv; charset=utf-8',
      name: 'report a.csv',
      lastModified: new Date('2026-10-21T07:28:00Z'),
      etag: '"v1"',
    });
    await assert.rejects(getFileStream(`${url}/nowhere`), /HTTP 404/);
  });

  test('an unknown length is measured by way of a temporary file, which does not stay', async () => {
    const left = async () => (await readdir(tmpdir())).filter((name) => name.startsWith('download-'));
    const before = await left();
    const { stream, metadata } = await getFileStreamAndMetadata(`${url}/files/chunked`);
    assert.equal(metadata.size, 11);
    assert.equal(metadata.name, 'up.txt');
    const closed = new Promise((resolve) => stream.once('close', resolve));
    assert.equal(await text(stream), 'hello world');
    await closed;
    while ((await left()).length > before.length) await new Promise((resolve) => setImmediate(resolve));
    const zipped = await getFileStreamAndMetadata(`${url}/files/gzip.txt`);
    assert.equal(zipped.metadata.size, 1000);
    assert.equal((await text(zipped.stream)).length, 1000);
  });

  test('a download that breaks off rejects and leaves no temporary file', async () => {
    const left = async () => (await readdir(tmpdir())).filter((name) => name.startsWith('download-')).length;
    const before = await left();
    await assert.rejects(getFileStreamAndMetadata(`${url}/files/cut`));
    assert.ok((await left()) <= before);
  });

  test('a data URL gives its bytes', async () => {
    const { stream, metadata } = await getFileStreamAndMetadata('data:image/png;base64,AAH/');
    assert.deepEqual([...(await buffer(stream))], [0, 1, 255]);
    assert.deepEqual(metadata, { size: 3, contentType: 'image/png', name: 'file.png' });
    for (const [address, contentType, name] of [
      ['data:,a', 'text/plain', 'file.txt'],
      ['data:;base64,YQ==', 'text/plain', 'file.txt'],
      ['data:image/jpeg;base64,YQ==', 'image/jpeg', 'file.jpg'],
      ['data:application/json,{}', 'application/json', 'file.json'],
      ['data:application/x-unheard-of,a', 'application/x-unheard-of', 'file'],
      ['data:image/png;name=my%20photo.png;base64,YQ==', 'image/png', 'my photo.png'],
      ['data:text/csv;charset=utf-8;filename=../up.csv,a', 'text/csv', 'up.csv'],
    ] as const) {
      const { metadata: found } = await getFileStreamAndMetadata(address);
      assert.deepEqual([found.contentType, found.name], [contentType, name], address);
    }
    assert.equal(await text(await getFileStream('data:,a%20b%C3%A9')), 'a bé');
    assert.equal(await text(await getFileStream('data:text/plain;charset=utf-8,')), '');
    await assert.rejects(getFileStream('data:text/plain'), /no comma/);
  });
});

describe('safe JSON', () => {
  test('names circles, writes bigints and survives getters that throw', () => {
    const value: Record<string, unknown> = { n: 1n, when: new Date(0), twice: [] };
    value.self = value;
    value.again = value.twice;
    Object.defineProperty(value, 'bad', {
      enumerable: true,
      get() {
        throw new Error('no');
      },
    });
    assert.equal(
      platform.jsonStringifySafe(value),
      '{"n":"1","when":"1970-01-01T00:00:00.000Z","twice":[],"self":"[Circular]","again":[],"bad":"[Throws: no]"}',
    );
    assert.equal(platform.jsonStringifySafe({ a: 1 }, 2), '{\n  "a": 1\n}');
    assert.equal(platform.jsonStringifySafe(undefined), undefined);
  });

  test('a clone shares nothing', () => {
    const original = { a: { b: [1] } };
    const clone = platform.cloneSafe(original);
    clone.a.b.push(2);
    assert.deepEqual(original, { a: { b: [1] } });
    assert.equal(platform.cloneSafe(undefined), null);
    assert.equal(
      platform.cloneSafe(() => 1),
      null,
    );
    assert.deepEqual(platform.cloneSafe({ a: undefined, f: () => 1, d: new Date(0), b: Buffer.from('a') }), {
      d: '1970-01-01T00:00:00.000Z',
      b: { type: 'Buffer', data: [97] },
    });
    const polluted = platform.cloneSafe(JSON.parse('{"__proto__":{"x":1}}'));
    assert.equal(({} as { x?: number }).x, undefined);
    assert.ok(Object.hasOwn(polluted as object, '__proto__'));
  });
});

describe('the rest', () => {
  test('a poll is every 900 seconds by default', () => {
    assert.equal(platform.DEFAULT_POLLING_SOURCE_TIMER_INTERVAL, 900);
  });

  test('sqlProp and sqlProxy have methods that say they are not implemented', () => {
    for (const [name, method] of [
      ...Object.entries(platform.sqlProp.methods),
      ...Object.entries(platform.sqlProxy.methods),
    ]) {
      assert.throws(
        () => method(),
        (error) =>
          error instanceof ConfigurationError && error.message.startsWith(`${name} is not implemented`),
      );
    }
    assert.deepEqual(Object.keys(platform.sqlProp.methods), ['executeQueryAdapter', 'getSchema']);
    assert.deepEqual(Object.keys(platform.sqlProxy.methods), [
      'getClientConfiguration',
      'executeQuery',
      'proxyAdapter',
    ]);
  });

  test('$end stops by an error that carries the needle', () => {
    assert.equal(platform.END_NEEDLE, '__pd_end');
    assert.throws(
      () => platform.$end('enough'),
      (error: Error & { __pd_end?: { message?: string; ts: string } }) => {
        assert.equal(error.message, 'enough');
        assert.equal(error.__pd_end?.message, 'enough');
        return !Number.isNaN(Date.parse(error.__pd_end?.ts ?? ''));
      },
    );
    assert.throws(() => platform.$end(), { message: '' });
  });

  test('$send and $event exist, and $send says where it went', () => {
    assert.deepEqual(platform.$event, {});
    assert.deepEqual(Object.keys(platform.$send), Object.keys(platform.sendTypeMap));
    assert.throws(() => platform.$send.http({ url: 'x' }), /use \$\.send\.http/);
  });

  test('send configurations are checked by kind, the method in upper case', () => {
    const { $sendConfigRuntimeTypeChecker: checker, sendTypeMap } = platform;
    const kinds = ['email', 'emit', 'http', 's3', 'sql', 'snowflake', 'sse'];
    assert.deepEqual(Object.keys(checker), kinds);
    assert.deepEqual(Object.keys(sendTypeMap), kinds);
    assert.deepEqual(
      platform.HTTP_METHODS,
      'GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH'.split(' '),
    );
    const snowflake = 'account database host payload pipe_name private_key schema stage_name user'.split(' ');
    const right: Record<string, object[]> = {
      email: [{}, { subject: 's', text: 't', html: 'h' }],
      emit: [{ raw_event: {} }, { raw_event: {}, event: {}, other: 1 }],
      http: [
        { method: 'GET', url: 'https://example.com' },
        {
          method: 'PATCH',
          url: 'x',
          data: [1],
          headers: {},
          params: {},
          auth: { username: 'u', password: 'p' },
        },
      ],
      s3: [{ bucket: 'b', prefix: 'p', payload: {} }],
      sql: [{ table: 't', payload: 'text' }],
      snowflake: [Object.fromEntries(snowflake.map((field) => [field, 'x']))],
      sse: [{ channel: 'c', payload: {} }],
    };
    for (const kind of kinds as (keyof typeof checker)[])
      for (const config of right[kind] ?? []) {
        assert.doesNotThrow(() => checker[kind](config), kind);
        assert.ok(sendTypeMap[kind].is(config));
        assert.deepEqual(sendTypeMap[kind].decode(config), { _tag: 'Right', right: config });
      }
    const wrong: [keyof typeof checker, unknown, string][] = [
      ['http', { method: 'get', url: 'x' }, '$send.http: invalid value get for method'],
      ['http', { url: 'x' }, '$send.http: invalid value undefined for method'],
      ['http', { method: 'GET' }, '$send.http: invalid value undefined for url'],
      ['http', { method: 'GET', url: 'x', data: 5 }, '$send.http: invalid value 5 for data'],
      [
        'http',
        { method: 'GET', url: 'x', auth: { username: 'u' } },
        '$send.http: invalid value {"username":"u"} for auth',
      ],
      ['http', null, '$send.http: invalid value null for the configuration'],
      ['email', { subject: 3 }, '$send.email: invalid value 3 for subject'],
      ['emit', {}, '$send.emit: invalid value undefined for raw_event'],
      ['s3', {}, '$send.s3: invalid value undefined for bucket'],
      ['sql', { table: 't' }, '$send.sql: invalid value undefined for payload'],
      ['snowflake', {}, '$send.snowflake: invalid value undefined for account'],
      ['sse', { channel: 'c' }, '$send.sse: invalid value undefined for payload'],
    ];
    for (const [kind, config, message] of wrong) {
      assert.throws(() => checker[kind](config), { name: 'Error', message });
      assert.equal(sendTypeMap[kind].is(config), false);
      assert.equal(sendTypeMap[kind].decode(config)._tag, 'Left');
    }
  });

  test('the types of send configurations are values too', () => {
    assert.equal(platform.SendConfigHTTP, platform.sendTypeMap.http);
    assert.equal(platform.SendConfigEmail, platform.sendTypeMap.email);
    assert.equal(platform.SendConfigEmit, platform.sendTypeMap.emit);
    assert.equal(platform.SendConfigS3, platform.sendTypeMap.s3);
    assert.equal(platform.SendConfigSQL, platform.sendTypeMap.sql);
    assert.equal(platform.SendConfigSnowflake, platform.sendTypeMap.snowflake);
    assert.equal(platform.SendConfigSSE, platform.sendTypeMap.sse);
    assert.equal(platform.SendConfigEmit_required.is({ raw_event: {} }), true);
    assert.equal(platform.SendConfigEmit_required.is({ event: {} }), false);
    assert.equal(platform.SendConfigEmit_optional.is({}), true);
    assert.equal(platform.SendConfigEmit_optional.is({ event: 1 }), false);
    assert.equal(platform.SendConfigHTTP.name, 'SendConfigHTTP');
  });

  test('no account counts as one of the vendor itself', () => {
    assert.equal(typeof platform.PD_OFFICIAL_GMAIL_OAUTH_CLIENT_ID, 'string');
    assert.doesNotMatch(platform.PD_OFFICIAL_GMAIL_OAUTH_CLIENT_ID, /googleusercontent/);
  });

  test('everything is there by name, and as the default', () => {
    const { default: whole, ...names } = platform;
    assert.deepEqual(Object.keys(names).sort(), [
      '$end',
      '$event',
      '$send',
      '$sendConfigRuntimeTypeChecker',
      'ConfigurationError',
      'DEFAULT_POLLING_SOURCE_TIMER_INTERVAL',
      'END_NEEDLE',
      'HTTP_METHODS',
      'PD_OFFICIAL_GMAIL_OAUTH_CLIENT_ID',
      'SendConfigEmail',
      'SendConfigEmit',
      'SendConfigEmit_optional',
      'SendConfigEmit_required',
      'SendConfigHTTP',
      'SendConfigS3',
      'SendConfigSQL',
      'SendConfigSSE',
      'SendConfigSnowflake',
      'axios',
      'cloneSafe',
      'getFileStream',
      'getFileStreamAndMetadata',
      'jsonStringifySafe',
      'sendTypeMap',
      'sqlProp',
      'sqlProxy',
      'transformConfigForOauth',
    ]);
    assert.deepEqual({ ...whole }, names);
  });

  test('bundles into one CommonJS text for import and for require, alone', async () => {
    const entry = `
      const { axios, ConfigurationError } = require('@pipedream/platform');
      const { defineSource } = require('@pipedream/types');
      module.exports = { axios, ConfigurationError, source: defineSource({ name: 'x' }) };`;
    const { outputFiles } = await build({
      stdin: { contents: entry, resolveDir: import.meta.dirname },
      alias: {
        '@pipedream/platform': join(import.meta.dirname, 'pipedream-platform.ts'),
        '@pipedream/types': join(import.meta.dirname, 'pipedream-types.ts'),
      },
      bundle: true,
      platform: 'node',
      format: 'cjs',
      write: false,
      logLevel: 'silent',
    });
    const module = { exports: {} as Record<string, unknown> };
    const load = new Function('module', 'exports', 'require', outputFiles[0]?.text ?? '');
    load(module, module.exports, (name: string) => process.getBuiltinModule(name));
    const { axios: bundled, source } = module.exports as { axios: typeof axios; source: unknown };
    assert.deepEqual(source, { name: 'x' });
    assert.deepEqual(await bundled(undefined, { url: `${url}/echo` }), { path: '/echo' });
  });
});
