import assert from 'node:assert/strict';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { patienceMs, within } from '../../test/support/wait-for.ts';
import { parseHosts, parseResolvConf } from './resolver-files.ts';
import { candidates, systemLookup } from './system-lookup.ts';

const records: Record<string, string> = {
  'known.example': '203.0.113.7',
  'short.corp.example': '203.0.113.8',
};
let server: Socket;
let folder: TempFolder;
let asked: string[] = [];
let hosts: string;
let resolvConf: string;

before(async () => {
  server = createSocket('udp4');
  server.on('message', (query, from) => {
    const { name, type, end } = readQuestion(query);
    asked.push(name);
    if (name.endsWith('silent.example')) return;
    const address = type === 1 ? records[name] : undefined;
    server.send(answerTo(query, end, records[name] !== undefined, address), from.port, from.address);
  });
  server.bind(0, '127.0.0.1');
  await once(server, 'listening');
  folder = await createTempFolder('names');
  hosts = join(folder.path, 'hosts');
  resolvConf = join(folder.path, 'resolv.conf');
});

beforeEach(async () => {
  asked = [];
  await writeFile(hosts, '127.0.0.1 localhost\n10.0.0.9 Known.Example # overrides\n10.0.0.5 printer\n');
  await writeFile(resolvConf, 'search corp.example\n');
});

after(async () => {
  server.close();
  await folder.remove();
});

function lookupHere(options: Partial<Parameters<typeof systemLookup>[0]> = {}) {
  return systemLookup({
    servers: [`127.0.0.1:${server.address().port}`],
    files: { hosts, resolvConf },
    threaded: () => Promise.reject(new Error('the system was asked')),
    ...options,
  });
}

test('a name is answered by the hosts file, then by the name server, with the search domains', async () => {
  const lookup = lookupHere();
  assert.deepEqual(await lookup('known.example'), [{ address: '10.0.0.9' }]);
  assert.deepEqual(asked, []);
  await writeFile(hosts, '');
  await utimes(hosts, 1, 1);
  assert.deepEqual(
    await lookup('KNOWN.example'),
    [{ address: '203.0.113.7' }],
    'a changed file is read again',
  );
  assert.deepEqual(await lookup('short'), [{ address: '203.0.113.8' }]);
  assert.deepEqual(await lookup('known.example.'), [{ address: '203.0.113.7' }]);
});

test('a name that is not there is ENOTFOUND, and the threads of the system are not asked', async () => {
  await assert.rejects(lookupHere()('unknown.example'), { code: 'ENOTFOUND' });
  assert.ok(asked.includes('unknown.example.corp.example'));
});

test('many names whose server does not answer hold up no other caller, and end in time with a clear error', async () => {
  const lookup = lookupHere({ lookupMaxMs: 3_000 });
  const hostile = {};
  let over = 0;
  const hung = Array.from({ length: 64 }, (_, index) => lookup(`n${index}.silent.example`, hostile));
  const ends = Promise.all(
    hung.map(async (one) => {
      await assert.rejects(one, { code: 'EAI_AGAIN', message: /no name server answered in time/ });
      over += 1;
    }),
  );
  await writeFile(hosts, '');
  const found = await lookup('known.example', {});
  assert.deepEqual(found, [{ address: '203.0.113.7' }]);
  assert.equal(over, 0, 'it has waited for the others');
  await within(ends, patienceMs, 'the others to fail');
});

test('names that only the system knows are asked there, one for each asker', async () => {
  const underWay: string[] = [];
  const go = Promise.withResolvers<void>();
  const lookup = lookupHere({
    threaded: async (name) => {
      underWay.push(name);
      await go.promise;
      return [{ address: '10.0.0.1' }];
    },
  });
  const greedy = {};
  const all = [lookup('one.local', greedy), lookup('two.local', greedy), lookup('nas', {})];
  await within(untilLength(underWay, 2), patienceMs, 'two look-ups');
  assert.deepEqual(underWay.filter((name) => name.endsWith('.local')).length, 1);
  go.resolve();
  assert.deepEqual((await Promise.all(all)).flat().length, 3);
});

test('without a name server the system is asked', async () => {
  const closed = createSocket('udp4');
  closed.bind(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address();
  closed.close();
  const lookup = lookupHere({
    servers: [`127.0.0.1:${port}`],
    threaded: async () => [{ address: '10.0.0.2' }],
  });
  assert.deepEqual(await lookup('any.example'), [{ address: '10.0.0.2' }]);
});

for (const [name, code] of [
  ['SERVFAIL', 2],
  ['NOTIMP', 4],
  ['REFUSED', 5],
] as const) {
  test(`a name server that answers ${name} is not the last one asked`, async () => {
    await writeFile(hosts, '');
    await using unable = await nameServer((query) => statusTo(query, code));
    await using other = await nameServer((query) => statusTo(query, code));
    const good = `127.0.0.1:${server.address().port}`;
    const lookup = lookupHere({ servers: [unable.address, other.address, good] });
    assert.deepEqual(await lookup('known.example'), [{ address: '203.0.113.7' }]);
    await assert.rejects(lookup('unknown.example'), { code: 'ENOTFOUND' });
    const none = lookupHere({ servers: [unable.address, other.address] });
    await assert.rejects(none('known.example'), { code: 'EAI_AGAIN' });
  });
}

test('a name server that never answers for IPv6 does not hold up the IPv4 addresses', async () => {
  await using deaf = await nameServer((query) => {
    const { type, end } = readQuestion(query);
    return type === 1 ? answerTo(query, end, true, '203.0.113.9') : undefined;
  });
  const lookup = lookupHere({ servers: [deaf.address] });
  const tookMs: number[] = [];
  // A busy machine may be slow; who waits for IPv6 is slow each time.
  while (tookMs.length < 10 && !tookMs.some((ms) => ms < 1_900)) {
    const from = performance.now();
    assert.deepEqual(await lookup('four.example'), [{ address: '203.0.113.9' }]);
    tookMs.push(performance.now() - from);
  }
  assert.ok((tookMs.at(-1) ?? 0) < 1_900, `it took ${tookMs} ms`);
});

test('the files are read as the machine reads them', () => {
  assert.deepEqual(
    [...parseHosts('# x\n::1 localhost ip6\n\n127.0.0.1\tLocalHost\nnonsense name\n')],
    [
      ['localhost', ['::1', '127.0.0.1']],
      ['ip6', ['::1']],
    ],
  );
  const files = parseResolvConf('domain old.example\nsearch a.example b.example.\noptions rotate ndots:2\n');
  assert.deepEqual(files, { search: ['a.example', 'b.example'], ndots: 2 });
  assert.deepEqual(candidates('x.y', files), ['x.y.a.example', 'x.y.b.example', 'x.y']);
  assert.deepEqual(candidates('x.y.z', files), ['x.y.z', 'x.y.z.a.example', 'x.y.z.b.example']);
  assert.deepEqual(candidates('x.', files), ['x']);
});

async function untilLength(list: readonly unknown[], length: number): Promise<void> {
  while (list.length < length) await new Promise(setImmediate);
}

/** A name server of its own; `answer` has nothing to say when it is silent. */
async function nameServer(
  answer: (query: Buffer) => Buffer | undefined,
): Promise<AsyncDisposable & { address: string }> {
  const socket = createSocket('udp4');
  socket.on('message', (query, from) => {
    const text = answer(query);
    if (text !== undefined) socket.send(text, from.port, from.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    [Symbol.asyncDispose]: () => new Promise<void>((done) => socket.close(() => done())),
  };
}

function statusTo(query: Buffer, code: number): Buffer {
  const answer = answerTo(query, readQuestion(query).end, true, undefined);
  answer.writeUInt16BE(0x8180 | code, 2);
  return answer;
}

function readQuestion(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** RFC 1035, 4.1: the question again and at most one A record; no such name when it is unknown. */
function answerTo(query: Buffer, end: number, isKnown: boolean, address: string | undefined): Buffer {
  const header = Buffer.from(query.subarray(0, 12));
  header.writeUInt16BE(isKnown ? 0x8180 : 0x8183, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(address === undefined ? 0 : 1, 6);
  header.writeUInt32BE(0, 8);
  if (address === undefined) return Buffer.concat([header, query.subarray(12, end)]);
  const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]);
  return Buffer.concat([header, query.subarray(12, end), record]);
}
