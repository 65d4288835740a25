import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { describe, test } from 'node:test';
import { FakeFiles } from '../../../test/support/fake-files.ts';
import { createTempFolder } from '../../../test/support/temp-folder.ts';
import { makeFileStore } from './file-client.ts';
import type { HostCallFunction } from './host-calls.ts';

const large = Buffer.alloc(2_500_000, 'abcdefg');

describe('$.files', () => {
  test('writes and reads a file of several pieces as streams', async () => {
    const files = new FakeFiles();
    const store = makeFileStore(files.hostCall);
    const file = store.open('./reports//2026/a.bin');
    assert.equal(file.path, 'reports/2026/a.bin');
    assert.equal(file.name, 'a.bin');
    await pipeline(Readable.from(piecesOf(large, 70_001)), await file.createWriteStream('a/b', large.length));
    assert.equal(files.folder('files').get(file.path)?.type, 'a/b');
    assert.ok(files.largestAppend <= 1024 * 1024);
    assert.ok((await file.toBuffer()).equals(large));
    const read: Buffer[] = [];
    for await (const piece of await file.createReadStream()) read.push(piece as Buffer);
    assert.ok(Buffer.concat(read).equals(large));
  });

  test('requests the next piece only when the one before it was used', async () => {
    const files = new FakeFiles();
    files.put('files', 'a', Buffer.alloc(10 * 1024 * 1024));
    const stream = await makeFileStore(files.hostCall).open('a').createReadStream();
    await stream[Symbol.asyncIterator]().next();
    assert.ok(files.asked.filter(({ op }) => op === 'read').length <= 3);
    stream.destroy();
  });

  test('a stream that breaks off, or has another length than announced, leaves the file unchanged', async () => {
    const files = new FakeFiles();
    files.put('files', 'a', 'before');
    const file = makeFileStore(files.hostCall).open('a');
    const breaking = Readable.from(
      (async function* () {
        yield Buffer.from('x');
        throw new Error('broken');
      })(),
    );
    await assert.rejects(file.fromReadableStream(breaking), { message: 'broken' });
    await assert.rejects(file.fromReadableStream(Readable.from(['abc']), 'text/plain', 4), {
      message: '$.files: a was announced with 4 bytes, 3 were written',
    });
    assert.equal(await file.toEncodedString('utf-8'), 'before');
  });

  test('a file that is replaced while it is read causes an error instead of mixed contents', async () => {
    const files = new FakeFiles();
    files.put('files', 'a', large);
    const stream = await makeFileStore(files.hostCall).open('a').createReadStream();
    await assert.rejects(
      async () => {
        for await (const _ of stream) files.put('files', 'a', Buffer.alloc(large.length));
      },
      { message: '$.files: a changed while it was read' },
    );
  });

  test('copies to and from local files, text, URLs and JSON', async () => {
    await using temp = await createTempFolder('files');
    const files = new FakeFiles();
    const store = makeFileStore(files.hostCall);
    await writeFile(join(temp.path, 'in.txt'), 'größer');
    const file = await store.open('in.txt').fromFile(join(temp.path, 'in.txt'), 'text/plain');
    assert.equal(files.folder('files').get('in.txt')?.type, 'text/plain');
    assert.equal(await file.toEncodedString(), 'größer');
    assert.equal(await file.toEncodedString('base64', 0, 2), Buffer.from('gr').toString('base64'));
    await file.toFile(join(temp.path, 'out.txt'));
    assert.equal(await readFile(join(temp.path, 'out.txt'), 'utf8'), 'größer');
    assert.equal(await file.toUrl(), 'https://x.example/in.txt');
    const json = JSON.parse(JSON.stringify({ file }));
    assert.deepEqual(json, { file: { path: 'in.txt', name: 'in.txt' } });
    assert.equal(await store.openDescriptor(json.file).toEncodedString(), 'größer');
    await file.delete();
    await assert.rejects(file.toBuffer(), { code: 'ENOENT', message: '$.files: there is no file in.txt' });
    await assert.rejects(file.createReadStream(), { code: 'ENOENT' });
    await file.delete();
  });

  test('a descriptor of a file in a stash opens that file', async () => {
    const files = new FakeFiles();
    files.put('stash_1', 'a', 'of the stash');
    files.put('files', 'a', 'of the project');
    const json = makeFileStore(files.hostCall, { folder: 'stash_1' }).open('a').toJSON();
    assert.deepEqual(json, { path: 'a', name: 'a', stash_id: 'stash_1' });
    assert.equal(await makeFileStore(files.hostCall).openDescriptor(json).toEncodedString(), 'of the stash');
  });

  test('downloads from a URL, with the content type; a refusal leaves the file unchanged', async () => {
    const server = createServer((request, response) => {
      if (request.url === '/no' || request.headers.authorization !== 'me')
        response.writeHead(404).end('none');
      else response.writeHead(200, { 'content-type': 'image/png' }).end(large);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const files = new FakeFiles();
      const file = makeFileStore(files.hostCall).open('a.png');
      await file.fromUrl(`${origin}/a.png`, { headers: { authorization: 'me' } });
      assert.equal(files.folder('files').get('a.png')?.type, 'image/png');
      assert.ok((await file.toBuffer()).equals(large));
      await assert.rejects(file.fromUrl(`${origin}/no`), {
        message: `could not download ${origin}: HTTP 404 Not Found`,
      });
      assert.equal((await file.toBuffer()).length, large.length);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  test('lists the direct entries of a folder, each subfolder once', async () => {
    const files = new FakeFiles();
    for (const path of ['a.txt', 'b/1', 'b/2', 'b/c/3', 'b/c/4', 'ba']) files.put('files', path, 'four');
    const store = makeFileStore(files.hostCall);
    const root = await Array.fromAsync(store.dir());
    assert.deepEqual(
      root.map((it) => [it.path, it.name, it.isFile(), it.isDirectory(), it.size]),
      [
        ['a.txt', 'a.txt', true, false, 4],
        ['b', 'b', false, true, undefined],
        ['ba', 'ba', true, false, 4],
      ],
    );
    assert.equal(await root[0]?.file?.toEncodedString(), 'four');
    assert.deepEqual(root[0]?.modifiedAt, new Date(1_700_000_000_000));
    const below = await Array.fromAsync(store.dir('/b/'));
    assert.deepEqual(
      below.map((it) => [it.path, it.name, it.isDirectory()]),
      [
        ['b/1', '1', false],
        ['b/2', '2', false],
        ['b/c', 'c', true],
      ],
    );
    assert.deepEqual(await Array.fromAsync(store.dir('nothing')), []);
  });

  test('refuses paths that leave the folder or are invalid', () => {
    const store = makeFileStore(new FakeFiles().hostCall);
    for (const path of ['', '/', '.', '../a', 'a/../../b', 'a\0b', 7, undefined, 'x'.repeat(2000)])
      assert.throws(() => store.open(path as string), TypeError, String(path).slice(0, 20));
  });

  test('a read-only folder cannot be written, a write-only one cannot be read', async () => {
    const { hostCall } = new FakeFiles();
    const reading = makeFileStore(hostCall, { access: 'read', where: 'this.dir' }).open('a');
    const message = 'this.dir was opened for reading only';
    await assert.rejects(reading.createWriteStream(), { message });
    await assert.rejects(reading.fromUrl('http://127.0.0.1:1/'), { message });
    await assert.rejects(reading.delete(), { message });
    const writing = makeFileStore(hostCall, { access: 'write', where: 'this.dir' }).open('a');
    await assert.rejects(writing.toBuffer(), { message: 'this.dir was opened for writing only' });
    await assert.rejects(writing.toUrl(), { message: 'this.dir was opened for writing only' });
    await writing.fromReadableStream(Readable.from(['a']));
  });
});

/** The test runner fails a test with an uncaught error or an unhandled rejection, so each test waits long enough for one. */
describe('an error of a file that the caller catches stays with the caller', () => {
  const settled = async (): Promise<void> => {
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  };
  /** Answers as late as a real service does, after any early error has happened. */
  const slowly =
    (hostCall: HostCallFunction): HostCallFunction =>
    async (...args) => {
      await settled();
      return hostCall(...args);
    };

  test('a local file that is missing, may not be read or is a folder', async () => {
    await using temp = await createTempFolder('files');
    const files = new FakeFiles();
    files.put('files', 'a', 'before');
    const file = makeFileStore(slowly(files.hostCall)).open('a');
    const missing = join(temp.path, 'missing');
    await assert.rejects(file.fromFile(missing), { code: 'ENOENT', path: missing });
    assert.deepEqual(files.asked, [], 'nothing was asked for a file that is not there');
    await assert.rejects(file.fromFile(temp.path), { code: 'EISDIR' });
    const reading = makeFileStore(slowly(files.hostCall), { access: 'read', where: 'this.dir' }).open('a');
    await assert.rejects(reading.fromFile(missing), { message: 'this.dir was opened for reading only' });
    await settled();
    assert.equal(await file.toEncodedString(), 'before');
  });

  test('a stream that fails before it is read, while the service is called, or of another implementation', async () => {
    const files = new FakeFiles();
    files.put('files', 'a', 'before');
    const file = makeFileStore(slowly(files.hostCall)).open('a');
    const failing = (when: (fail: () => void) => void): Readable => {
      const stream = new Readable({ read() {} });
      when(() => stream.destroy(new Error('broken')));
      return stream;
    };
    for (const when of [
      (fail: () => void) => fail(),
      (fail: () => void) => process.nextTick(fail),
      (fail: () => void) => queueMicrotask(fail),
      (fail: () => void) => setImmediate(fail),
    ]) {
      await assert.rejects(file.fromReadableStream(failing(when)), { message: 'broken' });
      await settled();
    }
    const web = new ReadableStream({ start: (controller) => controller.error(new Error('broken')) });
    await assert.rejects(file.fromReadableStream(web as never), { message: 'broken' });
    const old = Object.assign(new EventEmitter(), { readable: true, pipe: () => undefined });
    process.nextTick(() => old.emit('error', new Error('broken')));
    await assert.rejects(file.fromReadableStream(old as never), { message: 'broken' });
    await settled();
    assert.equal(await file.toEncodedString(), 'before');
  });

  test('a destination that cannot be created closes the source', async () => {
    const refuse = makeFileStore(slowly(() => Promise.reject(new Error('quota')))).open('a');
    const source = Readable.from(['a']);
    await assert.rejects(refuse.fromReadableStream(source), { message: 'quota' });
    assert.ok(source.destroyed);
    const failing = new Readable({ read() {} });
    process.nextTick(() => failing.destroy(new Error('broken')));
    await assert.rejects(refuse.fromReadableStream(failing), { message: 'quota' });
    await settled();
  });

  test('a host that is not reached, or breaks off the response', async () => {
    const server = createServer((request, response) => {
      if (request.url === '/reset') return request.socket.destroy();
      response.writeHead(200, { 'content-length': '10' }).write('half');
      return setImmediate(() => response.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const files = new FakeFiles();
      files.put('files', 'a', 'before');
      const file = makeFileStore(slowly(files.hostCall)).open('a');
      await assert.rejects(file.fromUrl('http://127.0.0.1:1/'), { message: 'fetch failed' });
      await assert.rejects(file.fromUrl(`${origin}/reset`), { message: 'fetch failed' });
      await assert.rejects(file.fromUrl(`${origin}/half`), { message: 'terminated' });
      await assert.rejects(file.fromUrl('no address'), TypeError);
      await settled();
      assert.equal(await file.toEncodedString(), 'before');
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  test('a local folder that is missing', async () => {
    await using temp = await createTempFolder('files');
    const files = new FakeFiles();
    files.put('files', 'a', large);
    const file = makeFileStore(slowly(files.hostCall)).open('a');
    await assert.rejects(file.toFile(join(temp.path, 'none/out')), { code: 'ENOENT' });
    await assert.rejects(file.toFile(temp.path), { code: 'EISDIR' });
    await settled();
  });

  test('streams that are destroyed while the service is called', async () => {
    const files = new FakeFiles();
    files.put('files', 'a', 'before');
    let isAway = false;
    const store = makeFileStore(async (kind, header, body) => {
      const answer = await files.hostCall(kind, header, body);
      if (isAway) throw new Error('the service is away');
      return answer;
    });
    const file = store.open('a');
    const writing = await file.createWriteStream();
    writing.write(large);
    isAway = true;
    writing.destroy();
    const finishing = await store
      .open('a')
      .createReadStream()
      .catch((error: Error) => error.message);
    assert.equal(finishing, 'the service is away');
    isAway = false;
    const reading = await file.createReadStream();
    reading.read(1);
    isAway = true;
    reading.destroy();
    await settled();
    isAway = false;
    assert.equal(await file.toEncodedString(), 'before');
    const failing = await file.createWriteStream('a/b', 3);
    const failed = once(failing, 'error');
    failing.end('ab');
    assert.match(String((await failed)[0]), /announced with 3 bytes, 2 were written/);
  });
});

function* piecesOf(bytes: Buffer, length: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}
